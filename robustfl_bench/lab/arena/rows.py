"""Rows of kept files, and the worst case."""

import csv
from collections.abc import Hashable, Iterable
from pathlib import Path
from statistics import fmean

from robustfl_bench.base.grouping import grouped
from robustfl_bench.runner.store.kept import sealed_content


def sealed_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file of measurements; none if it is not there. Raises DataError as ``sealed_content`` does."""
    return list(csv.DictReader(sealed_content(path).decode().splitlines())) if path.is_file() else []


def worst_case(pairs: Iterable[tuple[Hashable, float]]) -> float:
    """The least over attacks of the means over seeds; the pairs are an attack and a number."""
    return min(map(fmean, grouped(pairs).values()))
