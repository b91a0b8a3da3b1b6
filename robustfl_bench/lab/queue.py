"""What is worth making: the runs that the papers' tables, their open claims and the arena's panels lack, by value.

A cell of a paper's table without a run at the paper's own settings is worth CELL, which its run of seed 0 gives. An
open claim is worth CLAIM, shared by the runs that its next look lacks: the fewer, the nearer is its verdict. A run of a
panel of the arena is worth PANEL, divided by one more than the seeds that the panel has. All runs of papers come before
the arena's, within each those first that give most value a second. Runs that can be trained together are taken
together.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from robustfl_bench.base.errors import NotReady
from robustfl_bench.base.grouping import grouped
from robustfl_bench.lab.agreement.claim_sheets import hours, words
from robustfl_bench.lab.agreement.measured import MeasuredPaper, WantedRun
from robustfl_bench.lab.arena.track import PAPER, tracks
from robustfl_bench.read.runs import matching
from robustfl_bench.read.runs.cost import HOUR, Costs
from robustfl_bench.read.runs.matching import Config
from robustfl_bench.read.tables.filling import key_of
from robustfl_bench.read.tables.sheets import Sheet
from robustfl_bench.runner.config import compose, options
from robustfl_bench.runner.experiment import answers
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.experiment.rates import no_runs_made
from robustfl_bench.runner.experiment.samples import FREE
from robustfl_bench.runner.store import kept

CELL, CLAIM, PANEL = 1.0, 5.0, 0.01
VALUES = (
    f"values: a paper's cell that is missing at its own settings {CELL:g}; an open claim {CLAIM:g}, shared by the "
    f"runs that its next look lacks; a run of an arena panel {PANEL:g} / (1 + its seeds), after all papers' runs"
)
SHOWN = 10
"""Rows of ``sheet``."""

MOST = 32
"""Runs of a stack, at most: so many are trained together."""

Words = tuple[str, ...]


@dataclass(frozen=True)
class WantedStack:
    """Runs that can be trained together: what asks for them (``raga/table2``), the overrides of each, what they are
    worth, and how long they take one after the other, with what says so. ``rank`` is 0 for papers, which come first,
    and 1 for the arena."""

    name: str
    cells: Sequence[Words]
    value: float
    seconds: float
    source: str
    rank: int = 0

    @property
    def order(self) -> tuple[int, float]:
        """The place in the queue: papers first, then by value a second, stacks of unknown time last."""
        return self.rank, math.inf if math.isnan(self.seconds) else -self.value / max(self.seconds, 1e-9)


def queue(
    papers: Iterable[MeasuredPaper], arena: Iterable[str] | None, costs: Costs, results_dir: str
) -> list[WantedStack]:
    """All stacks that these papers and tracks of the arena want, the first by value; None: the tracks of which no
    result comes with the package."""
    stacks = [stack for paper in papers for stack in _of_paper(paper, costs)]
    with no_runs_made():
        stacks += [
            stack
            for track in (_new_tracks() if arena is None else arena)
            for stack in _of_track(track, costs, results_dir)
        ]
    return sorted(stacks, key=lambda stack: stack.order)


def affordable(stacks: Iterable[WantedStack], seconds: float) -> list[WantedStack]:
    """The first stacks that fit into so many seconds together, the shortest first."""
    fitting = list[WantedStack]()
    for stack in stacks:
        if stack.seconds <= seconds:  # nan is not
            fitting.append(stack)
            seconds -= stack.seconds
    return sorted(fitting, key=lambda stack: stack.seconds)


def by_name(stacks: Iterable[WantedStack]) -> list[tuple[WantedStack, int]]:
    """The stacks for the same table or track as one, with their number, the first by value a second."""
    joined = [(_joined(alike), len(alike)) for alike in grouped((stack.name, stack) for stack in stacks).values()]
    return sorted(joined, key=lambda one: one[0].order)


def _joined(stacks: Sequence[WantedStack]) -> WantedStack:
    cells = [cell for stack in stacks for cell in stack.cells]
    value, seconds = (sum(map(attrgetter(name), stacks)) for name in ("value", "seconds"))
    return replace(stacks[0], cells=cells, value=value, seconds=seconds)


def sheet(stacks: Iterable[WantedStack]) -> Sheet:
    """The tables and tracks whose stacks give most value for time, a row each."""
    known = by_name(stack for stack in stacks if not math.isnan(stack.seconds))[:SHOWN]
    return Sheet(
        above=[f"The queue: the {len(known)} entries that give most value for time"],
        heading=["for", "runs", "stacks", "value", "hours"],
        rows=[words(whole.name, str(len(whole.cells)), str(number), f"{whole.value:.1f}", hours(whole.seconds / HOUR))
              for whole, number in known],
        labels=1,
        footnotes=[
            VALUES, "stack: runs that are trained together; hours of one core; `robustfl-bench fill --minutes M` makes "
            "those of most value, `robustfl-bench fill raga/table2 --minutes M` those of one entry",
        ],
    )  # fmt: skip


def _of_paper(paper: MeasuredPaper, costs: Costs) -> Iterator[WantedStack]:
    """The runs that a paper's tables lack, in stacks."""
    steps = [(claim.verdict.claim.table, step) for claim in paper.open_claims if (step := claim.next)]
    for name, filling in paper.fillings.items():
        worth = defaultdict[WantedRun, float](float)
        for cell in filling.described.cells if filling.table.compared and not filling.table.order_only else ():
            held = filling.table.cells[key_of(cell)]
            if cell.overrides in filling.wanted and (held.state in ("missing", "too small") or held.stand_in):
                worth[WantedRun(cell.overrides, 0)] += CELL
        for step in (step for table, step in steps if table == name):
            for run in step.runs:
                worth[run] += CLAIM / len(step.runs)
        yield from _stacks(name, worth, filling.wanted, costs)


