"""The arena's sentences and tables: templates in ``templates/``, filled with the values that its modules compute.

``views.pareto`` is the entry ``pareto`` of ``templates/views.yaml``. A sentence is a text of Jinja. A table has lines
``above`` it, ``columns``, ``footnotes``, a ``report`` and the meaning of ``bold``, see ``Sheet``. The expression of a
column gives its cell of a row. Empty lines are left out. Text after ``*`` is an expression of a list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.console import counted
from robustfl_bench.read.tables.sheets import Printed, Sheet
from robustfl_bench.runner.config import options

if TYPE_CHECKING:
    from jinja2 import Environment, Template

    from robustfl_bench.read.runs.statistics import Interval

HALF = 50
"""The score below which a rule counts as failed: half of what the honest clients reach."""

LOWEST = "the lowest known so far"
"""What a score is: a further attack can lower it, and none can raise it."""

SERVER_DATA = "server data"
"""What a rule needs that reads the server's samples."""


def said(name: str, /, **values: Any) -> str:
    """The sentence of this name."""
    return _template(_entry(name)).render(values)


def each(name: str, records: Iterable[Any], /, **values: Any) -> list[str]:
    """The sentence of this name for each of some records: their items, or one ``record`` that has attributes."""
    return [said(name, **values, **_fields(record)) for record in records]


def lines(name: str, /, **values: Any) -> list[str]:
    """The lines of this name but for empty ones."""
    return _lines(_entry(name), values)


def filled(name: str, /, **values: Any) -> dict[str, str]:
    """The texts of this name by their own names, but for empty ones."""
    texts = {key: _template(text).render(values) for key, text in _entry(name).items()}
    return {key: text for key, text in texts.items() if text}


def tabled(name: str, records: Iterable[Any], /, **values: Any) -> Sheet:
    """The table of this name with a row for each record, as ``each`` has them; a text is the name of the block below
    it. Of the ``values``, ``todos`` are those of the table."""
    entry = _entry(name)
    heading = _texts(entry["columns"], values)
    rows = []
    for record in records:
        if isinstance(record, str):
            rows.append([Printed(record), *[Printed("")] * (len(heading) - 1)])
        else:
            of_row = {**values, **_fields(record)}
            rows.append([_printed(part) for label, cell in entry["columns"].items()
                         for part in _parts(_expression(cell or label)(of_row))])  # fmt: skip
    above, footnotes, report = (_lines(entry.get(part, ()), values) for part in ("above", "footnotes", "report"))
    labels = _expression(str(entry.get("labels", 1)))(values)
    bold = _template(entry.get("bold", "")).render(values)
    return Sheet(above, heading, rows, labels, footnotes, bold, report, values.get("todos", ()))


def number(value: float, digits: int = 1) -> str:
    """A number; empty if unknown."""
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def bounds(interval: Interval | None, digits: int = 0) -> str:
    """An interval in brackets; empty if unknown."""
    return f" ({interval.low:.{digits}f} to {interval.high:.{digits}f})" if interval is not None else ""


def span(least: str, largest: str) -> str:
    """Two ends as a phrase; once if they are the same."""
    return least if least == largest else f"{least} to {largest}"


def ends(values: Iterable[float], form: str = ".0f") -> str:
    """The least and the largest of some numbers as a phrase."""
    ascending = sorted(values)
    return span(format(ascending[0], form), format(ascending[-1], form))


def commas(values: Iterable[Any], form: str = "{}") -> str:
    """Values, or the pairs of a mapping, each in a form, with commas between them."""
    rows = values.items() if isinstance(values, Mapping) else values
    return ", ".join(form.format(*(row if isinstance(row, tuple) else (row,))) for row in rows)


def sentence(words: str) -> str:
    """Words as they begin a sentence."""
    return words[0].upper() + words[1:]


def listed(names: Iterable[str], most: int = 0) -> str:
    """Names as a phrase; of more than ``most``, if given, the first and the number of the others."""
    words = list(names)
    if most and len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]])) or "none"


def _fields(record: Any) -> Mapping[str, Any]:
    return {"record": record, **(record if isinstance(record, Mapping) else {})}


def _parts(value: Any) -> Iterable[Any]:
    """The cells that an expression gives: one, or several."""
    return value if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def _lines(texts: Iterable[str], values: Mapping[str, Any]) -> list[str]:
    return [line for line in _texts(texts, values) if line]


def _texts(texts: Iterable[str], values: Mapping[str, Any]) -> list[str]:
    rendered = list[str]()
    for text in texts:
        rendered += _expression(text[1:])(values) if text.startswith("*") else [_template(text).render(values)]
    return rendered


def _printed(value: object) -> Printed:
    """A cell: numbers have one digit after the point, unknown ones are empty."""
    if isinstance(value, Printed):
        return value
    return Printed("" if value is None else number(value) if isinstance(value, float) else str(value))


def _best(value: object, best: object) -> Printed:
    return Printed(_printed(value).text, bool(best))


def _entry(name: str) -> Any:
    file, _, key = name.partition(".")
    return _entries(file)[key]


@cache
def _entries(file: str) -> Mapping[str, Any]:
    path = Path(__file__).with_name("templates") / f"{file}.yaml"
    return dict(options.read(path, absent=f"no file {path}"))


@cache
def _template(text: str) -> Template:
    return _environment().from_string(text)


@cache
def _expression(text: str) -> Callable[..., Any]:
    return _environment().compile_expression(text, undefined_to_none=False)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined)
    environment.globals |= {"said": said, "each": each, "HALF": HALF, "LOWEST": LOWEST, "SERVER_DATA": SERVER_DATA}
    environment.filters |= {
        function.__name__: function for function in (number, bounds, span, ends, commas, sentence, listed, counted)
    }
    environment.filters |= {
        "best": _best,
        "g": lambda value: f"{value:g}",
        "semicolons": "; ".join,
        "fixed": lambda value, digits=0: f"{value:.{digits}f}",
        "signed": lambda value, digits=0: f"{value:+.{digits}f}",
    }
    return environment
