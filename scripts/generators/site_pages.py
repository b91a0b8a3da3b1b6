"""Writes the pages of the site, as Markdown and the files that they link to, into a folder. Run: make site

Pages of the repository keep their places, so the links between them hold. Long tables are no files of the repository:
they are made here from what they describe, under names beside the pages that explain them.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout, suppress
from functools import partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from robustfl_bench.read.pages.pictures.canvas import PRINTED, SHOWN, WIDTHS, save
from robustfl_bench.runner.config.names import in_words
from scripts.generators import agreement, arena, board, catalogue, definitions, kappas, places, verdict

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "conf/*.md", "results/**/*.md",
          "robustfl_bench/**/README.md")  # fmt: skip
_ABOUT_COLUMNS = """One row per evaluated round. A column that does not apply to a run is left out. `{}` stands for the
member of a family: a class, a cluster. The unit is that of tables; the file has fractions where it is percent.
"""
NOTEBOOK = "results/notebook.md"
_LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?P<after>\))")
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+\.png)\)")
_STYLE = re.compile(r'<style.*?</style>| border="1" class="dataframe"', re.DOTALL)
_OPTION = re.compile(r"conf/(aggregator|attack)/(\w+)\.yaml")
_COMMAND = re.compile(r"(?<![\[`])`([^`\n]+)`(?![\]`])")
_PRINTED = re.compile(r"^`([^`]+)` prints this page", re.MULTILINE)
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def write(folder: Path) -> None:
    """Write all pages into a folder, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "scripts" / "site", folder)
    made = {name: maker() for name, maker in tables().items()}
    printed = {match[1]: name for name, text in made.items() if (match := _PRINTED.search(text))}
    texts = {name: _linked(name, text, folder, printed) for name, text in {**copied(), **made}.items()}
    texts |= {**dict(board.pages()), **dict(reference()), **arena_tables(folder), NOTEBOOK: _notebook()}
    for name, content in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_PICTURE.sub(partial(_with_width, path.parent), content), encoding="utf-8")
    _draw_partitions(folder / "assets")


def _with_width(folder: Path, match: re.Match[str]) -> str:
    """A picture of a page in this folder, marked if it is wider than a column of print: a phone shows a part of it."""
    from PIL import Image

    with suppress(FileNotFoundError), Image.open(folder / match[1]) as image:
        return match[0] + "{ .wide }" * (image.width > 1.1 * WIDTHS["column"] * PRINTED)
    return match[0]


def arena_tables(folder: Path) -> dict[str, str]:
    """The pages with all tables of the arena; their pictures are drawn into ``folder``."""
    held = arena.kept()
    for file, figure in arena.pictures_of_site(held):
        (folder / file.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        save(figure, folder / file.relative_to(ROOT), dpi=SHOWN)
    return {file.relative_to(ROOT).as_posix(): text for file, text in arena.of_site(held).items()}


def copied() -> dict[str, str]:
    """The repository's pages by their paths."""
    sources = sorted({path for pattern in COPIED for path in ROOT.glob(pattern)})
    return {source.relative_to(ROOT).as_posix(): source.read_text(encoding="utf-8") for source in sources}


def tables() -> dict[str, Callable[[], str]]:
    """What makes each page of tables from options or kept files, by the path which it would have in the repository."""
    makers = {catalogue.PAGE: catalogue.page, definitions.PAGE: definitions.page, places.PAGE: places.page}
    makers[verdict.PAGE] = verdict.page
    return makers | kappas.pages() | agreement.pages()


def _linked(name: str, text: str, folder: Path, printed: Mapping[str, str]) -> str:
    """A page whose links lead to files of the site, and the commands that print a page of the site to that page. Other
    files that it links to are copied into ``folder``."""
    source = ROOT / name

    def explained(match: re.Match[str]) -> str:
        page = printed.get(match[1], name)
        return match[0] if page == name else f"[{match[0]}]({os.path.relpath(ROOT / page, source.parent)})"

    def linked(match: re.Match[str]) -> str:
        target = match["target"]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = (source.parent / target).resolve()
        name = path.relative_to(ROOT).as_posix()
        if option := _OPTION.fullmatch(name):
            path = ROOT / board.place(option[1], option[2])
        elif path.is_dir():
            path /= "README.md"
        elif path.suffix != ".md":
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / name)
        relative = os.path.relpath(path, source.parent)
        return f"{match['before']}{relative}{match['anchor'] or ''}{match['after']}"

    parts = _FENCED.split(text)
    return "".join(
        part if part.startswith("```") else _COMMAND.sub(explained, _LINK.sub(linked, part)) for part in parts
    )


def links(text: str) -> Iterator[re.Match[str]]:
    """The links of a page, without those to places of the page itself."""
    return _LINK.finditer(_FENCED.sub("", text))


def reference() -> Iterator[tuple[str, str]]:
    """The pages of the reference that no file of the repository holds."""
    yield "reference/commands.md", _commands()
    yield "reference/columns.md", _columns()
    yield "reference/python.md", _python()
    yield "partitions.md", _partitions()


