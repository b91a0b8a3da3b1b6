"""Papers as measured: their tables filled with runs, the verdicts on their claims, and what would decide open ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from robustfl_bench.base.late import pd
from robustfl_bench.lab.agreement.verdicts import (
    FEW,
    UNDECIDED,
    UNTESTED,
    Known,
    Verdict,
    cells_of,
    extreme_of,
    judge,
    numbers,
    one_suffices,
)
from robustfl_bench.read.runs import matching
from robustfl_bench.read.runs.cost import Cost, Costs
from robustfl_bench.read.runs.matching import Index
from robustfl_bench.read.tables.claims import Comparison, Key, Reason, Side, reasons_by_cell
from robustfl_bench.read.tables.compare import difference, filled
from robustfl_bench.read.tables.described import Paper
from robustfl_bench.read.tables.filling import Filling, Overrides, key_of
from robustfl_bench.read.tables.table import INFEASIBLE, NOT_YET, Cell, Table
from robustfl_bench.runner.config import identity

if TYPE_CHECKING:
    from robustfl_bench.runner.experiment.speed import Speed


NO_LOOKS = "no looks are planned"
EXHAUSTED = "open at the last look"


@dataclass(frozen=True)
class WantedRun:
    """A run that a claim lacks, by the overrides of its cell and its seed."""

    overrides: Overrides
    seed: int


@dataclass(frozen=True)
class Step:
    """The ``runs`` that a claim lacks for the look at this number of seeds."""

    look: int
    runs: tuple[WantedRun, ...]
    cost: Cost


class Open:
    """A claim that is open: its ``verdict``, and the table that it is about, filled with runs."""

    def __init__(self, verdict: Verdict, filling: Filling, costs: Costs) -> None:
        self.verdict, self._filling, self._costs = verdict, filling, costs
        self._looks = filling.described.looks
        self._overrides = {key_of(cell): cell.overrides for cell in filling.described.cells}

    @cached_property
    def next(self) -> Step | None:
        """The next look at comparisons that are not proven; None if there is none, or if no run can decide the claim.

        A single comparison that is refuted decides a claim. So the one that is most false on average gets seeds first,
        alone; if none is false, all get them. Once one is open at its last look the claim cannot hold any more, and
        others that are true on average would not decide it."""
        looks = {} if self.blocked else {one: look for one in self._comparisons if (look := self._next(one)[0])}
        if not looks:
            return None
        if false := [finding for finding in self.verdict.findings if not finding.true and finding.comparison in looks]:
            refutable = min(false, key=lambda finding: (looks[finding.comparison], finding.margin)).comparison
            return self._step(looks[refutable], [refutable])
        if len(looks) < len(self._comparisons):
            return None
        return self._step(min(looks.values()), self._comparisons)

    @property
    def wait(self) -> float:
        """The seconds of one core that the next look takes: 0 if there is none, infinite if unknown."""
        if self.next is None:
            return 0.0
        return math.inf if math.isnan(self.next.cost.seconds) else self.next.cost.seconds

    @property
    def last(self) -> Step | None:
        """The last look, if every look before it leaves the claim open."""
        return self._step(max(self._looks), self._comparisons) if self.next else None

    @property
    def blocked(self) -> str:
        """Why no run can decide the claim; empty if one could."""
        cells = self._filling.table.cells
        reasons = {INFEASIBLE: "the rule cannot be run", NOT_YET: "this version lacks the option"}
        for comparison in self._comparisons:
            for key in self._cells(comparison):
                if words := reasons.get(cells[key].state):
                    return f"{words} in {' / '.join(filter(None, key))}"
        return ""

    @property
    def stands(self) -> str:
        """Why there is no next look."""
        return (self.blocked or EXHAUSTED) if self._looks else NO_LOOKS

    @property
    def exhausted(self) -> bool:
        """Whether the claim has been tested at all planned looks, by numbers of all its cells, and is still open."""
        return self.verdict.word == FEW and self.next is None and self.stands == EXHAUSTED

    @property
    def _comparisons(self) -> Sequence[Comparison]:
        """Those that are not proven."""
        proven = {finding.comparison for finding in self.verdict.findings if finding.proven}
        return [one for one in self.verdict.claim.comparisons if one not in proven]

    def _next(self, comparison: Comparison) -> tuple[int, Sequence[Key]]:
        """The first look that a comparison lacks seeds for, and the cells that need them; 0 if it has been tested at
        all of them. First those that suffice to prove it get seeds, if it is true on average; then all."""
        decisive = [self._decisive(comparison)] if comparison in self._true else []
        for keys in (*decisive, self._cells(comparison)):
            seeds = min(map(self._seeds, keys), default=0)
            if look := next((look for look in self._looks if look > seeds), 0):
                return look, keys
        return 0, ()

    def _step(self, look: int, comparisons: Sequence[Comparison]) -> Step:
        lacking = (keys for one in comparisons for first, keys in [self._next(one)] if 0 < first <= look)
        runs = dict.fromkeys(run for keys in lacking for key in keys for run in self._lacking(key, look))
        return Step(look, tuple(runs), self._costs.of(self._filling.wanted[run.overrides] for run in runs))

    @cached_property
    def _true(self) -> set[Comparison]:
        """The comparisons that are true on average."""
        return {finding.comparison for finding in self.verdict.findings if finding.true}

    @cached_property
    def _known(self) -> Known:
        return numbers(self._filling.table)

    def _cells(self, comparison: Comparison) -> list[Key]:
        """The cells with runs that a comparison is about."""
        return [key for side in (comparison.left, comparison.right) for key in cells_of(side, self._filling.table)]

    def _decisive(self, comparison: Comparison) -> list[Key]:
        """Those that are enough to prove it: of an extreme that one cell can prove, the cell that attains it."""
        table = self._filling.table
        sides = zip((comparison.left, comparison.right), one_suffices(comparison, table), strict=True)
        return [key for side, one in sides for key in ([self._attaining(side)] if one else cells_of(side, table))]

    def _attaining(self, side: Side) -> Key:
        extreme = min if extreme_of(side, self._filling.table) == "min" else max
        known = filter(self._known.__contains__, cells_of(side, self._filling.table))
        return extreme(known, key=lambda key: self._known[key].mean)

    def _seeds(self, key: Key) -> int:
        """How many of the seeds from 0 on a cell has."""
        done = self._done(key)
        return next(seed for seed in range(len(done) + 1) if str(seed) not in done)

    def _done(self, key: Key) -> set[str]:
        cell = self._filling.table.cells[key]
        return set() if cell.stand_in else {*cell.numbers}

    def _lacking(self, key: Key, look: int) -> Iterator[WantedRun]:
        """The runs of a cell, and those that its numbers are relative to."""
        overrides = self._overrides[key] or ()
        seeds = [seed for seed in range(look) if str(seed) not in self._done(key)]
        if self._filling.table.column(key[2]).value.name == "mrd":
            yield from self._references(overrides, seeds)
        yield from (WantedRun(overrides, seed) for seed in seeds)

    def _references(self, overrides: Overrides, seeds: Iterable[int]) -> Iterator[WantedRun]:
        """The runs of the table that recalls are compared with."""
        filling = self._filling
        config = matching.config(identity.of(identity.reference(filling.resolved[overrides].config)))
        for other in (key for key, wanted in filling.wanted.items() if wanted == config):
            ended = {run["seed"] for run in filling.runs_at(other) if run["state"] == "finished"}
            yield from (WantedRun(other, seed) for seed in seeds if str(seed) not in ended)
            return


@dataclass(frozen=True)
class MeasuredPaper:
    """A paper's measured tables by name, and the verdicts on its claims. ``fillings`` say how the tables were filled.

    ``stood_in`` has, by its place among the ``verdicts``, what stand-ins say of a claim that is open. ``open_claims``
    have what would decide them. ``standing_in`` is the paper with the settings of each of its stand-ins, reduced to the
    claims that are open by stand-ins too, and their tables, without stand-ins that have not learned. ``reasons`` say
    why cells are outside. ``overrides`` changed all cells, and ``changed`` is how their settings differ from the
    paper's, in words.
    """

    name: str
    title: str
    tables: Mapping[str, Table]
    verdicts: Sequence[Verdict]
    stood_in: Mapping[int, tuple[str, Verdict]] = field(default_factory=dict)
    open_claims: Sequence[Open] = ()
    standing_in: Sequence[MeasuredPaper] = ()
    reasons: Sequence[Reason] = ()
    overrides: tuple[str, ...] = ()
    changed: str = ""
    fillings: Mapping[str, Filling] = field(default_factory=dict)

    @property
    def compared(self) -> list[Table]:
        """The tables whose numbers can be compared with published ones."""
        return [table for table in self.tables.values() if table.compared and not table.order_only]

    @property
    def words(self) -> list[str]:
        """The word of each verdict, UNDECIDED for a claim that all planned looks leave open."""
        exhausted = {id(one.verdict) for one in self.open_claims if one.exhausted}
        return [UNDECIDED if id(verdict) in exhausted else verdict.word for verdict in self.verdicts]

    @property
    def outside(self) -> Iterator[tuple[str, Key, Cell, Reason | None]]:
        """The cells of the paper's own settings that are outside, by table, each with its reason."""
        for name, table in self.tables.items():
            known = reasons_by_cell(self.reasons, name)
            for key, cell in table.judged.items() if not table.order_only else ():
                if cell.inside is False:
                    yield name, key, cell, known.get(key)


