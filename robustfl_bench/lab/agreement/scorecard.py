"""How well papers are reproduced, as sheets: a page for each, with the verdicts on its claims, and an overview."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from robustfl_bench.base.console import counted
from robustfl_bench.base.late import pd
from robustfl_bench.lab.agreement import claim_sheets
from robustfl_bench.lab.agreement.claim_sheets import MEANING, kinds, words
from robustfl_bench.lab.agreement.measured import Evidence, MeasuredPaper, scored
from robustfl_bench.lab.agreement.verdicts import FAILS, FEW, HOLDS, UNDECIDED, UNTESTED
from robustfl_bench.read.runs.values import LEARNED, TOO_SMALL
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.tables import agreement, layout
from robustfl_bench.read.tables.claims import EXPLAINED, OPEN, UNEXPLAINED, Reason, short
from robustfl_bench.read.tables.described import YAML, papers, read
from robustfl_bench.read.tables.sheets import Printed, Sheet
from robustfl_bench.read.tables.table import INSIDE, PARTS, SMALL, Cell, Table

_INSIDE = (
    f"inside: in all ({' + '.join(PARTS)}). {INSIDE[0].upper()}{INSIDE[1:]}. A model that diverged otherwise is outside"
)
_SEEDS = "seeds: measured, of those that the paper has"
_GATE = (
    f"a stand-in counts, and decides, only if Average without attack reaches {100 * LEARNED:g}% of what the paper "
    f"prints of it (where it prints nothing, {100 * LEARNED:g}% accuracy); others are {TOO_SMALL}, and in no sum; "
    f"{SMALL}: published numbers with such runs alone"
)
_STAND_IN = (
    "stand-in: measured with other settings than the paper's, counted apart; order only: measured on other data or at "
    "another scale as a whole, so that only the order of the methods is compared"
)
_OVERVIEW = (
    "stand-ins: measured with other batches, sizes, data or precision than printed, and nowhere counted as measured or "
    "inside; outside: the measured cells that are not inside; explained: a check shows why; open: an experiment was "
    "made, and the cause is still open; unexplained: neither",
    _GATE,
    _INSIDE,
    "decided by stand-ins: claims that hold, or do not hold, of stand-ins of one kind; counted apart, they stay among "
    "those with too few seeds or not tested",
)


def pages_of(runs: pd.DataFrame | Evidence, paper: str | None = None, overrides: Sequence[str] = ()) -> list[Sheet]:
    """The page of a paper, by its name or that of a YAML file, measured by ``runs`` (``records.load``); with None the
    overview. ``overrides`` change every cell of its tables: ``["scale=quick"]``.

    Raises ConfigError for an unknown paper and for runs that would be mixed although they differ.
    """
    if paper is None:
        return [overview(scored(papers(), runs, overrides))]
    if paper.endswith(YAML):
        known = {Path(paper).stem: read(Path(paper))}
    else:
        check_name(paper, papers(), "paper")
        known = {paper: papers()[paper]}
    return page(scored(known, runs, overrides)[0])


def page(paper: MeasuredPaper) -> list[Sheet]:
    """The page of a paper: its tables, the verdicts on its claims and what would decide them, the cells outside with
    their reasons, and the measured columns. Tables without published numbers are shown in full."""
    too_small = [f"{short(name)}: {why}" for name, table in paper.tables.items() for why in table.too_small.values()]
    sheets = [
        Sheet(
            above=[f"{paper.title}: tables, measured and published", *_changed(paper)],
            heading=["table", "cells", "measured", "inside", "stand-ins", "inside", "seeds"],
            rows=[words(short(name), *_counts(table)) for name, table in paper.tables.items()],
            footnotes=[_INSIDE, _SEEDS, _STAND_IN, _GATE, *kinds(paper), *too_small],
        )
    ]
    if paper.verdicts:
        judged = claim_sheets.claims(paper)
        sheets += [replace(judged, footnotes=[*judged.footnotes, *MEANING]), *claim_sheets.against(paper)]
        sheets += claim_sheets.deciding(paper)
    sheets += outside(paper)
    if columns := list(_columns(paper)):
        heading = ["table", "column", "measured", "inside", "rank correlation"]
        note = "rank correlation: Spearman's, of measured and published numbers of the methods; -: fewer than three"
        sheets.append(Sheet([f"{paper.title}: column by column"], heading, columns, labels=2, footnotes=[note]))
    own = (table for table in paper.tables.values() if not table.compared)
    sheets += [layout.sheet(table, compact=True) for table in own if any(cell.seeds for cell in table.cells.values())]
    return sheets


def _changed(paper: MeasuredPaper) -> list[str]:
    """What a page with other settings can decide, and what it cannot."""
    if not paper.overrides:
        return []
    return [
        f"WITH {' '.join(paper.overrides)}: {paper.changed}",
        "decided is whether a claim is true of runs with these settings, not whether it is true of the paper's own; "
        "no number is compared with a published one, only the order of the methods",
    ]


def overview(scores: Sequence[MeasuredPaper]) -> Sheet:
    """A line for each paper."""
    rows = list(map(_counts_of_paper, scores))
    return Sheet(
        above=["Papers: published numbers and claims, measured"],
        heading=list(rows[0]) if rows else ["paper"],
        rows=[words(*row.values()) for row in rows],
        footnotes=[*_OVERVIEW, *MEANING[:2]],
    )


def _counts_of_paper(paper: MeasuredPaper) -> dict[str, str]:
    """The counts of a paper's numbers and claims, by the heading of their column."""
    verdicts = list(zip(paper.words, paper.verdicts, strict=True))
    of_verdict = Counter(word for word, _ in verdicts)
    judged = [cell for table in paper.compared for cell in table.judged.values()]
    why = Counter(reason.state if reason else UNEXPLAINED for *_, reason in paper.outside)
    stand_ins = stood_in(paper)
    counts = {
        "cells": sum(len(table.cells) for table in paper.compared),
        "measured": len(judged),
        "inside": agreement.inside(judged),
        "stand-ins": len(stand_ins),
        "stand-ins inside": _inside_of(stand_ins),
        "too small": len(_small(paper, stand_ins)),
        "outside": sum(cell.inside is False for cell in judged),
        "explained": why[EXPLAINED],
        "open": why[OPEN],
        UNEXPLAINED: why[UNEXPLAINED],
        "claims": len(paper.verdicts),
        **{word: of_verdict[word] for word in (HOLDS, FAILS, FEW)},
        "too few seeds, but true on average": sum(word == FEW and verdict.as_claimed for word, verdict in verdicts),
        **{word: of_verdict[word] for word in (UNDECIDED, UNTESTED)},
        "decided by stand-ins": sum(verdict.decided for _, verdict in paper.stood_in.values()),
    }
    return {"paper": paper.name, **{name: str(count) for name, count in counts.items()}}


