"""Rows of kept files, and numbers in groups."""

import csv
from collections import defaultdict
from collections.abc import Hashable, Iterable
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from robustfl_bench.runner.store.kept import sealed_content

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def sealed_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file of measurements; none if it is not there. Raises DataError as ``sealed_content`` does."""
    return list(csv.DictReader(sealed_content(path).decode().splitlines())) if path.is_file() else []


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values of each key, both in the order of the pairs."""
    values = defaultdict[Key, list[Value]](list)
    for key, value in pairs:
        values[key].append(value)
    return dict(values)


def worst_case(pairs: Iterable[tuple[Hashable, float]]) -> float:
    """The least over attacks of the means over seeds; the pairs are an attack and a number."""
    return min(map(fmean, grouped(pairs).values()))
