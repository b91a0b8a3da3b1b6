"""Papers as measured: their tables filled with runs, and the verdicts on their claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from robustfl_bench.lab.agreement.decisions import Open
from robustfl_bench.lab.agreement.verdicts import FEW, UNDECIDED, UNTESTED, Verdict, judge
from robustfl_bench.read.runs.cost import Costs
from robustfl_bench.read.runs.matching import Index
from robustfl_bench.read.tables import claims
from robustfl_bench.read.tables.claims import Key, Reason
from robustfl_bench.read.tables.described import Paper
from robustfl_bench.read.tables.filling import Filling
from robustfl_bench.read.tables.stand_ins import difference, filled
from robustfl_bench.read.tables.table import Cell, Table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class MeasuredPaper:
    """A paper's measured tables by name, and the verdicts on its claims.

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
    claims: Sequence[Reason] = ()
    overrides: tuple[str, ...] = ()
    changed: str = ""

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
            known = claims.reasons_by_cell(self.reasons, name)
            for key, cell in table.judged.items() if not table.order_only else ():
                if cell.inside is False:
                    yield name, key, cell, known.get(key)


def scored(known: Mapping[str, Paper], runs: pd.DataFrame, overrides: Sequence[str] = ()) -> list[MeasuredPaper]:
    """Papers measured by ``runs``, also with the settings of their stand-ins; ``overrides`` change every cell of their
    tables, and leave stand-ins out.

    Raises ConfigError for overrides that no cell can have and for runs that would be mixed although they differ.
    """
    evidence = _Evidence(runs)
    measured = [_scored(name, paper, evidence, tuple(overrides)) for name, paper in known.items()]
    if overrides:
        return measured
    return [replace(paper, standing_in=[_scored(paper.name, part, evidence, changes)
                                        for changes, part in _reduced(known[paper.name], paper)])
            for paper in measured]  # fmt: skip


class _Evidence:
    """Runs, with their settings and their times."""

    def __init__(self, runs: pd.DataFrame) -> None:
        self.runs, self.index = runs, Index(runs)
        self.costs = Costs(runs, self.index)


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


def _scored(name: str, paper: Paper, evidence: _Evidence, overrides: tuple[str, ...]) -> MeasuredPaper:
    runs, index, costs = evidence.runs, evidence.index, evidence.costs
    fillings = {full: filled(table, runs, runs, index, overrides) for full, table in paper.tables.items()}
    tables = {full: filling.table for full, filling in fillings.items()}
    verdicts = [judge(claim, tables[claim.table], paper.tables[claim.table].looks) for claim in paper.claims]
    stood_in = {place: best for place, verdict in enumerate(verdicts)
                if not verdict.decided and (best := _stood_in(verdict, fillings[verdict.claim.table]))}  # fmt: skip
    still_open = [Open(verdict, fillings[verdict.claim.table], costs) for verdict in verdicts if not verdict.decided]
    measured = MeasuredPaper(name, paper.title, tables, verdicts, stood_in, still_open)
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
