"""Writes what pages say of the arena's kept runs: what stands between the marks of README.md, there, at the root and in
the folders of papers, and the arena's pictures. The tables of all rules are pages of the site alone (``of_site``).

Run: make arena"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from robustfl_bench.lab.arena import order, page
from robustfl_bench.lab.arena.answers import claims, findings, rounding
from robustfl_bench.lab.arena.conditions import check_headline, not_tried
from robustfl_bench.lab.arena.decision import FILE
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import Track, tracks
from robustfl_bench.lab.arena.views import VIEWS, ArenaView
from robustfl_bench.lab.arena.words import LOWEST, listed, sentence
from robustfl_bench.read.pages.pictures.canvas import PLAIN, SHOWN, save
from robustfl_bench.read.runs import archive
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.read.tables import sheets
from robustfl_bench.read.tables.sheets import Sheet
from robustfl_bench.runner.config import options
from robustfl_bench.runner.config.names import in_words
from scripts.generators import decisions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = Path(__file__).parents[2] / "results" / "arena"
READMES = (FOLDER / "README.md", FOLDER.parents[1] / "README.md")
CLAIMS = re.compile(r"(<!-- claims of (\w+), made by `make arena` -->\n).*?(<!-- end -->)", re.DOTALL)
BLOCK = re.compile(r"(<!-- (\w+) of (\w+), made by `make arena` -->\n).*?(<!-- end -->)", re.DOTALL)

OWN = ("digits", "image", "silos")
"""The tracks with a page of their own; the others share one."""

OF_SITE = (*OWN, "silos_books", "tracks", "views", "rounding", "claims")
"""The pages of ``of_site``."""

ROUNDING = """# How much of a result is rounding

Made by `make arena`, from the runs in `rounding.csv.gz` and `silos_kernels.csv`. Models are float32 numbers, and each
processor adds up in an order of its own. Where training amplifies such differences, a cell of the arena is one draw of
many, and two rules that differ by less cannot be told apart by it.

"""


CLAIMED = """# What papers say of their rules, in the arena

Made by `make arena`. [The arena](README.md) has the protocol.

"""


OTHERS = """# Other tracks of the arena

Made by `make arena`. Scores are as in [version 3](silos.md); rules that met no attackers who search are marked where
others did. A track has the runs of some of its rules so far, and says below its tables what is missing and which
command makes it.

