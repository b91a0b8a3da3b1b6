"""Writes how well each paper is reproduced, with the verdicts on its claims, from the runs that are kept in results/:
results/<paper>/agreement.md, and the overviews in results/README.md and README.md; and the page of each description of
tables there, results/<paper>/<name>.yaml. Run: make agreement"""

import re
from dataclasses import replace
from pathlib import Path

from robustfl_bench.runs import archive
from robustfl_bench.tables import scorecard, sheets
from robustfl_bench.tables.described import papers

RESULTS = Path(__file__).parents[2] / "results"
README, FRONT = RESULTS / "README.md", RESULTS.parent / "README.md"
SHORT = ("paper", "cells", "measured", "inside", "claims", "holds", "does not hold")
"""The columns of the overview in README.md."""
BLOCK = re.compile(r"(<!-- made by `make agreement` -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """What each file should hold."""
    runs = archive.kept()
    scores = scorecard.scored(papers(), runs)
    made = {RESULTS / score.name / "agreement.md": sheets.markdown(scorecard.page(score)) for score in scores}
    for path in RESULTS.glob("*/*.yaml"):
        made[path.with_suffix(".md")] = sheets.markdown(scorecard.pages_of(runs, str(path)))
    whole = scorecard.overview(scores)
    return made | {README: _filled(README, whole), FRONT: _filled(FRONT, _short(whole))}


def _filled(page: Path, sheet: sheets.Sheet) -> str:
    """A page with the sheet between its marks."""
    block = sheets.markdown([sheet])
    return BLOCK.sub(lambda found: f"{found[1]}\n{block}\n{found[2]}", page.read_text(encoding="utf-8"))


def _short(overview: sheets.Sheet) -> sheets.Sheet:
    """The overview with the columns SHORT, without its words."""
    places = [overview.heading.index(column) for column in SHORT]
    rows = [[row[place] for place in places] for row in overview.rows]
    return replace(overview, above=[], heading=SHORT, rows=rows, footnotes=[])


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
