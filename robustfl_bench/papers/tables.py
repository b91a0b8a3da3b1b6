"""What a paper's table is made of: its cells, the published number of each, and the runs that measure it.

A description is a product: blocks x methods x columns. Each part says which rows of the paper's CSV it stands for
(``published``) and what the runs behind it have in their config (``runs``): names of options for groups, values for
scalars and dotted keys. What no part names is as it is shipped in conf/.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any


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
        """As a table shows it: ``92.5 (0.1)``, or ``92.5``."""
        return f"{self.mean} ({self.sd})" if self.sd else self.mean

    @property
    def digits(self) -> int:
        """Printed decimals."""
        return len(self.mean.partition(".")[2])


@cache
def published(paper: str) -> tuple[Published, ...]:
    """All numbers of a paper, in the order of its CSV."""
    with open(Path(__file__).parent / f"{paper}.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(Published({k: v for k, v in row.items() if k not in ("mean", "sd")}, row["mean"], row["sd"])
                 for row in rows)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A block of rows, or the part that all columns with one attack share."""

    label: str = ""
    published: Mapping[str, str] = field(default_factory=dict)
    runs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Column(Part):
    """A column: its ``metric`` by the CSV's name. ``worst``: no runs of its own, the least of the attacks' columns.

    ``brings`` is what a method has in its runs here and not elsewhere.
    """

    metric: str = "accuracy"
    worst: bool = False
    brings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class PaperCell:
    """One number of a table. ``runs`` is what its runs have in their config; a worst case has none of its own."""

    block: str
    method: str
    column: Column
    published: Published
    runs: Mapping[str, Any] | None

    @property
    def row(self) -> tuple[str, str]:
        """Block and method."""
        return self.block, self.method


@dataclass(frozen=True)
class PaperTable:
    """``name`` is also that of the preset that makes its runs; ``repeats`` says what a published number is.

    ``brings`` is what a method has in its runs beside its rule: rates, say, where every method has its own. ``values``
    maps a metric of the CSV to the value of a run that is compared with it. ``formulas`` are the numbers where a table
    prints formulas instead; else they are those of the CSV. In a ``stand_in`` the runs have other data than the printed
    numbers: the order of its methods says something, differences do not.
    """

    name: str
    title: str
    published: Mapping[str, str]
    runs: Mapping[str, Any]
    methods: tuple[str, ...]
    columns: tuple[Column, ...]
    blocks: tuple[Part, ...] = (Part(),)
    brings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=lambda: {"accuracy": "final_accuracy", "mrd": "mrd"})
    repeats: str = "mean (sd) over 5 seeds"
    formulas: tuple[Published, ...] = ()
    stand_in: bool = False

    @property
    def paper(self) -> str:
        """The first part of the name, which is that of the CSV."""
        return self.name.split("/")[0]

    @cached_property
    def cells(self) -> tuple[PaperCell, ...]:
        """The cells that the paper prints, row by row. Where it prints a dash there is none."""
        return tuple(self._cells())

    def _cells(self) -> Iterator[PaperCell]:
        here = self.formulas or [number for number in published(self.paper) if _has(number, self.published)]
        for block in self.blocks:
            for method in self.methods:
                for column in self.columns:
                    key = {**block.published, **column.published, "aggregator": method, "metric": column.metric}
                    brought = {**self.brings.get(method, {}), **column.brings.get(method, {})}
                    runs = {**self.runs, **block.runs, **column.runs, **brought, "aggregator": method}
                    for number in here:
                        if _has(number, key):
                            yield PaperCell(block.label, method, column, number, None if column.worst else runs)


def _has(number: Published, key: Mapping[str, str]) -> bool:
    return all(number.key[name] == value for name, value in key.items())
