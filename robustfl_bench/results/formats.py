"""Tables as text, Markdown, LaTeX (booktabs), CSV and HTML. A format only lays out what the table already says."""

import csv
import html
import io
import re
from collections.abc import Callable, Sequence

from robustfl_bench.results.tables import WORST, Table, Todo

_INCOMPLETE = f"* not complete: fewer seeds than elsewhere, or for {WORST} an attack without a full result"
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
          ">": r"\textgreater{}", **{character: f"\\{character}" for character in "&%$#_{}"}}  # fmt: skip
_STYLE = """body { font-family: sans-serif; margin: 2em; color-scheme: light dark }
table { border-collapse: collapse; margin-top: 2em }
caption { text-align: left; padding-bottom: .5em }
th, td { padding: .2em .8em; text-align: right }
th:first-child { text-align: left }
tr:first-child th { border-bottom: 1px solid }"""


def render(tables: Sequence[Table], form: str) -> str:
    """The tables one below the other, then once what they lack; ``form`` is one of FORMATS."""
    return FORMATS[form](tables)


def _grid(
    table: Table,
    escape: Callable[[str], str] = str,
    bold: Callable[[str], str] = str,
    note: Callable[[int], str] = " [{}]".format,
) -> list[list[str]]:
    """Heading and rows of printed cells: escaped, then with the marks as the format writes them."""
    best = {column: table.best(column) for column in table.columns}
    grid = [[escape(label) for label in (table.corner, *table.columns)]]
    for row in table.rows:
        line = [escape(row)]
        for column in table.columns:
            cell = table.cells[row, column]
            written = escape(cell.text(table.value.digits) + "*" * cell.partial)
            written = bold(written) if row in best[column] else written
            line.append(written + (note(cell.note) if cell.note else ""))
        grid.append(line)
    return grid


def _remarks(table: Table) -> list[str]:
    """What stands above a table."""
    selection = [f"where {', '.join(table.conditions)}"] if table.conditions else []
    return [table.caption, *selection, *table.remarks]


def _footnotes(table: Table) -> list[str]:
    """What stands below it."""
    incomplete = [_INCOMPLETE] if any(cell.partial for cell in table.cells.values()) else []
    return [f"[{number}] {reason}" for number, reason in enumerate(table.notes, 1)] + incomplete


def _todos(tables: Sequence[Table]) -> list[Todo]:
    """What the tables lack, each thing once."""
    return list(dict.fromkeys(todo for table in tables for todo in table.todos))


def _todo_lines(tables: Sequence[Table]) -> list[str]:
    lines = []
    for todo in _todos(tables):
        lines.append(f"{todo.kind:<10} {todo.what}")
        lines += [f"{'':<10} {todo.command}"] if todo.command else []
    return lines


def _text(tables: Sequence[Table]) -> str:
    parts = []
    for table in tables:
        grid = _grid(table)
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in grid]
        lines.insert(1, "-" * max(map(len, lines)))
        parts.append("\n".join([*_remarks(table), "", *lines, *_footnotes(table)]))
    return "\n\n".join([*parts, "\n".join(_todo_lines(tables))]).rstrip("\n") + "\n"


def _markdown(tables: Sequence[Table]) -> str:
    parts = []
    for table in tables:
        heading, *rows = _grid(table, _markdown_escape, "**{}**".format, " <sup>[{}]</sup>".format)
        lines = [heading, ["---", *["---:"] * len(table.columns)], *rows]
        parts.append("  \n".join(map(_markdown_escape, _remarks(table))))
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        parts.append("  \n".join(map(_markdown_escape, _footnotes(table))))
    for todo in _todos(tables):
        parts.append(f"- {todo.kind}: {_markdown_escape(todo.what)}")
        parts += [f"      {todo.command}"] if todo.command else []
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_escape(text: str) -> str:
    return re.sub(r"([|\\`*_<\[\]])", r"\\\1", text)


def _latex(tables: Sequence[Table]) -> str:
    parts = [r"% needs \usepackage{booktabs}"]
    for table in tables:
        heading, *rows = _grid(table, _latex_escape, r"\textbf{{{}}}".format, r"\textsuperscript{{[{}]}}".format)
        parts.append(r"\begin{table}" + "\n  \\centering")
        parts.append(f"  \\caption{{{'; '.join(map(_latex_escape, _remarks(table)))}.}}")
        parts.append(f"  \\begin{{tabular}}{{l{'r' * len(table.columns)}}}\n    \\toprule")
        parts.append(rf"    {' & '.join(heading)} \\" + "\n    \\midrule")
        parts += [rf"    {' & '.join(row)} \\" for row in rows]
        parts.append("    \\bottomrule\n  \\end{tabular}")
        parts += [rf"  \par\footnotesize {_latex_escape(line)}" for line in _footnotes(table)]
        parts.append(r"\end{table}" + "\n")
    return "\n".join([*parts, *(f"% {line}" for line in _todo_lines(tables))]).rstrip("\n") + "\n"


def _latex_escape(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _csv(tables: Sequence[Table]) -> str:
    """One line per cell, all values below each other; where there is no number, ``state`` and ``reason`` say why."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    first = tables[0]
    writer.writerow(["value", "unit", first.row_key, first.column_key, "mean", "sd", "seeds", "state", "reason"])
    for table in tables:
        for (row, column), cell in table.cells.items():
            mean = cell.mean if cell.seeds else ""
            spread = cell.sd if cell.seeds > 1 else ""
            seeds: int | str = "" if column == WORST else cell.seeds
            state = cell.state or ("incomplete" if cell.partial else "complete")
            reason = table.notes[cell.note - 1] if cell.note else ""
            writer.writerow([table.value.name, table.value.unit, row, column, mean, spread, seeds, state, reason])
    return out.getvalue()


def _html(tables: Sequence[Table]) -> str:
    """A page of its own, without scripts."""
    title = html.escape(tables[0].value.title)
    parts = [f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title>']
    parts.append(f"<style>\n{_STYLE}\n</style></head>\n<body>")
    for table in tables:
        heading, *rows = _grid(table, html.escape, "<b>{}</b>".format, "<sup>[{}]</sup>".format)
        parts.append(f"<table>\n<caption>{'<br>'.join(map(html.escape, _remarks(table)))}</caption>")
        parts.append("<tr>" + "".join(f'<th scope="col">{label}</th>' for label in heading) + "</tr>")
        for label, *cells in rows:
            parts.append(f'<tr><th scope="row">{label}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        parts.append("</table>")
        parts += [f"<p>{html.escape(line)}</p>" for line in _footnotes(table)]
    for todo in _todos(tables):
        command = f"<br><code>{html.escape(todo.command)}</code>" if todo.command else ""
        parts.append(f"<p>{html.escape(f'{todo.kind}: {todo.what}')}{command}</p>")
    return "\n".join([*parts, "</body>\n</html>\n"])


FORMATS: dict[str, Callable[[Sequence[Table]], str]] = {
    "text": _text, "markdown": _markdown, "latex": _latex, "csv": _csv, "html": _html,
}  # fmt: skip