def stood_in(paper: MeasuredPaper) -> list[tuple[Cell, bool]]:
    """The stand-ins of published numbers that were not measured with the paper's own settings, each once, and whether
    only the order of the methods is compared."""
    measured = {_printed(cell) for table in paper.compared for cell in table.judged.values()}
    others: dict[frozenset[tuple[str, str]], tuple[Cell, bool]] = {}
    for table in paper.tables.values():
        for cell in (table.judged if table.order_only else table.stood_in).values() if table.compared else ():
            others.setdefault(_printed(cell), (cell, table.order_only))
    return [other for printed, other in others.items() if printed not in measured]


def _small(paper: MeasuredPaper, stand_ins: Sequence[tuple[Cell, bool]]) -> set[frozenset[tuple[str, str]]]:
    """The published numbers of which there are runs at too small a scale alone."""
    cells = [cell for table in paper.compared for cell in table.cells.values()]
    known = {_printed(cell) for cell in (*(cell for cell, _ in stand_ins), *(c for c in cells if c.inside is not None))}
    return {_printed(cell) for cell in cells if cell.state == SMALL} - known


def _inside_of(stand_ins: Sequence[tuple[Cell, bool]]) -> str:
    """How many stand-ins are inside; in words where only an order is compared."""
    compared = [cell for cell, order_only in stand_ins if not order_only]
    return "order only" if stand_ins and not compared else agreement.inside(compared)