def _commands() -> str:
    """The help of every command and verb."""
    from robustfl_bench.commands import data, results
    from robustfl_bench.commands.entry import PROGRAMS, VERBS
    from robustfl_bench.commands.verb import name_of

    parts = ["# Commands", "What `--help` of each command prints. The overrides of a run are in [every option]"
             "(../conf/CATALOGUE.md) and [groups and presets](../conf/README.md)."]  # fmt: skip
    verbs: dict[str, list[tuple[str, str, list[str]]]] = {
        "robustfl-bench": [(verb, module, []) for verb, module in VERBS.items()],
        "robustfl-results": [(verb, PROGRAMS["robustfl-results"], [verb]) for verb in map(name_of, results.VERBS)],
        "robustfl-data": [(verb, PROGRAMS["robustfl-data"], [verb]) for verb in map(name_of, data.VERBS)],
    }
    for program, module in PROGRAMS.items():
        parts += [f"## {program}", _help(program, module)]
        for verb, of_verb, words in verbs.get(program, []):
            parts += [f"### {program} {verb}", _help(program, of_verb, *words)]
    return "\n\n".join(parts) + "\n"


def _help(program: str, module: str, *words: str) -> str:
    """What a command prints for --help, as a block."""
    printed = StringIO()
    argv, width = patch.object(sys, "argv", [program, *words, "--help"]), patch.dict(os.environ, {"COLUMNS": "100"})
    with argv, width, redirect_stdout(printed), suppress(SystemExit):
        import_module(module).main()
    return f"```text\n{printed.getvalue().strip()}\n```"


def _columns() -> str:
    """The columns of metrics.csv."""
    from robustfl_bench.train.metrics import METRICS

    better = {1: "higher", -1: "lower", 0: ""}
    rows = [f"| `{of.name}` | {of.heading} | {of.unit} | {better[of.better]} |" for of in METRICS]
    return "\n".join(["# Columns of metrics.csv", "", _ABOUT_COLUMNS, "| column | what it is | unit | better |",
                      "| --- | --- | --- | --- |", *rows, ""])  # fmt: skip


def _python() -> str:
    """The public names of the package, from their docstrings."""
    import robustfl_bench

    homes = {name: getattr(getattr(robustfl_bench, name), "__module__", "") for name in robustfl_bench.__all__}
    modules = {"plot": "robustfl_bench.doors.api.plot"}
    about = (
        "The names of `import robustfl_bench as rb`. [Python and notebooks](../results/PYTHON.md) shows them at work; "
        "each rule and attack has [a page of its own](../arena/board.md)."
    )
    parts = ["# Python", about]
    for name, home in homes.items():
        if name in modules or home.startswith("robustfl_bench"):
            parts.append(f"::: {modules.get(name, f'{home}.{name}')}")
    return "\n\n".join(parts) + "\n"


def _notebook() -> str:
    """The notebook with what its cells show, executed in an empty folder."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read((ROOT / NOTEBOOK).with_suffix(".ipynb"), as_version=4)  # type: ignore[no-untyped-call]
    with TemporaryDirectory() as folder:
        NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    parts = []
    for cell in notebook.cells:
        parts.append(cell.source if cell.cell_type == "markdown" else f"```python\n{cell.source}\n```")
        parts += filter(None, map(_shown, cell.get("outputs", [])))
    return "\n\n".join(parts) + "\n"


def _shown(output: Mapping[str, Any]) -> str:
    """An output of a cell: its picture, its HTML, or its text."""
    data = output.get("data", {})
    if picture := data.get("image/png"):
        return f"![what the cell draws](data:image/png;base64,{''.join(picture.split())})"
    if page := data.get("text/html"):
        return f"<div>{_STYLE.sub('', page).replace(chr(10), ' ')}</div>"
    text = data.get("text/plain") or (output.get("text") if output.get("name") == "stdout" else "")
    return f"```text\n{text.strip()}\n```" if text else ""


def _partitions() -> str:
    """The partitions of the arena, each with its picture."""
    from robustfl_bench.doors.catalogue.entries import option

    about = (
        "Who holds which samples: digits, the clients of the arena. `robustfl-data partition partition=NAME --picture "
        "FILE` draws any other; [every option](conf/CATALOGUE.md) has the rest."
    )
    parts = ["# Partitions in pictures", about]
    for name in _arena_partitions():
        entry = option("partition", name)
        parts += [f"## {entry.title}", in_words(entry.summary.replace("``", "`")), f"`partition={name}`",
                  f"![Samples per client and class of {entry.title}](assets/partition_{name}.svg)"]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _draw_partitions(folder: Path) -> None:
    """A picture of each partition of the arena."""
    from robustfl_bench.read.pages.split import draw_split
    from robustfl_bench.runner.config.options import HERE
    from robustfl_bench.runner.experiment.split import split_of

    for name in _arena_partitions():
        words = ["+experiment=arena/digits", "lr=1", "attack=ipm", "num_byzantine=5", f"partition={name}"]
        split = split_of(words, HERE)
        save(draw_split(split), folder / f"partition_{name}.svg")


def _arena_partitions() -> list[str]:
    return list(board.arenas()["digits"].track.swept["partition"])


if __name__ == "__main__":
    write(Path(sys.argv[1]))
    print(f"written: {sys.argv[1]}")
