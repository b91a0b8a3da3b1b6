"""All runs x evaluated rounds as one tidy table, for other people's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustfl_bench.results import records

if TYPE_CHECKING:
    import pandas as pd

_KEPT_FACTS = ("run", "run_id", "state", "scale", "experiment")


def tidy(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per run of ``records.load`` and evaluated round: the run, its settings, the columns of ``metrics.csv``.

    A setting that is called like a metric gets ``_config`` at its end (``lr_config``: the initial rate). Runs of every
    state are there, as far as they came; one without readable metrics is named by a warning.
    """
    import pandas as pd

    tables = [table.assign(folder=folder) for folder, table in records.all_metrics(runs).items()]
    if not tables:
        raise records.NoRuns("none of these runs has an evaluated round yet")
    settings = runs[["folder", *_KEPT_FACTS, *records.settings(runs)]]
    joined = settings.merge(pd.concat(tables, ignore_index=True), on="folder", suffixes=("_config", ""))
    return joined.drop(columns="folder")
