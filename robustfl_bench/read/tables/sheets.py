"""Sheets, tables ready to print, as text, Markdown, LaTeX (booktabs), CSV, HTML and JSON.

Pages of HTML come from the templates in ``html/``: one file each, without network, for light and dark, screen and
phone. Everything that a template prints is escaped. The page's content security policy lets only ``page.js`` run, and
no request leave: names and configs of runs may come from somebody else.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.console import as_json, printable
from robustfl_bench.base.grouping import grouped
from robustfl_bench.runner.config.names import in_words, readable
from robustfl_bench.runner.store.lines import guarded

if TYPE_CHECKING:
    from jinja2 import Environment

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
          ">": r"\textgreater{}", "|": r"\textbar{}", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "±": r"$\pm$",
          "\u03b1": r"$\alpha$", "φ": r"$\phi$",
          **{character: f"\\{character}" for character in "&%$#_{}"}}  # fmt: skip
_NUMBER = re.compile(r"[<>~+(-]* ?\d")  # the beginning of one


@dataclass(frozen=True)
class Printed:
    """The words of a cell, whether they are the best of their column, and the number of their footnote."""

    text: str
    best: bool = False
    note: int | None = None


@dataclass(frozen=True)
class Todo:
    """Runs that a table lacks, with the reason, and the command that makes them; each is empty if none is known."""

    kind: str
    what: str
    command: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}" if self.reason else self.what


def joined(todos: Iterable[Todo]) -> list[Todo]:
    """The todos, each once; runs that failed for the same reason are one, with the command for the first."""
    alike = grouped(((todo.kind, todo.reason) if todo.reason else todo, todo) for todo in dict.fromkeys(todos))
    return [
        replace(first, what=f"{first.what} and {len(others)} more, which the same sweep makes again")
        if others
        else first
        for first, *others in alike.values()
    ]


@dataclass(frozen=True)
class Sheet:
    """A table to print.

    The first of the lines ``above`` it is its title. ``groups`` are the words above the heading of each column; columns
    beside each other with the same are a group. Each row begins with ``labels`` label cells. ``footnotes`` and the
    meaning of ``bold`` type are part of the table in every format. The ``report`` on the table, and the ``todos``,
    which it lacks, are printed below it, in LaTeX as comments. In LaTeX the table has a ``caption``, by default the
    title, a ``label``, and a ``width`` that it fits: ``column``, ``page``, or none; in a ``bare`` one, footnotes are
    comments. In Markdown, LaTeX and HTML, options and settings have the ``names`` that are given, else those that
    readers know; the other formats have the words of the command line.
    """

    above: Sequence[str]
    heading: Sequence[str]
    rows: Sequence[Sequence[Printed]]
    labels: int = 1
    footnotes: Sequence[str] = ()
    bold: str = ""
    report: Sequence[str] = ()
    todos: Sequence[Todo] = field(default_factory=tuple)
    caption: str = ""
    label: str = ""
    width: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    bare: bool = False
    groups: Sequence[str] = ()

    @property
    def spans(self) -> list[tuple[str, int, int]]:
        """The groups of columns: the words, the first column and the one after the last."""
        spans, at = [], 0
        for words, columns in groupby(self.groups):
            spans.append((words, at, at := at + len([*columns])))
        return spans

    @property
    def whole_heading(self) -> Sequence[str]:
        """The headings, each with its group."""
        groups = self.groups or [""] * len(self.heading)
        return [" ".join(filter(None, both)) for both in zip(groups, self.heading, strict=True)]

    def is_heading(self, row: Sequence[Printed]) -> bool:
        """Whether a row is the name of the block below it."""
        return not any(cell.text for cell in row[1:])

    def of_words(self) -> list[bool]:
        """Which columns begin on the left: labels, and those none of whose cells begins with a number."""
        rows = [row for row in self.rows if not self.is_heading(row)]
        columns = [[row[at].text for row in rows if row[at].text] for at in range(len(self.heading))]
        return [at < self.labels or (bool(column) and not any(map(_NUMBER.match, column)))
                for at, column in enumerate(columns)]  # fmt: skip


WIDTHS = {"column": ("table", r"\columnwidth"), "page": ("table*", r"\textwidth")}
"""The environments that fill them, and their lengths."""


def text(sheets: Sequence[Sheet]) -> str:
    """In columns, for a terminal."""
    parts = []
    for sheet in sheets:
        grid = _grid(sheet)
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        for words, first, end in sheet.spans:
            widths[end - 1] += max(0, len(words) - sum(widths[first:end]) - 2 * (end - first - 1))
        lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in grid]
        lines.insert(1, "-" * max(map(len, lines)))
        if sheet.groups:
            wide = (words.ljust(sum(widths[first:end]) + 2 * (end - first - 1)) for words, first, end in sheet.spans)
            lines.insert(0, "  ".join(wide).rstrip())
        parts.append("\n".join([*sheet.above, "", *lines, *sheet.footnotes]))
        parts += ["\n".join(sheet.report)] if sheet.report else []
    return "\n\n".join([*parts, "\n".join(_todo_lines(sheets))]).rstrip("\n") + "\n"


def markdown(sheets: Sequence[Sheet]) -> str:
    """To paste into a page."""
    parts = []
    for sheet in map(with_names, sheets):
        heading, *rows = _grid(sheet, _markdown_escape, "**{}**".format, " <sup>[{}]</sup>".format)
        if sheet.groups:
            groups = map(_markdown_escape, sheet.groups)
            heading = ["<br>".join(filter(None, both)) for both in zip(groups, heading, strict=True)]
        lines = [heading, ["---" if words else "---:" for words in sheet.of_words()], *rows]
        parts.append("  \n".join(map(_markdown_escape, sheet.above)))
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        parts.append("  \n".join(map(_markdown_escape, below(sheet))))
        parts.append("\n".join(f"- {_markdown_escape(line)}" for line in sheet.report))
    for todo in _todos(sheets):
        parts.append(f"- {todo.kind}: {_markdown_escape(str(todo))}")
        parts += [f"      {todo.command}"] if todo.command else []
    return "\n\n".join(part for part in parts if part) + "\n"


def latex(sheets: Sequence[Sheet]) -> str:
    """To paste into a paper; lines that are not part of the table are comments."""
    fitted = any(sheet.width for sheet in sheets)
    parts = [r"% needs \usepackage{booktabs" + (",graphicx" if fitted else "") + "}"]
    for sheet in map(with_names, sheets):
        note = (lambda number: "") if sheet.bare else r"\textsuperscript{{[{}]}}".format
        heading, *rows = _grid(sheet, latex_words, r"\textbf{{{}}}".format, note, minus="$-$")
        environment, length = WIDTHS.get(sheet.width, ("table", ""))
        parts += [f"% {line}" for line in sheet.above]
        parts.append(rf"\begin{{{environment}}}" + "\n  \\centering")
        parts.append(f"  \\caption{{{sheet.caption or latex_words(sheet.above[0]) + '.'}}}")
        parts += [f"  \\label{{{sheet.label}}}"] if sheet.label else []
        if length:  # a wider table is scaled down, others keep their size
            parts.append("  \\footnotesize\\setlength{\\tabcolsep}{3pt}%\n  \\sbox0{%")
        alignment = "".join("l" if words else "r" for words in sheet.of_words())
        parts.append(f"  \\begin{{tabular}}{{{alignment}}}\n    \\toprule")
        if sheet.groups:
            spans = [(rf"\multicolumn{{{end - first}}}{{c}}{{{latex_words(words)}}}" if words else "", first, end)
                     for words, first, end in sheet.spans]  # fmt: skip
            parts.append(_latex_row([words or "&" * (end - first - 1) for words, first, end in spans]))
            parts.append(
                "    " + " ".join(rf"\cmidrule(lr){{{first + 1}-{end}}}" for words, first, end in spans if words)
            )
        parts.append(f"{_latex_row(heading)}\n    \\midrule")
        for row, cells in zip(sheet.rows, rows, strict=True):
            begins = sheet.labels > 1 and sheet.groups and row[0].text and row is not sheet.rows[0]
            parts += ["    \\midrule"] * bool(begins) + [_latex_row(cells)]
        parts.append("    \\bottomrule\n  \\end{tabular}")
        if length:
            parts.append(rf"  }}\ifdim\wd0>{length}\resizebox{{{length}}}{{!}}{{\usebox0}}\else\usebox0\fi")
        notes = below(sheet)
        parts += [] if sheet.bare else [rf"  \par\footnotesize {latex_words(line)}" for line in notes]
        parts.append(rf"\end{{{environment}}}")
        parts += [f"% {line}" for line in notes] if sheet.bare else []
        parts += [f"% {line}" for line in sheet.report]
        parts.append("")
    return "\n".join([*parts, *(f"% {line}" for line in _todo_lines(sheets))]).rstrip("\n") + "\n"


def with_names(sheet: Sheet) -> Sheet:
    """The sheet with names for readers."""
    name = partial(readable, given=sheet.names)
    rows = [[replace(cell, text=(name if at < sheet.labels or cell.text in sheet.names else in_words)(cell.text))
             for at, cell in enumerate(row)] for row in sheet.rows]  # fmt: skip
    return replace(
        sheet,
        above=[*map(name, sheet.above[:1]), *map(in_words, sheet.above[1:])],
        heading=[*map(name, sheet.heading)],
        groups=[*map(name, sheet.groups)],
        rows=rows,
        footnotes=[*map(in_words, sheet.footnotes)],
        report=[*map(in_words, sheet.report)],
    )


def _latex_row(cells: Sequence[str]) -> str:
    """The cells as a line; braces keep one that begins with [ or * from being an argument of the command before it."""
    words = " & ".join(cells)
    return rf"    {'{}' * words.startswith(('[', '*'))}{words} \\"


def page(sheets: Sequence[Sheet]) -> str:
    """An HTML page of its own, whose rows can be sorted and filtered."""
    tables = [(sheet, bodies(sheet), [*below(sheet), *sheet.report]) for sheet in map(with_names, sheets)]
    return rendered("tables.html", title=sheets[0].above[0], sheets=tables, todos=_todos(sheets))


def bodies(sheet: Sheet) -> list[list[Sequence[Printed]]]:
    """Rows that stay together when a page sorts them: one that begins with an empty label belongs to that above."""
    whole: list[list[Sequence[Printed]]] = []
    for row in sheet.rows:
        numbers = [replace(cell, text=with_minus(cell.text, "\u2212")) for cell in row[sheet.labels :]]
        if not row[0].text and whole:
            whole[-1].append([*row[: sheet.labels], *numbers])
        else:
            whole.append([[*row[: sheet.labels], *numbers]])
    return whole


def with_minus(words: str, minus: str) -> str:
    """The words with another sign for the minus of a number."""
    return re.sub(r"(?<!\w)-(?=\d)", lambda _: minus, words)


def _grid(
    sheet: Sheet,
    escape: Callable[[str], str] = str,
    bold: Callable[[str], str] = str,
    note: Callable[[int], str] = " [{}]".format,
    minus: str = "-",
) -> list[list[str]]:
    """Heading and rows of printed cells: escaped, then with the marks as the format writes them."""
    grid = [[escape(label) for label in sheet.heading]]
    for row in sheet.rows:
        written = [escape(cell.text) for cell in row]
        written[sheet.labels :] = [with_minus(words, minus) for words in written[sheet.labels :]]
        written = [bold(words) if cell.best else words for words, cell in zip(written, row, strict=True)]
        grid.append([words + (note(cell.note) if cell.note else "") for words, cell in zip(written, row, strict=True)])
    return grid


def plain_csv(sheets: Sequence[Sheet]) -> str:
    """The printed cells as comma-separated values, without marks; tables below each other."""
    rows = list[list[str]]()
    for sheet in sheets:
        rows += [[*sheet.whole_heading], *([cell.text for cell in row] for row in sheet.rows)]
    return csv_text(map(guarded, row) for row in rows)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as comma-separated values."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def plain_json(sheets: Sequence[Sheet]) -> str:
    """A list of tables, each with its title, remarks, columns, rows of printed cells, notes, report and todos."""
    return as_json([
        {
            "title": sheet.above[0],
            "remarks": sheet.above[1:],
            "columns": sheet.whole_heading,
            "rows": [[cell.text for cell in row] for row in sheet.rows],
            "best": [[cell.best for cell in row] for row in sheet.rows],
            "notes": [*sheet.footnotes, *([f"best: {sheet.bold}"] if sheet.bold else [])],
            "report": sheet.report,
            "todos": [asdict(todo) for todo in joined(sheet.todos)],
        }
        for sheet in sheets
    ])  # fmt: skip


def _of_printable(write: Callable[[Sequence[Sheet]], str]) -> Callable[[Sequence[Sheet]], str]:
    """The format, for sheets whose words are all ``printable``: names in somebody else's runs can be anything."""

    def cleaned(sheet: Sheet) -> Sheet:
        return replace(
            sheet,
            above=list(map(printable, sheet.above)),
            heading=list(map(printable, sheet.heading)),
            groups=list(map(printable, sheet.groups)),
            rows=[[replace(cell, text=printable(cell.text)) for cell in row] for row in sheet.rows],
            footnotes=list(map(printable, sheet.footnotes)),
            report=list(map(printable, sheet.report)),
            todos=[Todo(*map(printable, astuple(todo))) for todo in sheet.todos],
        )

    return lambda sheets: write(list(map(cleaned, sheets)))


FORMATS: dict[str, Callable[[Sequence[Sheet]], str]] = {
    name: _of_printable(write) for name, write in (
        ("text", text), ("markdown", markdown), ("latex", latex), ("csv", plain_csv), ("html", page),
        ("json", plain_json),
    )
}  # fmt: skip


WITH_NAMES = ("markdown", "html", "latex")
"""The formats for readers: with the names of ``with_names``."""


def below(sheet: Sheet) -> list[str]:
    """The lines below a table in a format that has bold type."""
    return [*sheet.footnotes, *([f"bold: {sheet.bold}"] if sheet.bold else [])]


def _todos(sheets: Sequence[Sheet]) -> list[Todo]:
    """What the tables lack."""
    return joined(todo for sheet in sheets for todo in sheet.todos)


def _todo_lines(sheets: Sequence[Sheet]) -> list[str]:
    lines = []
    for todo in _todos(sheets):
        lines.append(f"{todo.kind:<10} {todo}")
        lines += [f"{'':<10} {todo.command}"] if todo.command else []
    return lines


_PAGE = re.compile(r"(?:\.\./[\w/]+|\bREADME)\.md(?:#[\w-]+)?")
"""A page as the words of a sheet name it, from the folder of their own page."""


def _markdown_escape(words: str) -> str:
    """The words as Markdown, in which the name of a page is a link to it."""
    parts, pages = _PAGE.split(words), _PAGE.findall(words)
    escaped = [re.sub(r"([|\\`*_<\[\]])", r"\\\1", part) for part in parts]
    links = [f"[{page.partition('#')[0].removeprefix('../')}]({page})" for page in pages]
    return "".join(word for pair in zip(escaped, [*links, ""], strict=True) for word in pair)


def latex_words(words: str) -> str:
    """The words as LaTeX prints them."""
    return "".join(_LATEX.get(character, character) for character in words)


def rendered(template: str, **content: Any) -> str:
    """The page of a template: ``tables.html`` or ``report.html``."""
    return _environment().get_template(template).render(content)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("robustfl_bench.read.tables", "html"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    folder = Path(__file__).with_name("html")
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    made.globals |= {"style": style, "script": script, "script_digest": digest}
    return made
