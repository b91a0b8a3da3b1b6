"""Writes how well each paper is reproduced, from the runs that are kept in results/, into the overviews of
results/README.md and README.md, and which of its claims are decided into its own page. Run: make agreement

The site has the whole pages: every number of a paper, the verdicts on its claims, and the tables of each description in
results/<folder>/<name>.yaml. ``robustfl-results table`` and ``agreement`` print them."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
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
BLOCK = re.compile(r"(<!-- (?:(?P<paper>\w+), )?made by `make agreement` -->\n).*?(<!-- end -->)", re.DOTALL)
"""What stands between these marks is written here, of one paper if the mark names it."""
HOMES = {"brifca": "arfl", "byzfl": "successors", "karimireddy": "successors", "mean_labels": "successors",
         "fedbuff": "gossip", "worst": "blindspot", "planned": "blindspot", "resilience": "blindspot"}  # fmt: skip
"""The folder with the page on what is kept in a folder of results, where it is not the folder's own README.md."""


@cache
def evidence(assumed: speed.Speed | None = None) -> Evidence:
    """The kept runs, with their times on a core; where none is similar, those of an ``assumed`` one."""
    return Evidence(archive.kept(), assumed)


@cache
def measured(name: str) -> MeasuredPaper:
    """A paper of the package, measured by the kept runs."""
    (score,) = scored({name: papers()[name]}, evidence(speed.STATED["cpu"]))
    return score


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
    score = measured(name)
    title = f"{score.title}: what agrees, and the verdict on each claim"
    return _titled(name, title, f"`robustfl-results agreement {name}` prints this page", scorecard.page(score))


def _tables(name: str) -> str:
    """The tables with published numbers of which some are measured."""
    score = measured(name)
    shown = (table for table in score.tables.values() if table.compared and (table.judged or table.stood_in))
    title = f"{score.title}: every number, measured and published"
    command = f"`robustfl-results table {name}/NAME` prints this page, a table at a time"
    return _titled(name, title, command, [replace(layout.sheet(table, compact=True), todos=()) for table in shown])


def _described(path: Path) -> str:
    """The tables of a description of our own."""
    (score,) = scored({path.stem: read(path)}, evidence())
    command = f"`robustfl-results agreement {path.relative_to(RESULTS.parent).as_posix()}` prints this page"
    return _titled(path.parent.name, score.title, command, scorecard.page(score))


def filled() -> dict[Path, str]:
    """What each file with an overview should hold."""
    scores = [measured(name) for name in papers()]
    whole = scorecard.overview(scores)
    of_papers: dict[str | None, str] = {score.name: sheets.markdown(claim_sheets.decided(score)) for score in scores}
    made = {page: _filled(page, of_papers) for page in {home(score.name) for score in scores}}
    front = replace(whole, rows=[row for row, score in zip(whole.rows, scores, strict=True) if score.name in FIVE])
    wanted = queue.queue(scores, None, evidence(speed.STATED["cpu"]).costs, str(RESULTS))
    overviews = {README: [whole, queue.sheet(wanted)], FRONT: [_short(front, SHORT)]}
    return made | {page: _filled(page, {None: sheets.markdown(shown)}) for page, shown in overviews.items()}


def home(folder: str) -> Path:
    """The page that says what follows from the files in a folder of results."""
    return RESULTS / HOMES.get(folder, folder) / "README.md"


def _titled(folder: str, title: str, command: str, shown: Sequence[sheets.Sheet]) -> str:
    """A page of sheets, under a title, the command that prints them, and the way to what follows from them."""
    page = os.path.relpath(home(folder), RESULTS / folder)
    return f"# {title}\n\n{command}; [{page}]({page}) says what follows from it.\n\n{sheets.markdown(shown)}"


def _filled(page: Path, made: Mapping[str | None, str]) -> str:
    """A page with what was made between its marks, by the papers that they name."""
    text = page.read_text(encoding="utf-8")
    return BLOCK.sub(lambda found: f"{found[1]}\n{made[found['paper']]}\n{found[3]}", text)


def _short(overview: sheets.Sheet, columns: Sequence[str]) -> sheets.Sheet:
    """The overview with some of its columns, without its words."""
    places = [overview.heading.index(column) for column in columns]
    rows = [[row[place] for place in places] for row in overview.rows]
    return replace(overview, above=[], heading=columns, rows=rows, footnotes=[])


if __name__ == "__main__":
    for path, text in filled().items():
        path.write_text(text, encoding="utf-8")