"""


@cache
def _digits() -> Arena:
    return Arena(archive.kept(arena=True), "digits")


def shipped(track: str, book: Callable[[str], Track] = Track) -> Arena:
    """A track of the kept runs; each is read once."""
    return _digits().beside(track, book)


def kept() -> dict[str, Arena]:
    """The tracks in which a rule has kept runs."""
    found = {}
    for name in dict.fromkeys([*OWN, *tracks()]):
        with suppress(NoRuns):
            found[name] = shipped(name)
    return {name: arena for name, arena in found.items() if any(of.standings for of in arena.panels.values())}


def of_site(arenas: dict[str, Arena]) -> dict[Path, str]:
    """The pages with the tables of all rules, as if they were files."""
    texts = {FOLDER / f"{name}.md": (_raced(arena, arenas) if arena.track.is_raced else _track(name, arena))
             for name, arena in arenas.items() if name in OWN}  # fmt: skip
    parts = filter(None, (part.strip("\n") for part in _others(arenas)))
    texts[FOLDER / "tracks.md"] = OTHERS + "\n\n".join(parts) + "\n"
    texts[FOLDER / "claims.md"] = CLAIMED + sheets.markdown(claims.sheets([arenas["digits"], arenas["silos"]]))
    texts[FOLDER / "views.md"] = _views(arenas["digits"])
    texts |= {FOLDER / f"{name}_books.md": _books(arena) for name, arena in _tuned(arenas).items()}
    texts[FOLDER / "rounding.md"] = ROUNDING + sheets.markdown(rounding.sheets(arenas["silos"]))
    return texts


def pages(arenas: dict[str, Arena]) -> dict[Path, str]:
    """What each file of text should hold."""
    known = [*decisions.cases(arenas)]
    texts = {FOLDER / FILE.name: json.dumps(known, ensure_ascii=False, indent=0) + "\n"}
    judged = claims.sheets([arenas["digits"], arenas["silos"]])
    blocks: dict[str, Callable[[Arena], str]] = {
        "decisions": lambda _: decisions.table(known, arenas),
        "protocol": lambda arena: sheets.markdown([findings.protocol(arena)]),
        "elsewhere": lambda arena: sheets.markdown([findings.elsewhere(arena, arenas)]),
        "findings": lambda arena: "\n\n".join(part.rstrip("\n") for part in _findings(arena, arenas)),
    }
    for readme in READMES:
        texts[readme] = BLOCK.sub(
            lambda mark: f"{mark[1]}\n{blocks[mark[2]](arenas[mark[3]])}\n{mark[4]}", readme.read_text(encoding="utf-8")
        )
    for readme in FOLDER.parent.glob("*/README.md"):
        text = readme.read_text(encoding="utf-8")
        if CLAIMS.search(text):
            texts[readme] = CLAIMS.sub(lambda mark: f"{mark[1]}\n{_of_paper(mark[2], judged[0])}\n{mark[3]}", text)
    return texts


def _headline(sheet: Sheet) -> str:
    """A table that stands at the head of a page. Raises ValueError for one without its conditions."""
    return sheets.markdown([check_headline(sheet)])


def _of_paper(paper: str, overview: Sheet) -> str:
    """How many claims of a paper hold in each track."""
    rows = [row[1:] for row in overview.rows if row[0].text == claims.title(paper)]
    return sheets.markdown([replace(overview, above=[], heading=overview.heading[1:], rows=rows, labels=1)])


def _track(name: str, arena: Arena) -> str:
    """What a track shows, its protocol, its tables, then its pictures."""
    shown = "\n".join(f"- {in_words(line)}" for line in findings.findings(arena))
    title = f"# Arena {name}, version 1\n\n{shown}\n"
    tables = sheets.markdown([findings.protocol(arena), findings.best_rules(arena), *page.sheets(arena)])
    return "\n".join([title, tables, *(f"{line}\n" for line in _shown(name, arena))])


def _shown(name: str, arena: Arena) -> Iterator[str]:
    """The pictures of all rules of a track, in Markdown."""
    for number in arena.settled:
        share = arena.share(number)
        scores, attacked = (_picture(name, kind, arena, number) for kind in ("", "attacks"))
        yield f"![The score of each rule in each partition, {share} attackers]({scores})"
        yield f"![The accuracy of each rule under each attack, {share} attackers]({attacked})"


def _found(arena: Arena, arenas: Mapping[str, Arena]) -> str:
    """What a raced track shows, and its panels at a glance."""
    name = arena.track.name
    return "\n\n".join(part.rstrip("\n") for part in (
        f"# Arena {name}, version 3\n\n**Every score is {LOWEST}. Not tried: "
        f"{in_words(listed(not_tried(arena)))}.**\n\nMade by `make arena`. A panel is a partition with a share of "
        "attackers, and has its own groups of rules. [The arena](README.md) has the protocol.",
        "## Findings",
        *_findings(arena, arenas),
        f"All tables: `robustfl-results arena {name}`, or the site.",
    )) + "\n"  # fmt: skip


def _findings(arena: Arena, arenas: Mapping[str, Arena]) -> Iterator[str]:
    """The conclusions from a raced track, its panels at a glance, and its pictures."""
    yield "\n".join(f"- {in_words(line)}" for line in findings.conclusions(arena, arenas["digits"]))
    yield _headline(findings.at_a_glance(arena, arenas["digits"]))
    for number in arena.settled:
        drawn = _picture(arena.track.name, "leading", arena, number)
        yield f"![The best rules with {arena.share(number)} attackers]({drawn})"


def _raced(arena: Arena, arenas: Mapping[str, Arena]) -> str:
    """The page of a raced track: what it shows, its best rules, which pairs its panels tell apart, its next runs, and
    all tables."""
    name = arena.track.name
    _, *tables = page.sheets(arena)
    others = [other for other in arenas.values() if not other.track.is_raced
              and any(panel.seeds > 1 for panel in other.panels.values())]  # fmt: skip
    return "\n\n".join(part.rstrip("\n") for part in (
        _found(arena, arenas),
        "## The best rules",
        _headline(findings.best_rules(arena)),
        "## What can be told apart",
        sheets.markdown([order.sheet([arena, *others]), order.error_sheet(arena)]),
        f"## The race\n\n`robustfl-results arena {name} --view race`",
        sheets.markdown(VIEWS["race"].sheets(arena)),
        *([f"## Attackers who search\n\n`robustfl-results arena {name} --view searched`",
           sheets.markdown(VIEWS["searched"].sheets(arena))] if arena.searched else []),
        "## All rules",
        sheets.markdown(tables),
        *_shown(name, arena),
    )) + "\n"  # fmt: skip


def _others(arenas: Mapping[str, Arena]) -> Iterator[str]:
    """The tracks without a page of their own: first beside those that they are a variant of, then each with its
    findings, its protocol and its tables."""
    others = {name: arena for name, arena in arenas.items() if name not in OWN}
    for base, arena in arenas.items():
        variants = [other for name, other in others.items() if name.startswith(f"{base}_")]
        yield sheets.markdown(list(findings.compared(arena, variants)))
    yield sheets.markdown([findings.orders(arenas["silos"], list(others.values()))])
    for name, arena in others.items():
        _, *tables = page.sheets(arena)
        yield f"## The track {name}"
        yield "\n".join(f"- {in_words(line)}" for line in findings.conclusions(arena, arenas["silos"]))
        yield sheets.markdown([findings.protocol(arena), *tables])


def _picture(track: str, kind: str, arena: Arena, number: int) -> str:
    """The file of a picture of a track with this number of attackers."""
    return "_".join(filter(None, [track, kind, str(number) * (number != min(arena.settled))])) + ".png"


def _views(arena: Arena) -> str:
    """The answers of all views, each with its picture and tables."""
    parts = [f"# What the runs of arena {arena.track.name} already know\n\nMade by `make arena`."]
    for view, tables in _answered(arena).items():
        parts.append(
            f"## {sentence(view.question)}\n\n"
            f"`robustfl-results arena {arena.track.name} --view {view.name}`\n\n"
            f"![{view.question}](view_{view.name}.png)\n\n{sheets.markdown(tables)}"
        )
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


@cache
def _answered(arena: Arena) -> dict[ArenaView, list[Sheet]]:
    """The tables of the views that the runs can answer, which several pages show."""
    return findings.answered(arena)


def _tuned(arenas: dict[str, Arena]) -> dict[str, Arena]:
    """The tracks that have a tuned book."""
    return {name: arena for name, arena in arenas.items()
            if options.exists("experiment", f"{arena.track.experiment}_trials")}  # fmt: skip


def _books(arena: Arena) -> str:
    """Both rule books beside each other."""
    name = arena.track.name
    return f"""# Arena {name}: rules as they come, and tuned

