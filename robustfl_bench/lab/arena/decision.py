"""Which rule to use, from the file that ``make arena`` writes with the board: every case that it can answer, each as
``recommend.Recommendation.facts`` has it. Imports nothing heavy, so the answer takes a moment."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError, DataError, similar
from robustfl_bench.lab.arena import words
from robustfl_bench.runner.store.kept import ARENA, FOLDER

Facts = Mapping[str, Any]
"""What is known of a case: a partition with a number of attackers, with or without server data, in a rule book."""

FILE = FOLDER / ARENA / "decisions.json"

TRACKS = ("silos", "digits", "hospitals", "devices")
"""The tracks that answer by default: the versions of the arena, the newest first, a few unequal sites, and many
devices."""

BOOKS = ("plain", "tuned")
"""The rule books: rules as they come, and rules tuned in each panel."""

ALONE = "server"
"""The rule that trains on the server's own samples alone."""

BASELINE = "0 is guessing, 100 what the honest clients reach alone"
"""What a score is compared with."""

SKEWED = {
    "mild_dirichlet": "every client has several classes, unequally",
    "fang": "every client leans to one class",
    "step": "every client has more of a few classes",
    "pathological": "every client has a few classes and no others",
}
"""The partitions with label skew, and what they are."""

MEANT = {
    **dict.fromkeys(("label_skew", "non_iid", "noniid", "skew", "heterogeneous"), tuple(SKEWED)),
    **dict.fromkeys(("like", "like_data", "homogeneous", "uniform"), ("iid",)),
    **dict.fromkeys(("strong_label_skew", "shards", "classes_per_client"), ("pathological",)),
    **dict.fromkeys(("mild_label_skew", "dirichlet"), ("mild_dirichlet",)),
    **dict.fromkeys(("hospitals", "quantity", "size_skew", "sites", "unequal", "unequal_sites"), ("quantity_skew",)),
    **dict.fromkeys(("phones", "devices", "by_writer"), ("natural",)),
}
"""What users call the partitions; several names of partitions where it is not one of them."""

_RECOMMEND = "robustfl-results recommend --track {} --partition mild_dirichlet --attackers 0.2"

OTHERWISE = {
    **dict.fromkeys(("text", "words", "nlp", "language"), _RECOMMEND.format("text")),
    **dict.fromkeys(("images", "fashion", "vision"), _RECOMMEND.format("fashion")),
    "momentum": _RECOMMEND.format("fashion_momentum"),
    **dict.fromkeys(("dropout", "absent", "stragglers", "availability"), _RECOMMEND.format("silos_dropout")),
    **dict.fromkeys(("backdoor", "backdoors", "targeted"), "robustfl-results arena fashion --view targeted"),
}
"""What users ask for that is no partition, and the line that answers it."""

_NEAR = 0.005  # of the clients: shares that differ by less are the same


def read(file: Path = FILE) -> list[Facts]:
    """All cases. Raises DataError for a file that is not there."""
    try:
        cases: list[Facts] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {file}: {error}; `make arena` writes it") from error
    return cases


def decide(
    cases: Sequence[Facts], partition: str, attackers: str, server_data: bool, book: str, track: str | None = None
) -> Facts | None:
    """The case that is asked for; None where a track or a book is not whole among the cases. Raises ConfigError for a
    partition or a number of attackers that was not run."""
    of_book = [case for case in cases if case["book"] == book]
    held = [case for case in of_book if track in (None, case["arena"])]
    others = {case["partition"] for case in of_book if case not in held}
    if not held or any(case["partition"] in others for case in held):  # of such a track, not all cases are there
        return None
    meant = partition_meant(list(dict.fromkeys(case["partition"] for case in held)), partition)
    held = [case for case in held if case["partition"] == meant]
    number = number_meant(
        attackers, held[0]["clients"], list(dict.fromkeys(case["attackers"] for case in held)), meant, server_data
    )
    return next((case for case in held if (case["attackers"], case["server_data"]) == (number, server_data)), None)


def partition_meant(known: Sequence[str], asked: str) -> str:
    """The partition of this name, of one that users have for it, or the only one whose name contains it."""
    name = asked.strip().lower().replace("-", "_").replace(" ", "_")
    if asked in known or name in known:
        return asked if asked in known else name
    meant = [partition for partition in MEANT.get(name, ()) if partition in known]
    alike = meant or [partition for partition in known if name and name in partition]
    if len(alike) == 1:
        return alike[0]
    if meant:
        kinds = ", ".join(f"{partition} ({SKEWED[partition]})" for partition in meant)
        raise ConfigError(f"partition {asked!r} can mean {kinds}; ask for one of these, as --partition {meant[0]}")
    if name in OTHERWISE:
        raise ConfigError(f"{asked!r} is no partition, which says what clients hold; ask {OTHERWISE[name]}")
    close = similar(asked, [*known, *(word for word, of in MEANT.items() if any(name in known for name in of))])
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(sorted(known))}"
    raise ConfigError(f"unknown partition {asked!r}; {hint}")


def number_meant(asked: str, clients: int, numbers: Sequence[int], partition: str, server_data: bool) -> int:
    """The number of attackers, given as such or as a share of the clients: 0.2, 20%, 5. Raises ConfigError with the
    nearest of the ``numbers`` that were run and the line to type for it."""
    shares = {number: round(number / clients, 3) for number in numbers}
    try:
        value = float(asked.removesuffix("%")) / (100 if asked.endswith("%") else 1)
    except ValueError:
        value = math.nan
    for number, share in shares.items():
        if value == number or abs(value - share) < _NEAR:
            return number
    if not 0 <= value < math.inf:
        raise ConfigError(f"--attackers takes a share of the clients, such as 0.2 or 20%, or a number, got {asked!r}")
    listed = ", ".join(f"{share:g}" for share in shares.values())
    line = f"--attackers {asked} was not run; known: {listed} of {clients} clients, or {', '.join(map(str, numbers))}"
    share = value if value < 1 else value / clients
    nearest = min(numbers, key=lambda number: (round(abs(shares[number] - share), 6), -number))
    again = f"robustfl-results recommend --partition {partition} --attackers {shares[nearest]:g}"
    raise ConfigError(f"{line}; nearest: {shares[nearest]:g}, {again}{' --server-data yes' * server_data}")


def lines(case: Facts) -> list[str]:
    """The answer for a reader, in at most ten lines."""
    return words.lines("cases.decision", case=case, share=share_of(case), scored=scored, ALONE=ALONE, BASELINE=BASELINE)


def share_of(case: Facts) -> str:
    """The share of the clients that attack."""
    return f"{round(100 * case['attackers'] / case['clients'], 1):g}%"


def scored(part: Facts, digits: int = 0) -> str:
    """A score with its interval."""
    if part["score"] is None:
        return ""
    bounds = part["interval"]
    return f"{part['score']:.{digits}f}" + (f" ({bounds[0]:.0f} to {bounds[1]:.0f})" if bounds else "")