def scored(
    known: Mapping[str, Paper], runs: pd.DataFrame | Evidence, overrides: Sequence[str] = ()
) -> list[MeasuredPaper]:
    """Papers measured by ``runs``, also with the settings of their stand-ins; ``overrides`` change every cell of their
    tables, and leave stand-ins out.

    Raises ConfigError for overrides that no cell can have and for runs that would be mixed although they differ.
    """
    evidence = runs if isinstance(runs, Evidence) else Evidence(runs)
    measured = [_scored(name, paper, evidence, tuple(overrides)) for name, paper in known.items()]
    if overrides:
        return measured
    return [replace(paper, standing_in=[_scored(paper.name, part, evidence, changes)
                                        for changes, part in _reduced(known[paper.name], paper)])
            for paper in measured]  # fmt: skip


class Evidence:
    """Runs, with their settings and their times, or those of the device of this ``speed``."""

    def __init__(self, runs: pd.DataFrame, speed: Speed | None = None) -> None:
        self.runs, self.index = runs, Index(runs)
        self.costs = Costs(runs, self.index, speed)


def _reduced(described: Paper, measured: MeasuredPaper) -> Iterator[tuple[tuple[str, ...], Paper]]:
    """The overrides of a paper's stand-ins, each with the paper reduced to the claims that are open by stand-ins too,
    of tables that allow them."""
    decided = {place for place, (_, verdict) in measured.stood_in.items() if verdict.decided}
    still_open = [verdict.claim for place, verdict in enumerate(measured.verdicts)
                  if not verdict.decided and place not in decided]  # fmt: skip
    allowed = {claim.table: [one for one in described.tables[claim.table].stand_ins
                             if one not in measured.tables[claim.table].too_small] for claim in still_open}  # fmt: skip
    for overrides in dict.fromkeys(one for several in allowed.values() for one in several):
        tables = {name: described.tables[name] for name, several in allowed.items() if overrides in several}
        claims = tuple(claim for claim in still_open if claim.table in tables)
        yield overrides, replace(described, tables=tables, claims=claims)


