"""Descriptions of papers: their tables, cell by cell, and their figures.

``<paper>.yaml`` says which runs make each cell, in the overrides of ``robustfl-bench``; ``<paper>.csv`` beside it holds
the numbers that the paper prints. The README here explains both files.
"""

import ast
import csv
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from robustfl_bench.base.code_digest import PACKAGE
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.grouping import grouped
from robustfl_bench.read.tables.claims import KEYS, Claim, Key, Reason, about, check_keys, read_reason
from robustfl_bench.read.tables.printed import PaperLayout, read_layouts
from robustfl_bench.runner.config import options

YAML = (".yaml", ".yml")
"""The endings of files of YAML that users write."""

_HERE = PACKAGE / "read" / "papers"
_TABLE_KEYS = ("title", "published", "preset", "changes", "base", "row", "rows", "column", "columns", "blocks",
               "metric", "values", "repeats", "formulas", "other_data", "stand_ins", "looks")  # fmt: skip
_HEADING_KEYS = ("label", "run", "published")
_COLUMN_KEYS = (*_HEADING_KEYS, "metric", "worst")
_FIGURE_KEYS = ("title", "preset", "changes", "draw", "x", "y", "value", "lines", "panels", "band", "log", "mark",
                "honest_shares_of")  # fmt: skip
_CLAIM_KEYS = ("claim", "place", "table", "holds")
_SECTIONS = ("title", "every_table", "tables", "layouts", "figures", "claims", "outliers")
AVERAGES = ("average", "fedavg")
"""The rules that are the plain mean, with equal weights or by the clients' samples."""
_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip


@dataclass(frozen=True)
class Published:
    """One printed number: the key columns of the CSV, and the number and its spread exactly as printed."""

    key: Mapping[str, str]
    mean: str
    sd: str

    @property
    def number(self) -> float:
        """The mean, in the paper's unit."""
        return float(self.mean)

    @property
    def spread(self) -> float:
        """The standard deviation, 0 where the paper prints none."""
        return float(self.sd or 0)

    @property
    def text(self) -> str:
        """The number as a table shows it: ``92.5 (0.1)``, or ``92.5`` without a spread."""
        return f"{self.mean} ({self.sd})" if self.sd else self.mean

    @property
    def is_clean(self) -> bool:
        """Whether it is the accuracy of the plain mean without attack."""
        key = self.key
        return key.get("aggregator") in AVERAGES and key.get("attack") == "none" and key["metric"] == "accuracy"

    @property
    def digits(self) -> int:
        """The number of printed decimals."""
        return len(self.mean.partition(".")[2])


@dataclass(frozen=True)
class Heading:
    """The heading of a row or of a block of rows, and what the headings of columns share.

    ``overrides`` are those that its runs have; ``published`` are the key columns of the CSV that name its numbers.
    """

    label: str = ""
    overrides: tuple[str, ...] = ()
    published: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PaperColumn(Heading):
    """The heading of a column. ``metric`` is what the paper prints there, by the name in its CSV.

    A ``worst`` column has no runs of its own: it shows the worst of the columns under attack.
    """

    metric: str = "accuracy"
    worst: bool = False


@dataclass(frozen=True)
class PaperCell:
    """One number of a table. ``overrides`` are those of its runs; a worst case has no runs of its own, and None."""

    block: str
    row: str
    column: PaperColumn
    published: Published | None
    overrides: tuple[str, ...] | None


