"""The runs of a track of the arena, by rule, partition, attack and seed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from robustfl_bench.config import options, presets
from robustfl_bench.config.rates import best
from robustfl_bench.results import matching
from robustfl_bench.results.records import MEASURED, NoRuns, last_metrics
from robustfl_bench.results.where import check_name

if TYPE_CHECKING:
    import pandas as pd

PAPER = "arena"
HONEST = "honest clients' mean"
"""Stands for the attack that sends the honest mean, and for the plain mean under it: a row of reference."""

NONE, BACKDOOR = "none", "backdoor"
_SUFFIXES = ("_rates", "_declared", "_honest", "_double")
_FREE = ("aggregator", "partition", "attack")
_COUNTS = ("num_byzantine", "lr", "validation_share")

Content = frozenset[tuple[str, str]]
"""The settings of a part, as text by key."""


@dataclass(frozen=True)
class Run:
    """One run of a track.

    ``declared`` is the number of attackers that the rule assumes, None for a rule that assumes none. ``accuracy`` (a
    fraction; 0 where the model diverged, nan where the rule cannot be run) and ``recall`` are of the last round;
    ``success`` is that of a backdoor, nan for other attacks. ``row`` is its place in the table of runs. ``validated``
    says whether validation chose its rate.
    """

    rule: str
    partition: str
    attack: str
    num_byzantine: int
    declared: int | None
    seed: str
    lr: float
    state: str
    accuracy: float
    recall: Sequence[float] | None
    success: float
    row: int
    validated: bool = False


def tracks() -> list[str]:
    """The names of the tracks."""
    names = (name.partition("/")[2] for name in options.names("experiment") if name.startswith(f"{PAPER}/"))
    return [name for name in names if not name.endswith(_SUFFIXES)]


def track_and_runs(table: pd.DataFrame, name: str) -> tuple[Track, list[Run]]:
    """The track of this name and its runs. Raises ConfigError for an unknown track, NoRuns if it has none."""
    check_name(name, tracks(), "track")
    track = Track(name)
    if not (runs := track.runs(table)):
        raise NoRuns(f"no runs of {track.experiment}; robustfl-bench -m +experiment={track.experiment} makes them")
    return track, runs


class Track:
    """A protocol: the experiment ``arena/NAME``, and those beside it that choose rates and make the reference."""

    def __init__(self, name: str) -> None:
        self.experiment = f"{PAPER}/{name}"
        self.swept = presets.swept([f"+experiment={self.experiment}"])

    @property
    def cells(self) -> int:
        """How many a rule has with each number of attackers: partition, attack and seed."""
        return math.prod(len(self.swept[key]) for key in ("seed", "partition", "attack"))

    @property
    def numbers(self) -> list[int]:
        """The numbers of attackers."""
        return sorted(map(int, self.swept["num_byzantine"]))

    @cached_property
    def clients(self) -> int:
        """How many clients there are, attackers among them."""
        return int(presets.resolve([f"+experiment={self.experiment}", "lr=1"]).config["num_clients"])

    def title(self, number: int) -> str:
        """What stands above its results with so many attackers."""
        return f"Arena {self.experiment.partition('/')[2]}: {number} of {self.clients} clients are attackers"

    @cached_property
    def _fixed(self) -> matching.Config:
        config = _config(self.experiment)
        return {key: value for key, value in config.items() if key.split(".")[0] not in (*_FREE, *_COUNTS)}

    @cached_property
    def _names(self) -> Mapping[str, Mapping[Content, str]]:
        """The partitions and the attacks by their content."""
        found = {
            group: {_content(_config(self.experiment, f"{group}={name}"), group): name for name in self.swept[group]}
            for group in ("partition", "attack")
        }
        if options.exists("experiment", honest := f"{self.experiment}_honest"):
            found["attack"][_content(_config(honest), "attack")] = HONEST
        return found

    def runs(self, table: pd.DataFrame) -> list[Run]:
        """The runs of ``records.load`` that belong to this protocol, at the rate that validation chose.

        A rule is called by the option that was chosen; where one option was run with several values of its own, they
        are in the name. Without the runs that choose rates, those at all rates are taken.
        """
        found, rates = [], defaultdict[tuple[str, str], dict[float, list[float]]](lambda: defaultdict(list))
        contents: dict[str, list[Content]] = defaultdict(list)
        rows = table.to_dict("records")
        held = [(place, config) for place, config in enumerate(matching.configs(table)) if self._holds(config)]
        for place, config in held:
            content = _undeclared(_content(config, "aggregator"))
            if content not in (known := contents[str(rows[place]["aggregator"])]):
                known.append(content)
        for place, config in held:
            partition = self._names["partition"].get(_content(config, "partition"))
            attack = self._names["attack"].get(_content(config, "attack"))
            if partition is None or attack is None:
                continue
            run = _run(rows[place], place, config, partition, attack, contents)
            if "validation_share" in config:
                number = rows[place]["validation_accuracy"]
                rates[run.rule, partition][run.lr].append(0 if math.isnan(number) else number)
            elif run.state in (*MEASURED, "infeasible"):
                found.append(run)
        chosen = {place: best(validated) for place, validated in rates.items()}
        return [replace(run, validated=(run.rule, run.partition) in chosen) for run in found
                if chosen.get((run.rule, run.partition), run.lr) == run.lr]  # fmt: skip

    def _holds(self, config: matching.Config) -> bool:
        names = [key for key in config if key.split(".")[0] not in (*_FREE, *_COUNTS)]
        return len(names) == len(self._fixed) and all(config[key] == self._fixed.get(key) for key in names)


def _run(
    row: Mapping[Any, Any], place: int, config: matching.Config, partition: str, attack: str,
    contents: Mapping[str, Sequence[Content]],
) -> Run:  # fmt: skip
    rule, own = str(row["aggregator"]), _content(config, "aggregator")
    others = contents[rule]
    if len(others) > 1:
        common = frozenset.intersection(*others)
        told = " ".join(f"{key}={value}" for key, value in sorted(_undeclared(own) - common))
        rule = f"{rule} {told}".strip()
    declared = {int(value) for key, value in own if _is_declared(key)}
    state = str(row["state"])
    return Run(
        rule=HONEST if attack == HONEST else rule,
        partition=partition,
        attack=attack,
        num_byzantine=int(config["num_byzantine"]),
        declared=declared.pop() if declared else None,
        seed=str(row["seed"]),
        lr=float(config["lr"]),
        state=state,
        accuracy=0.0 if state == "diverged" else float(row["final_accuracy"]),
        recall=row["recall"] if isinstance(row["recall"], list) else None,
        success=_success(row) if attack == BACKDOOR and state == "finished" else math.nan,
        row=place,
    )


def _success(row: Mapping[Any, Any]) -> float:
    last = row["last"] if isinstance(row["last"], dict) else last_metrics(row["folder"])
    return float(last.get("attack_success_rate", math.nan))


def _config(experiment: str, *overrides: str) -> matching.Config:
    """The settings of one run of an experiment; its rate, which takes runs to choose, does not matter here."""
    return matching.config(presets.resolve([f"+experiment={experiment}", "lr=1", *overrides]).identity)


def _content(config: matching.Config, group: str) -> Content:
    return frozenset((key, value) for key, value in config.items() if key.split(".")[0] == group)


def _undeclared(content: Content) -> Content:
    return frozenset((key, value) for key, value in content if not _is_declared(key))


def _is_declared(key: str) -> bool:
    return key.endswith(".num_byzantine")


def settle(runs: Sequence[Run], num_byzantine: int) -> Iterator[Run]:
    """The runs with so many attackers where the server assumes that many, and those without attack."""
    for run in runs:
        if run.declared in (None, num_byzantine) and run.num_byzantine in (0, num_byzantine):
            yield run


def by_number(track: Track, runs: Sequence[Run]) -> dict[int, list[Run]]:
    """The runs with each number of attackers that any rule was attacked by; with all numbers where none was."""
    found = {number: list(settle(runs, number)) for number in track.numbers}
    attacked = {number for number, of in found.items() if any(run.attack not in (NONE, HONEST) for run in of)}
    return {number: of for number, of in found.items() if number in attacked or not attacked}
