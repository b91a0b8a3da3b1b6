"""Writes how well each paper is reproduced, with the verdicts on its claims, from the runs that are kept in results/:
results/<paper>/tables.md and agreement.md, and the overviews in results/README.md, results/<paper>/README.md and
README.md; and the page of each description of tables there, results/<paper>/<name>.yaml. Run: make agreement"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from robustfl_bench.lab.agreement import claim_sheets, scorecard
from robustfl_bench.lab.agreement.measured import MeasuredPaper, scored
from robustfl_bench.read.runs import archive
from robustfl_bench.read.tables import layout, sheets
from robustfl_bench.read.tables.described import papers, read
from robustfl_bench.runner.experiment import rates  # noqa: F401  (descriptions may have chosen_rate)

RESULTS = Path(__file__).parents[2] / "results"
README, FRONT = RESULTS / "README.md", RESULTS.parent / "README.md"
SHORT = ("paper", "cells", "measured", "inside", "stand-ins", "stand-ins inside", "too small", "explained", "open",
         "claims", "holds", "does not hold", "undecided", "decided by stand-ins")  # fmt: skip
"""The columns of the overview in README.md."""
FIVE = ("arfl", "boba", "brace", "brifca", "raga")
"""The papers whose systems the package has whole, which README.md shows; it has single cells of others."""
STATE = SHORT[1:9], (*SHORT[9:12], "too few seeds", "undecided", "not tested", SHORT[-1])
"""Those of a paper's own page, in two tables that fit its width: the numbers, the claims."""
BLOCK = re.compile(r"(<!-- made by `make agreement` -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """What each file should hold."""
    runs = archive.kept()
    scores = scored(papers(), runs)
    made: dict[Path, str] = {}
    for score in scores:
        folder, judged = RESULTS / score.name, scorecard.page(score)
        made[folder / "agreement.md"] = _titled(f"{score.title}: what agrees, and the verdict on each claim", judged)
        if shown := _tables(score):
            made[folder / "tables.md"] = _titled(f"{score.title}: every number, measured and published", shown)
    files = sorted(RESULTS.glob("*/*.yaml"))
    for path, score in zip(files, scored({path.stem: read(path) for path in files}, runs), strict=True):
        made[path.with_suffix(".md")] = _titled(score.title, scorecard.page(score))
    whole = scorecard.overview(scores)
    for place, score in enumerate(scores):
        page = RESULTS / score.name / "README.md"
        own = replace(whole, rows=whole.rows[place : place + 1])
        counts = [_short(own, columns) for columns in STATE]
        made[page] = _filled(page, *counts, *claim_sheets.decided(score))
    front = replace(whole, rows=[row for row, score in zip(whole.rows, scores, strict=True) if score.name in FIVE])
    cheapest = claim_sheets.cheapest(scores)
    return made | {README: _filled(README, whole, *cheapest), FRONT: _filled(FRONT, _short(front, SHORT))}


def _titled(title: str, shown: Sequence[sheets.Sheet]) -> str:
    """A page of sheets, under a title and the way to what follows from them."""
    where = "Made by `make agreement`; [README.md](README.md) says what follows from it."
    return f"# {title}\n\n{where}\n\n{sheets.markdown(shown)}"


def _tables(score: MeasuredPaper) -> list[sheets.Sheet]:
    """The tables with published numbers of which some are measured."""
    shown = (table for table in score.tables.values() if table.compared and (table.judged or table.stood_in))
    return [replace(layout.sheet(table, compact=True), todos=()) for table in shown]


def _filled(page: Path, *shown: sheets.Sheet) -> str:
    """A page with the sheets between its marks."""
    block = sheets.markdown(shown)
    return BLOCK.sub(lambda found: f"{found[1]}\n{block}\n{found[2]}", page.read_text(encoding="utf-8"))


def _short(overview: sheets.Sheet, columns: Sequence[str]) -> sheets.Sheet:
    """The overview with some of its columns, without its words."""
    places = [overview.heading.index(column) for column in columns]
    rows = [[row[place] for place in places] for row in overview.rows]
    return replace(overview, above=[], heading=columns, rows=rows, footnotes=[])


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