@dataclass(frozen=True)
class PaperTable:
    """A table: every block x row x column for which the paper prints a number, or all of them without a CSV of numbers.

    The runs of a cell have the overrides ``base``, then ``changes``, then those of block, row and column. ``values``
    says what is compared with a printed metric: ``{"accuracy": "best_accuracy"}``; a metric without an entry is
    compared with the value of its own name. ``preset`` is the sweep that makes all runs, with the overrides
    ``changes``; it is empty where there is none. ``seeds`` is how often the paper repeated its runs, 0 where it does
    not say, and ``repeats`` says so in words. With ``other_data`` it is measured on other data than the paper's, so
    that only the order of its rows can be compared. ``stand_ins`` are overrides whose runs may stand in for those of
    cells without a result; ``clean`` are the numbers that the paper prints of Average without attack, by which they are
    tested (see ``runs.values``). ``looks`` are the numbers of seeds at which its claims are judged, all seeds if it
    is empty.
    """

    name: str
    title: str
    base: tuple[str, ...]
    rows: tuple[Heading, ...]
    columns: tuple[PaperColumn, ...]
    blocks: tuple[Heading, ...] = (Heading(),)
    preset: str = ""
    changes: tuple[str, ...] = ()
    numbers: tuple[Published, ...] | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    seeds: int = 0
    repeats: str = ""
    other_data: bool = False
    stand_ins: tuple[tuple[str, ...], ...] = ()
    looks: tuple[int, ...] = ()
    clean: tuple[Published, ...] = ()

    @property
    def paper(self) -> str:
        """The first part of the name."""
        return self.name.split("/")[0]

    def value(self, metric: str) -> str:
        """The name of the value that is compared with a metric of the CSV."""
        return self.values.get(metric, "final_accuracy" if metric == "accuracy" else metric)

    @cached_property
    def cells(self) -> tuple[PaperCell, ...]:
        """The cells, row by row. There is none where the paper prints a dash."""
        return tuple(self._cells())

    @property
    def keys(self) -> tuple[Key, ...]:
        """Block, row and column of each cell."""
        return tuple((cell.block, cell.row, cell.column.label) for cell in self.cells)

    def _cells(self) -> Iterator[PaperCell]:
        for block in self.blocks:
            for row in self.rows:
                for column in self.columns:
                    key = {**block.published, **row.published, **column.published, "metric": column.metric}
                    overrides = (*self.base, *self.changes, *block.overrides, *row.overrides, *column.overrides)
                    for number in (None,) if self.numbers is None else self._printed(key):
                        yield PaperCell(block.label, row.label, column, number, None if column.worst else overrides)

    def _printed(self, key: Mapping[str, str]) -> list[Published]:
        of_metric = self._by_metric.get(key["metric"], [])
        return [number for number in of_metric if all(number.key[name] == value for name, value in key.items())]

    @cached_property
    def _by_metric(self) -> dict[str, list[Published]]:
        return grouped((number.key["metric"], number) for number in self.numbers or ())


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper: the ``preset`` that makes its runs, with the overrides ``changes``, and how it is drawn.

    ``draw`` is a kind of picture (``pages.figures.KINDS``) of the ``values``. ``x``, ``lines`` and ``panels`` are
    keys that the preset sweeps, or several with commas; of figures that look inside a round they are the labels of the
    axis and of the lines. The README here explains the others.
    """

    name: str
    title: str
    preset: str
    draw: str
    changes: tuple[str, ...] = ()
    x: str = ""
    y: str | Mapping[str, str] = ""
    values: tuple[str, ...] = ()
    lines: str = ""
    panels: str = ""
    band: str = "minmax"
    log: str = ""
    mark: float | None = None
    honest_shares_of: str = ""


@dataclass(frozen=True)
class Paper:
    """All that one YAML file describes: tables, how the paper prints them, and figures by name, claims about the
    tables, in order, and why cells of the tables are outside."""

    title: str
    tables: Mapping[str, PaperTable]
    figures: Mapping[str, PaperFigure]
    claims: tuple[Claim, ...] = ()
    reasons: tuple[Reason, ...] = ()
    layouts: Mapping[str, PaperLayout] = field(default_factory=dict)


@cache
def papers() -> Mapping[str, Paper]:
    """The papers that come with the package, by name."""
    return {path.stem: read(path) for path in sorted(_HERE.glob("*.yaml"))}


def tables() -> dict[str, PaperTable]:
    """The tables of all papers, by name (``boba/table2_mnist``)."""
    return {name: table for paper in papers().values() for name, table in paper.tables.items()}


def layouts() -> dict[str, PaperLayout]:
    """The printed tables of all papers, by name (``boba/table2``)."""
    return {name: layout for paper in papers().values() for name, layout in paper.layouts.items()}


def figures() -> dict[str, PaperFigure]:
    """The figures of all papers, by name (``boba/fig1``)."""
    return {name: figure for paper in papers().values() for name, figure in paper.figures.items()}


def published(path: Path) -> tuple[Published, ...]:
    """All numbers of a paper's CSV, in its order. Raises ConfigError for a file that lacks a column."""
    rows = list(csv.DictReader(options.read_text(path, absent=f"no file {path}").splitlines(keepends=True)))
    if rows and (absent := {"metric", "mean", "sd"} - set(rows[0])):
        raise ConfigError(f"{path} needs the columns metric, mean and sd; it lacks {', '.join(sorted(absent))}")
    return tuple(Published({k: v for k, v in row.items() if k not in ("mean", "sd")}, row["mean"], row["sd"])
                 for row in rows)  # fmt: skip