Made by `make arena`; `robustfl-results arena {name} --view books` shows the same.

![The scores of rules as they come and tuned]({name}_books.png)

{sheets.markdown(VIEWS["books"].sheets(arena))}
Both books have the same attacks and honest clients' mean; tuned rules have five seeds. `robustfl-bench arena enter RULE
--book tuned` tunes a rule: it makes the trials, chooses in each panel, and runs the cells.
"""


def pictures(arenas: dict[str, Arena]) -> Iterator[tuple[Path, "Figure"]]:
    """Each picture and its file."""
    arena = arenas["silos"]
    for number in arena.settled:
        yield FOLDER / _picture("silos", "leading", arena, number), page.leading(arena, number)
    yield FOLDER / "answer.png", page.answer(arena)


def pictures_of_site(arenas: dict[str, Arena]) -> Iterator[tuple[Path, "Figure"]]:
    """Each picture of the pages of the site, as if it were a file."""
    for name in OWN:
        arena = arenas[name]
        for number in arena.settled:
            yield FOLDER / _picture(name, "", arena, number), page.standing(arena, number)
            yield FOLDER / _picture(name, "attacks", arena, number), page.attacks(arena, number)
    for view in _answered(arenas["digits"]):
        yield FOLDER / f"view_{view.name}.png", view.picture(arenas["digits"], PLAIN)
    for name, arena in _tuned(arenas).items():
        yield FOLDER / f"{name}_books.png", VIEWS["books"].picture(arena, PLAIN)


if __name__ == "__main__":
    held = kept()
    for file, content in pages(held).items():
        file.write_text(content, encoding="utf-8")
    for file, figure in pictures(held):
        save(figure, file, dpi=SHOWN)
