"""All runs x evaluated rounds as one tidy table, for other people's tools."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from robustfl_bench.base.errors import ConfigError, writable
from robustfl_bench.read.runs import archive, records
from robustfl_bench.runner.store.lines import guarded
from robustfl_bench.runner.store.writing import stream_atomically

if TYPE_CHECKING:
    import pandas as pd

_KEPT_FACTS = ("run", "run_id", "state", "scale", "experiment")


def write(runs: pd.DataFrame, path: str) -> int:
    """Write the rows of ``tidy`` as CSV; their number.

    Raises NoRuns, and ConfigError for a file that cannot be written or that holds kept runs.
    """
    if archive.holds_runs(path):
        raise ConfigError(f"{path} holds a line for each of its runs, often the only copy; name another file")
    count = 0

    def lines() -> Iterator[bytes]:
        nonlocal count
        count = -1  # the header is no row
        for values in tidy(runs):
            count += 1
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerow(map(guarded, values))
            yield text.getvalue().encode()

    with writable(path):
        stream_atomically(Path(path), lines)
    return count


def tidy(runs: pd.DataFrame) -> Iterator[list[str]]:
    """A header, then a row per run of ``records.load`` and evaluated round: the run, its settings, its metrics.

    A setting that is called like a metric gets ``_config`` at its end (``lr_config``: the initial rate). Runs of every
    state are included with the rounds they have; a warning names those without readable metrics. Holds one run at a
    time. Raises NoRuns when there is no round at all.
    """
    headers = {folder: header for folder in runs["folder"] if (header := _header(folder))}
    metrics = list(dict.fromkeys(name for header in headers.values() for name in header))
    if not metrics:
        raise records.NoRuns("none of these runs has an evaluated round yet")
    names = [*_KEPT_FACTS, *records.settings(runs)]
    yield [*(f"{name}_config" if name in metrics else name for name in names), *metrics]
    written = runs[names].map(records.written)
    for folder, *setting in zip(runs["folder"], *(written[name] for name in names), strict=True):
        try:
            header, rows = records.rounds(folder)
        except records.Damaged as error:
            warnings.warn(f"left out {setting[0]}: {error}", stacklevel=2)
            continue
        places = [header.index(name) if name in header else None for name in metrics]
        for row in rows:
            yield [*setting, *("" if place is None else row[place] for place in places)]


def _header(folder: str) -> list[str]:
    try:
        return records.columns(folder)
    except records.Damaged:
        return []