def read(path: Path) -> Paper:
    """The paper that a YAML file describes; the CSV of the same name beside it, if any, has its printed numbers.

    Raises ConfigError for a file that cannot be read or that has an unknown key.
    """
    content = options.read(path, absent=f"no file {path}; a table of your own is YAML, see robustfl_bench/read/papers")
    check_keys(content, _SECTIONS, f"{path}")
    shared, numbers = content.get("every_table") or {}, path.with_suffix(".csv")
    printed = published(numbers) if numbers.is_file() else None
    paper_tables, paper_figures = {}, {}
    for name, entry in _section(content, "tables", path).items():
        where = f"{path}: table {name}"
        check_keys(entry, _TABLE_KEYS, where)
        preset = {"preset": f"{path.stem}/{name}"} if path.parent == _HERE else {}
        whole = {"title": name, **preset, **shared, **entry}
        title = ", ".join(filter(None, (content.get("title"), whole["title"])))
        paper_tables[f"{path.stem}/{name}"] = _table(f"{path.stem}/{name}", title, whole, printed, where)
    for name, entry in _section(content, "figures", path).items():
        check_keys(entry, _FIGURE_KEYS, f"{path}: figure {name}")
        if "draw" not in entry:
            raise ConfigError(f"{path}: figure {name} needs draw, the kind of its picture")
        full = f"{path.stem}/{name}"
        title = ", ".join(filter(None, (content.get("title"), entry.get("title", name))))
        rest = {key: item for key, item in entry.items() if key not in ("title", "preset", "changes", "value")}
        changes, values = (_words(entry.get(key, ())) for key in ("changes", "value"))
        paper_figures[full] = PaperFigure(
            full, title, preset=entry.get("preset", full), changes=changes, values=values, **rest
        )
    claims = tuple(claim for name, entry in _section(content, "claims", path).items()
                   for claim in _claims(name, entry, path.stem, paper_tables, f"{path}: claim {name}"))  # fmt: skip
    known = tuple(_reason(name, entry, path.stem, paper_tables, f"{path}: outlier {name}")
                  for name, entry in _section(content, "outliers", path).items())  # fmt: skip
    cells = {name: table.keys for name, table in paper_tables.items()}
    printed_as = read_layouts(_section(content, "layouts", path), cells, path.stem, f"{path}")
    return Paper(content.get("title", path.stem), paper_tables, paper_figures, claims, known, printed_as)


