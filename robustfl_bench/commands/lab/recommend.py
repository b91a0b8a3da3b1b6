"""``robustfl-results recommend``: which rule to use. It answers from a file, so it imports nothing heavy."""

import os
from typing import TYPE_CHECKING, Annotated

from robustfl_bench.base.console import as_json
from robustfl_bench.commands.shared import RESULTS, RunSource
from robustfl_bench.commands.verb import Argument, command
from robustfl_bench.lab.arena import decision
from robustfl_bench.read.tables import sheets

if TYPE_CHECKING:
    from robustfl_bench.lab.arena.panels import Arena

Book = Annotated[
    str,
    Argument("the rule book: plain, rules as they come, or tuned in each panel (%(default)s)", choices=decision.BOOKS),
]


def _tracks(**_: object) -> list[str]:
    from robustfl_bench.lab.arena.track import tracks

    return tracks()


def recommend(
    *,
    partition: Annotated[
        str, Argument("how data lie at the clients: iid, label_skew, hospitals", "NAME", tab=lambda **_: decision.MEANT)
    ],
    attackers: Annotated[str, Argument("share of the clients, or their number: 0.2", "SHARE")],
    server_data: Annotated[str, Argument("whether the server has samples (%(default)s)", choices=("yes", "no"))] = "no",
    why: Annotated[bool, Argument("show all rules that may be the best, the conditions and the limits")] = False,
    own_runs: Annotated[bool, Argument(f"count the runs in {RESULTS}/ too, which takes some seconds")] = False,
    track: Annotated[
        str | None,
        Argument(
            f"the arena's track (the first of {', '.join(decision.TRACKS)} that has the panel)",
            "TRACK",
            flags=("--track", "--arena"),
            tab=_tracks,
        ),
    ] = None,
    format: Annotated[str, Argument(choices=(*sheets.FORMATS, "md"))] = "text",
    book: Book = "plain",
    runs: RunSource,
) -> None:
    """Which rule to use against which share of attackers."""
    reads, case = server_data == "yes", None
    if not (own_runs or runs.results_dir or runs.archives or runs.unsealed):
        case = decision.decide(decision.read(), partition, attackers, reads, book, track)
    if case is None:
        case = _computed(partition, attackers, reads, track, book, runs)
    if format == "json":
        print(as_json(case), end="")
    elif format == "text" and not why:
        print(*decision.lines(case), sep="\n")
        has_others = not own_runs and os.path.isdir(f"{RESULTS}/runs")
        others = f"; --own-runs counts your runs in {RESULTS}/ too" * has_others
        others += "; without --own-runs other data and backdoors count too" * own_runs
        print(f"--why shows the rest; --format json is for programs{others}.")
    else:
        from robustfl_bench.lab.arena.answers.recommend import sheet

        print(sheets.FORMATS["markdown" if format == "md" else format]([sheet(case)]), end="")


def _computed(
    partition: str, attackers: str, server_data: bool, track: str | None, book: str, runs: RunSource
) -> decision.Facts:
    """The case by the runs that are asked for."""
    from robustfl_bench.lab.arena.answers import recommend
    from robustfl_bench.lab.arena.panels import Arena
    from robustfl_bench.lab.arena.tuned import BOOKS

    def arena(track: str) -> "Arena":
        return Arena(runs.load_any(of_arena=True, folders=(track, f"{track}_{book}")), track, BOOKS[book])

    if track is None:
        return recommend.newest(arena, partition, attackers, server_data, BOOKS[book]).facts
    return recommend.recommend(arena(track), partition, attackers, server_data).facts


main = command(recommend, "robustfl-results recommend", prefix="robustfl-results", allow=True)
