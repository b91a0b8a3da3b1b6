"""Writes how well each paper is reproduced, from the runs that are kept in results/, into the overviews of
results/README.md, results/<paper>/README.md and README.md. Run: make agreement

The site has the whole pages: every number of a paper, the verdicts on its claims, and the tables of each description in
results/<folder>/<name>.yaml. ``robustfl-results table`` and ``agreement`` print them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from robustfl_bench.lab import queue
from robustfl_bench.lab.agreement import claim_sheets, scorecard
from robustfl_bench.lab.agreement.measured import Evidence, MeasuredPaper, scored
from robustfl_bench.read.runs import archive
from robustfl_bench.read.tables import layout, sheets
from robustfl_bench.read.tables.described import papers, read
from robustfl_bench.runner.experiment import rates, speed  # noqa: F401  (descriptions may have chosen_rate)

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


@cache
def _evidence() -> Evidence:
    """The kept runs, with their times on a core; where none is similar, those that are assumed of one."""
    return Evidence(archive.kept(), speed.STATED["cpu"])


@cache
def _measured() -> dict[str, MeasuredPaper]:
    """Every paper of the package, measured by the kept runs."""
    return {score.name: score for score in scored(papers(), _evidence())}


def pages() -> dict[str, Callable[[], str]]:
    """What makes each of the whole pages, by the paths that they have on the site."""
    makers: dict[str, Callable[[], str]] = {}
    for name, paper in papers().items():
        makers[f"results/{name}/agreement.md"] = partial(_agreement, name)
        if any(table.numbers for table in paper.tables.values()):
            makers[f"results/{name}/tables.md"] = partial(_tables, name)
    for path in sorted(RESULTS.glob("*/*.yaml")):
        makers[path.relative_to(RESULTS.parent).with_suffix(".md").as_posix()] = partial(_described, path)
    return makers


def _agreement(name: str) -> str:
    score = _measured()[name]
    title = f"{score.title}: what agrees, and the verdict on each claim"
    return _titled(title, f"`robustfl-results agreement {name}` prints this page", scorecard.page(score))


def _tables(name: str) -> str:
    """The tables with published numbers of which some are measured."""
    score = _measured()[name]
    shown = (table for table in score.tables.values() if table.compared and (table.judged or table.stood_in))
    title = f"{score.title}: every number, measured and published"
    command = f"`robustfl-results table {name}/NAME` prints this page, a table at a time"
    return _titled(title, command, [replace(layout.sheet(table, compact=True), todos=()) for table in shown])


def _described(path: Path) -> str:
    """The tables of a description of our own."""
    (score,) = scored({path.stem: read(path)}, archive.kept())
    command = f"`robustfl-results agreement {path.relative_to(RESULTS.parent).as_posix()}` prints this page"
    return _titled(score.title, command, scorecard.page(score))


def filled() -> dict[Path, str]:
    """What each file with an overview should hold."""
    scores = [*_measured().values()]
    whole, made = scorecard.overview(scores), dict[Path, str]()
    for place, score in enumerate(scores):
        page = RESULTS / score.name / "README.md"
        own = replace(whole, rows=whole.rows[place : place + 1])
        counts = [_short(own, columns) for columns in STATE]
        made[page] = _filled(page, *counts, *claim_sheets.decided(score))
    front = replace(whole, rows=[row for row, score in zip(whole.rows, scores, strict=True) if score.name in FIVE])
    wanted = queue.queue(scores, None, _evidence().costs, str(RESULTS))
    return made | {README: _filled(README, whole, queue.sheet(wanted)), FRONT: _filled(FRONT, _short(front, SHORT))}


def _titled(title: str, command: str, shown: Sequence[sheets.Sheet]) -> str:
    """A page of sheets, under a title, the command that prints them, and the way to what follows from them."""
    return f"# {title}\n\n{command}; [README.md](README.md) says what follows from it.\n\n{sheets.markdown(shown)}"


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
    for path, text in filled().items():
        path.write_text(text, encoding="utf-8")