def _section(content: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    section = content.get(name) or {}
    if not isinstance(section, Mapping):
        raise ConfigError(f"{path}: {name} must hold `name: entry` lines, got {section!r}")
    return section


def _claims(name: str, entry: Any, paper: str, tables: Mapping[str, PaperTable], where: str) -> Iterator[Claim]:
    """The claim about each of its tables, and each block of them."""
    check_keys(entry, _CLAIM_KEYS, where, needed=_CLAIM_KEYS)
    several = (entry[key] if isinstance(entry[key], list) else [entry[key]] for key in ("table", "holds"))
    if not all(isinstance(word, str) for entries in several for word in entries):
        raise ConfigError(f"{where}: table and holds are words, or lists of them")
    formulas = _words(entry["holds"])
    for short in _words(entry["table"]):
        table = _table_of(f"{paper}/{short}", tables, where)
        yield from about(name, entry["claim"], entry["place"], formulas, table.name, table.keys, where)


def _reason(name: str, entry: Any, paper: str, tables: Mapping[str, PaperTable], where: str) -> Reason:
    check_keys(entry, KEYS, where, needed=KEYS)
    table = _table_of(f"{paper}/{entry['table']}", tables, where)
    return read_reason(name, entry, table.name, table.keys, where)


def _table_of(name: str, tables: Mapping[str, PaperTable], where: str) -> PaperTable:
    if name not in tables:
        raise ConfigError(f"{where}: no table {name.partition('/')[2]!r}; there are {', '.join(tables) or 'none'}")
    return tables[name]


def _table(
    name: str, title: str, entry: Mapping[str, Any], printed: tuple[Published, ...] | None, where: str
) -> PaperTable:
    if "rows" not in entry or "columns" not in entry:
        raise ConfigError(f"{where} needs rows and columns")
    shared = {key: str(value) for key, value in entry.get("published", {}).items()}
    clean = tuple(number for number in printed or () if number.is_clean)
    if "formulas" in entry:
        printed = tuple(_formulas(name.split("/")[0], shared, entry["formulas"], where))
    elif printed is not None:
        printed = tuple(number for number in printed if all(number.key.get(k) == v for k, v in shared.items()))
    row = _pattern(entry.get("row", "aggregator={}"), "aggregator")
    column = _pattern(entry.get("column", "attack={}"), "attack") | {"metric": entry.get("metric", "accuracy")}
    return PaperTable(
        name=name,
        title=title,
        base=_words(entry.get("base", ())),
        rows=tuple(Heading(**_heading(item, row, _HEADING_KEYS, where)) for item in entry["rows"]),
        columns=tuple(PaperColumn(**_heading(item, column, _COLUMN_KEYS, where)) for item in entry["columns"]),
        blocks=tuple(Heading(**_heading(item, {}, _HEADING_KEYS, where)) for item in entry.get("blocks", [{}])),
        preset=entry.get("preset", ""),
        changes=_words(entry.get("changes", ())),
        numbers=printed,
        values=entry.get("values", {}),
        seeds=repeats if isinstance(repeats := entry.get("repeats", ""), int) else 0,
        repeats={1: "one run"}.get(repeats, f"mean (sd) over {repeats} seeds") if isinstance(repeats, int) else repeats,
        other_data=entry.get("other_data", False),
        stand_ins=tuple(map(_words, entry.get("stand_ins", ()))),
        looks=tuple(entry.get("looks", ())),
        clean=clean,
    )


def _pattern(given: Any, key: str) -> dict[str, Any]:
    """The meaning of row or column labels: overrides, and key columns of the CSV."""
    return {"published": {key: "{}"}} | (dict(given) if isinstance(given, Mapping) else {"run": given})


def _heading(item: Any, pattern: Mapping[str, Any], known: Sequence[str], where: str) -> dict[str, Any]:
    """A row, a column or a block in full. What its entry does not say comes from the pattern, in which ``{}`` is the
    label, ``{0}`` its first word and ``{1}`` the second."""
    entry = item if isinstance(item, Mapping) else {"label": item}
    check_keys(entry, known, where)
    label = str(entry.get("label", ""))
    words = {"{}": label} | {f"{{{place}}}": word for place, word in enumerate(label.split())}

    def fill(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: fill(item) for name, item in value.items()}
        if isinstance(value, list):
            return [fill(item) for item in value]
        return re.sub(r"\{\d*\}", lambda found: words[found[0]], value) if isinstance(value, str) else value

    try:
        given = {*entry, "run"} if entry.get("worst") else {*entry}
        rest = {name: fill(value) for name, value in pattern.items() if name not in given}
    except KeyError as error:
        raise ConfigError(f"{where}: the label {label!r} has no word {error.args[0]}") from None
    whole = rest | dict(entry)
    published = {name: str(value) for name, value in whole.get("published", {}).items()}
    return {"label": label, "overrides": _words(whole.get("run", ())), "published": published} | {
        name: whole[name] for name in ("metric", "worst") if name in whole
    }


def _words(overrides: str | Sequence[str]) -> tuple[str, ...]:
    return (overrides,) if isinstance(overrides, str) else tuple(overrides)


def _formulas(paper: str, key: Mapping[str, str], entry: Mapping[str, Any], where: str) -> Iterator[Published]:
    """The numbers that follow from formulas, by metric and row; the entry ``where`` has the values of their letters."""
    letters = entry.get("where", {})
    for metric, formulas in entry.items():
        for row, formula in formulas.items() if metric != "where" else ():
            number = _compute(ast.parse(str(formula), mode="eval").body, letters, where)
            yield Published({"paper": paper, **key, "aggregator": row, "metric": metric}, f"{number:.3f}", "")


def _compute(node: ast.expr, letters: Mapping[str, float], where: str) -> float:
    """The value of a sum or product of numbers and letters."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=letter) if letter in letters:
            return letters[letter]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_compute(left, letters, where), _compute(right, letters, where))
    raise ConfigError(f"{where}: a formula has numbers, + - * / and the letters of `where`, got {ast.unparse(node)}")
