"""How well papers are reproduced, as sheets: a page for each, with the verdicts on its claims, and an overview."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from robustfl_bench.runs.matching import Index
from robustfl_bench.runs.where import check_name
from robustfl_bench.tables import agreement, layout, verdicts
from robustfl_bench.tables.claims import Side
from robustfl_bench.tables.compare import compare
from robustfl_bench.tables.described import Paper, papers, read
from robustfl_bench.tables.sheets import Printed, Sheet
from robustfl_bench.tables.table import Table
from robustfl_bench.tables.verdicts import FAILS, FEW, HOLDS, UNTESTED, Finding, Verdict

if TYPE_CHECKING:
    import pandas as pd

_LARGEST = 5  # gaps of a table that are listed
_AGAINST = 3  # comparisons that speak against a claim and are listed
_TABLES = (
    "inside: as near to the published number as below each table; seeds: measured, of those that the paper has",
    "stand-in: measured on other data than published, so that only the order of the methods is compared",
)
MEANING = (
    f"{HOLDS}: each comparison is true by its 95% interval, paired over seeds; "
    f"{FAILS}: one is false by its interval, widened for the number of comparisons (Bonferroni)",
    f"{FEW}: the intervals, which need two seeds, say neither; {UNTESTED}: cells that it compares have no number",
    "measured and published: how many comparisons are true of the means, of all that have numbers",
)
"""What the words and the numbers of ``claims`` mean."""


@dataclass(frozen=True)
class MeasuredPaper:
    """A paper's measured tables by name, and the verdicts on its claims."""

    name: str
    title: str
    tables: Mapping[str, Table]
    verdicts: Sequence[Verdict]


def pages_of(runs: pd.DataFrame, paper: str | None = None) -> list[Sheet]:
    """The page of a paper, by its name or that of a YAML file, measured by ``runs`` (``records.load``); with None the
    overview.

    Raises ConfigError for an unknown paper and for runs that would be mixed although they differ.
    """
    if paper is None:
        return [overview(scored(papers(), runs))]
    if paper.endswith((".yaml", ".yml")):
        known = {Path(paper).stem: read(Path(paper))}
    else:
        check_name(paper, papers(), "paper")
        known = {paper: papers()[paper]}
    return page(scored(known, runs)[0])


def scored(known: Mapping[str, Paper], runs: pd.DataFrame) -> list[MeasuredPaper]:
    """Papers measured by ``runs``."""
    index = Index(runs)
    scores = []
    for name, paper in known.items():
        tables = {full: compare(table, runs, index=index, cells_only=True) for full, table in paper.tables.items()}
        judged = [verdicts.judge(claim, tables[claim.table]) for claim in paper.claims]
        scores.append(MeasuredPaper(name, paper.title, tables, judged))
    return scores


def page(paper: MeasuredPaper) -> list[Sheet]:
    """The page of a paper: its tables, the measured columns, the largest gaps and its claims. Tables without published
    numbers are shown in full."""
    sheets = [
        Sheet(
            above=[f"{paper.title}: tables, measured and published"],
            heading=["table", "cells", "measured", "inside", "seeds"],
            rows=[_words(_short(name), *_counts(table)) for name, table in paper.tables.items()],
            footnotes=_TABLES,
        )
    ]
    if paper.verdicts:
        judged = claims(paper)
        sheets += [replace(judged, footnotes=[*judged.footnotes, *MEANING]), *against(paper)]
    if columns := list(_columns(paper)):
        heading = ["table", "column", "measured", "inside", "rank correlation"]
        note = "rank correlation: Spearman's, of measured and published numbers of the methods; -: fewer than three"
        sheets.append(Sheet([f"{paper.title}: column by column"], heading, columns, labels=2, footnotes=[note]))
    if largest := list(_gaps(paper)):
        heading = ["table", "cell", "measured", "published", "difference"]
        above = f"{paper.title}: the {_LARGEST} largest differences of each table"
        sheets.append(Sheet([above], heading, largest, labels=2))
    own = (table for table in paper.tables.values() if not table.compared)
    sheets += [layout.sheet(table, compact=True) for table in own
               if any(cell.seeds for cell in table.cells.values())]  # fmt: skip
    return sheets


def overview(scores: Sequence[MeasuredPaper]) -> Sheet:
    """A line for each paper."""
    rows = []
    for paper in scores:
        printed = [table for table in paper.tables.values() if table.compared and not table.stand_in]
        judged = [cell for table in printed for cell in table.judged.values()]
        words = Counter(verdict.word for verdict in paper.verdicts)
        leaning = sum(verdict.word == FEW and verdict.as_claimed for verdict in paper.verdicts)
        cells = sum(len(table.cells) for table in printed)
        inside = sum(bool(cell.inside) for cell in judged)
        counts = (words[HOLDS], words[FAILS], words[FEW], leaning, words[UNTESTED])
        rows.append(_words(paper.name, *map(str, (cells, len(judged), inside, len(paper.verdicts), *counts))))
    return Sheet(
        above=["Papers: published numbers and claims, measured"],
        heading=["paper", "cells", "measured", "inside", "claims", HOLDS, FAILS, FEW,
                 "too few seeds, but true on average", UNTESTED],
        rows=rows,
        footnotes=MEANING[:2],
    )  # fmt: skip