def _stacks(
    name: str, worth: Mapping[WantedRun, float], wanted: Mapping[Words, Config], costs: Costs
) -> Iterator[WantedStack]:
    """Runs in stacks: those that share all but what runs of a stack may differ in."""
    alike = defaultdict[Hashable, list[WantedRun]](list)
    for run in sorted(worth, key=worth.__getitem__, reverse=True):
        shared = frozenset(item for item in wanted[run.overrides].items() if item[0].partition(".")[0] not in FREE)
        alike[shared, run.seed].append(run)
    for runs in alike.values():
        for place in range(0, len(runs), MOST):
            some = runs[place : place + MOST]
            cost = costs.of(wanted[run.overrides] for run in some)
            cells = [(*run.overrides, f"seed={run.seed}") for run in some]
            yield WantedStack(name, cells, sum(worth[run] for run in some), cost.seconds, cost.source)


def _new_tracks() -> Iterator[str]:
    """The tracks of the arena without kept results: those that are begun may be as they should."""
    for name in tracks():
        if options.exists("experiment", rates := f"{PAPER}/{name}_rates"):
            first = compose.resolve(compose.sweep([f"+experiment={rates}"])[0])
            if kept.find(first.run_id) is None:
                yield name


def _of_track(name: str, costs: Costs, results_dir: str) -> Iterator[WantedStack]:
    """The runs that the panels of a track lack, in stacks: those that choose the rates of a partition come first, and
    the runs of its panels wait for them. The first and the last run of a stack stand for all of it."""
    seeds = defaultdict[Hashable, int](int)
    waiting = set[str]()
    for experiment in (f"{PAPER}/{name}_rates", f"{PAPER}/{name}_honest", f"{PAPER}/{name}"):
        for (partition, number, _), cells in _alike(experiment).items():
            if partition in waiting:
                continue
            pieces = [cells[first : first + MOST] for first in range(0, len(cells), MOST)]
            lacking = [] if _are_made(cells, results_dir) else [of for of in pieces if not _are_made(of, results_dir)]
            for some in lacking:
                one = costs.of([matching.config(compose.resolve([*some[0], "lr=1"]).identity)])
                worth = PANEL * len(some) / (1 + seeds[partition, number])
                yield WantedStack(f"{PAPER}/{name}", some, worth, one.seconds * len(some), one.source, 1)
            if lacking and experiment.endswith("_rates"):
                waiting.add(partition)
            seeds[partition, number] += not lacking


def _alike(experiment: str) -> Mapping[tuple[str, ...], list[Words]]:
    """The runs of an experiment by partition, number of attackers and seed; none without such an experiment."""
    alike = defaultdict[tuple[str, ...], list[Words]](list)
    for cell in compose.sweep([f"+experiment={experiment}"]) if options.exists("experiment", experiment) else ():
        values = dict(word.split("=", 1) for word in cell)
        alike[tuple(values.get(key, "") for key in ("partition", "num_byzantine", "seed"))].append(cell)
    return alike


def _are_made(cells: Sequence[Words], results_dir: str) -> bool:
    """Whether the results of the first and of the last run are in the folder, or come with the package."""
    try:
        ends = [Request(compose.resolve([*cells[place], f"results_dir={results_dir}"]).config) for place in (0, -1)]
    except NotReady:  # their rate waits for other runs
        return False
    return all(answers.existing(end, lambda _: None) or answers.status(end) for end in ends)
