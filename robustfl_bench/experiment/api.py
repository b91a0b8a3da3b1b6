"""A run as a Python function."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench.config import request, words
from robustfl_bench.experiment import answers
from robustfl_bench.experiment.execute import complete, folder_of
from robustfl_bench.experiment.plan import plan
from robustfl_bench.runs import records
from robustfl_bench.store import folders

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result:
    """The result of a run: ``metrics``, with a row for each evaluated round; ``summary``, as in summary.json; its
    folder.

    ``summary["status"]`` is ``finished`` or ``diverged``. A model that diverged in its first round has no metrics.
    """

    metrics: "pd.DataFrame"
    summary: Mapping[str, Any]
    path: Path


def run(*overrides: str, results_dir: str | Path | None = None, config_dir: str | Path | None = None) -> Result:
    """The result of the run ``robustfl-bench OVERRIDES``; a stored result is reused.

    >>> run("aggregator=krum", "attack=ipm", "rounds=5").metrics["test_accuracy"]

    ``config_dir`` is a folder with your own options, as for ``--config-dir``. Nothing is printed; notes on unusual
    settings are issued as warnings. Raises ConfigError for an invalid configuration, DataError for missing or damaged
    data, RunLocked while another process makes the run, and RunFailed for an error during the run.
    """
    folder = [] if results_dir is None else [f"results_dir={words.written(str(results_dir))}"]
    config, call = request.composed([*overrides, *folder], config_dir)
    notes: list[str] = []
    planned = plan(config)
    answer = answers.stored(planned, folder_of(planned, call), notes.append)
    answer = answer or complete(planned, call, note=notes.append)
    for line in notes:
        warnings.warn(line, stacklevel=2)
    path = Path(answer.place)
    return Result(_metrics(path), folders.summary_in(path) or {}, path)


def _metrics(path: Path) -> "pd.DataFrame":
    import pandas as pd

    return records.metrics(path) if (path / "metrics.csv").exists() else pd.DataFrame({"round": []})


def results(folder: str | Path = "results", where: str | Sequence[str] = ()) -> "pd.DataFrame":
    """The runs in a results folder, one row each: its result and every setting.

    >>> results("results", where=["attack=ipm", "aggregator=krum,boba"])[["aggregator", "final_accuracy"]]

    ``where`` keeps the runs that meet ``KEY=VALUE``, or all of several such conditions. Raises ConfigError for a key
    that no run has, DataError where there are no runs.
    """
    from robustfl_bench.runs.where import where as meeting

    table = records.load(Path(folder).expanduser())
    return meeting(table, [where] if isinstance(where, str) else where).reset_index(drop=True)