def _counts(table: Table) -> list[str]:
    """Cells, measured, inside, seeds."""
    judged = table.judged
    if not table.compared:
        counts = [cell.seeds for cell in table.cells.values() if cell.seeds]
        return [str(len(table.cells)), str(len(counts)), "not printed", agreement.span(counts) if counts else "-"]
    inside = "stand-in" if table.stand_in else str(sum(bool(cell.inside) for cell in judged.values()))
    counts = [cell.seeds for cell in judged.values() if not cell.worst]
    theirs = max((cell.against.seeds for cell in judged.values() if cell.against), default=0)
    seeds = agreement.span(counts) + f" of {theirs}" * bool(theirs) if counts else "-"
    return [str(len(table.cells)), str(len(judged)), inside if judged else "-", seeds]


def _columns(paper: MeasuredPaper) -> Iterator[list[Printed]]:
    """The measured columns of all tables."""
    for name, table in paper.tables.items():
        rho = {
            (correlation.block, correlation.column): correlation.text for correlation in agreement.correlations(table)
        }
        for block in table.blocks:
            for column in table.columns:
                label = column.label
                judged = [
                    cell
                    for (other, _, column_label), cell in table.judged.items()
                    if (other, column_label) == (block, label)
                ]
                if judged:
                    inside = "stand-in" if table.stand_in else str(sum(bool(cell.inside) for cell in judged))
                    place = " / ".join(filter(None, (block, label)))
                    yield _words(_short(name), place, str(len(judged)), inside, rho.get((block, label), "-"))


def _gaps(paper: MeasuredPaper) -> Iterator[list[Printed]]:
    for name, table in paper.tables.items():
        for key, cell in [] if table.stand_in else agreement.gaps(table)[:_LARGEST]:
            digits = table.column(key[2]).value.digits
            assert cell.against is not None and cell.difference is not None
            difference = f"{agreement.signed(cell.difference, digits)} {'in' if cell.inside else 'OUT'}"
            yield _words(
                _short(name), " / ".join(filter(None, key)), cell.text(digits), cell.against.printed, difference
            )


def claims(paper: MeasuredPaper, repeats: str = "seeds") -> Sheet:
    """The verdict on each claim about each table or block; below, each claim once. The last column says of how many
    ``repeats`` the numbers are."""
    rows, notes = [], []
    printed = any(verdict.published for verdict in paper.verdicts)
    by_name: dict[str, list[Verdict]] = {}
    for verdict in paper.verdicts:
        by_name.setdefault(verdict.claim.name, []).append(verdict)
    for note, (name, judged) in enumerate(by_name.items(), 1):
        rows += [[Printed(name, note=note), *_words(*_verdict(verdict, printed))] for verdict in judged]
        claim = judged[0].claim
        notes.append(f"[{note}] {claim.words} ({claim.place}): {'; '.join(claim.formulas)}")
    heading = ["claim", "table", "verdict", "measured", *["published"] * printed, repeats]
    return Sheet([f"{paper.title}: claims"], heading, rows, labels=3, footnotes=notes)


def _verdict(verdict: Verdict, printed: bool) -> list[str]:
    """Table, verdict, comparisons that are true of measured and, if ``printed``, of published means, seeds."""
    measured = _share(verdict.findings)
    if 0 < len(verdict.findings) < (total := len(verdict.claim.comparisons)):
        measured += f" (all: {total})"
    seeds = agreement.span(verdict.seeds) if any(verdict.seeds) else "-"
    return [_about(verdict), verdict.word, measured, *[_share(verdict.published)] * printed, seeds]


def _share(findings: Sequence[Finding]) -> str:
    """How many comparisons are true of the means."""
    return f"{sum(finding.true for finding in findings)} of {len(findings)}" if findings else "-"


def _about(verdict: Verdict) -> str:
    return " / ".join(filter(None, (_short(verdict.claim.table), verdict.claim.block)))


def against(paper: MeasuredPaper) -> list[Sheet]:
    """The comparisons that are not true of the means, a row for each; no sheet if there are none."""
    rows = []
    for verdict in paper.verdicts:
        false = sorted((finding for finding in verdict.findings if not finding.true), key=lambda one: one.margin)
        table = paper.tables[verdict.claim.table]
        rows += [_words(verdict.claim.name, _about(verdict), *_numbers(finding, table)) for finding in false[:_AGAINST]]
    title = f"{paper.title}: what speaks against claims, at most {_AGAINST} comparisons of each"
    return [Sheet([title], ["claim", "table", "of", "measured", "and", "measured"], rows, labels=3)] if rows else []


def _numbers(finding: Finding, table: Table) -> list[str]:
    """A comparison with what was measured: ``boba / ipm``, 91.9, ``krum / ipm``, 92.0."""
    sides = ((finding.comparison.left, finding.left.mean), (finding.comparison.right, finding.right.mean))
    (_, _, label), *_ = finding.comparison.left.keys or finding.comparison.right.keys
    digits = table.column(label).value.digits
    return [words for side, mean in sides for words in (_named(side) if side.keys else "", f"{mean:.{digits}f}")]


def _named(side: Side) -> str:
    if side.extreme:
        return f"{side.extreme} of {side.keys[0][1]}"
    return " / ".join(filter(None, side.keys[0]))


def _short(name: str) -> str:
    """A table's name without that of its paper."""
    return name.partition("/")[2]


def _words(*texts: str) -> list[Printed]:
    return [Printed(text) for text in texts]