def _printed(cell: Cell) -> frozenset[tuple[str, str]]:
    return frozenset(cell.key.items())


def _counts(table: Table) -> list[str]:
    """Cells, measured, inside, stand-ins, those inside, seeds."""
    judged, others = table.judged, table.stood_in
    if not table.compared:
        counts = [cell.seeds for cell in table.cells.values() if cell.seeds]
        seeds = agreement.span(counts) if counts else "-"
        return [str(len(table.cells)), str(len(counts)), "not printed", "-", "-", seeds]
    inside = "order only" if table.order_only else agreement.inside(judged.values())
    counts = [len(cell.numbers) for cell in judged.values() if not cell.worst]
    theirs = max((cell.against.seeds for cell in judged.values() if cell.against), default=0)
    seeds = agreement.span(counts) + f" of {theirs}" * bool(theirs) if counts else "-"
    stands = [str(len(others)), agreement.inside(others.values())] if others else ["-", "-"]
    return [str(len(table.cells)), str(len(judged)), inside if judged else "-", *stands, seeds]


def _columns(paper: MeasuredPaper) -> Iterator[list[Printed]]:
    """The measured columns of all tables; the cells of a stand-in are a row of their own."""
    for name, table in paper.tables.items():
        rho = {(one.block, one.column, one.stand_in): one.text for one in agreement.correlations(table)}
        for kind in table.kinds:
            cells = table.judged_as(kind)
            mark = table.mark(kind) if kind else ""
            for block in table.blocks:
                for label in (column.label for column in table.columns):
                    judged = [cell for (other, _, column), cell in cells.items() if (other, column) == (block, label)]
                    if judged:
                        inside = "order only" if table.order_only else agreement.inside(judged)
                        place = " / ".join(filter(None, (block, label)))
                        coefficient = rho.get((block, label, kind), "-")
                        yield words(f"{short(name)}{mark}", place, str(len(judged)), inside, coefficient)


def outside(paper: MeasuredPaper) -> list[Sheet]:
    """Every cell that is outside, and why; of each table first those whose model diverged, then the largest difference
    first. No sheet if there is none."""
    known = {(name, key): reason for name, key, _, reason in paper.outside}
    cells = Counter(reason.name for reason in known.values() if reason is not None)
    notes: list[Reason] = []
    rows = []
    for name, table in paper.tables.items():
        for key, cell in [*table.diverged.items(), *agreement.gaps(table)]:
            if (name, key) not in known:
                continue
            reason = known[name, key]
            if reason is not None and reason not in notes:
                notes.append(reason)
            why = Printed(UNEXPLAINED) if reason is None else Printed(reason.state, note=notes.index(reason) + 1)
            digits, published = table.column(key[2]).value.digits, cell.against.printed if cell.against else ""
            difference = "-" if cell.difference is None else agreement.signed(cell.difference, digits)
            place = short(name), " / ".join(filter(None, key))
            rows.append([*words(*place, cell.text(digits), published, difference), why])
    if not rows:
        return []
    heading = ["table", "cell", "measured", "published", "difference", "why"]
    footnotes = [f"[{place}] {reason.words} ({counted(cells[reason.name], 'cell')}; see {reason.page})"
                 for place, reason in enumerate(notes, 1)]  # fmt: skip
    return [Sheet([f"{paper.title}: every cell outside, and why"], heading, rows, labels=2, footnotes=footnotes)]