def _scored(name: str, paper: Paper, evidence: Evidence, overrides: tuple[str, ...]) -> MeasuredPaper:
    runs, index, costs = evidence.runs, evidence.index, evidence.costs
    fillings = {full: filled(table, runs, runs, index, overrides) for full, table in paper.tables.items()}
    tables = {full: filling.table for full, filling in fillings.items()}
    verdicts = [judge(claim, tables[claim.table], paper.tables[claim.table].looks) for claim in paper.claims]
    stood_in = {place: best for place, verdict in enumerate(verdicts)
                if not verdict.decided and (best := _stood_in(verdict, fillings[verdict.claim.table]))}  # fmt: skip
    still_open = [Open(verdict, fillings[verdict.claim.table], costs) for verdict in verdicts if not verdict.decided]
    measured = MeasuredPaper(name, paper.title, tables, verdicts, stood_in, still_open, fillings=fillings)
    if not overrides:
        return replace(measured, reasons=paper.reasons)
    own = {full: Filling(table, (), runs, runs, index) for full, table in paper.tables.items()}
    changes = (difference(own[full].wanted, filling.wanted) for full, filling in fillings.items())
    tables = {full: replace(table, order_only=True) for full, table in tables.items()}
    changed = "; ".join(dict.fromkeys(changes))
    return replace(measured, tables=tables, overrides=overrides, changed=changed)


def _stood_in(verdict: Verdict, filling: Filling) -> tuple[str, Verdict] | None:
    """The verdict of the first stand-in that decides a claim, or else of the one that measured most of it, with what
    differs."""
    looks = filling.described.looks
    judged = [(words, judge(verdict.claim, table, looks)) for words, table in filling.table.stand_ins.items()]
    tested = [(words, other) for words, other in judged if other.findings]
    order = {FEW: 1, UNTESTED: 2}
    return min(tested, key=lambda item: (order.get(item[1].word, 0), -len(item[1].findings)), default=None)
