"""A run, and the table of stored runs, as functions."""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.doors.api import configs, data, objects
from robustfl_bench.doors.api.result import Result
from robustfl_bench.read.runs import records
from robustfl_bench.runner.config import request
from robustfl_bench.runner.config.request import Call
from robustfl_bench.runner.experiment import answers
from robustfl_bench.runner.experiment.execute import complete
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.runner.store import folders

if TYPE_CHECKING:
    import pandas as pd


def run(
    *overrides: str | Mapping[str, Any],
    results_dir: str | Path | None = None,
    config_dir: str | Path | None = None,
    **settings: Any,
) -> Result:
    """The result of the run ``robustfl-bench OVERRIDES``; a stored result is reused.

        >>> import robustfl_bench as rb
        >>> result = rb.run(aggregator=rb.Krum(num_byzantine=4), attack="ipm", rounds=5)
        >>> list(result.metrics["round"])
        [1, 2, 3, 4, 5]
        >>> same = rb.run("aggregator=krum", "attack=ipm", "rounds=5")  # the same run, as words of the command line
        >>> same.path == result.path
        True

    ``settings`` are the same by keyword, and count after ``overrides``. A config group takes the name of an option, a
    part such as ``Krum(2)``, its class, or a function; ``model`` also a network of PyTorch, ``dataset`` arrays
    ``(X, y)``, a table of pandas, or a data set of PyTorch or Hugging Face. Objects make the same run as the words that
    describe them, which ``summary["command"]`` holds. ``config_dir`` is a folder with your own options, as for
    ``--config-dir``.

    A config that Hydra has composed of the options of this package is the first of ``overrides``, or as
    ``**settings``; others change it. Give it before it is resolved: OmegaConf knows no rounds, in which f can differ.

    Prints nothing but a bar where the output is a terminal or a notebook; notes on unusual settings are issued as
    warnings. Raises ConfigError for an invalid configuration, DataError for missing or damaged data, RunLocked while
    another process makes the run, and RunFailed for an error during the run.
    """
    composed, words, others = configs.taken(overrides, data.stored(settings, results_dir))
    given = [*words, *objects.overrides(others)]
    if composed is None:
        return of_words(given, results_dir, config_dir, stacklevel=3)
    given += _folder(results_dir)
    return _made(*configs.of_composed(composed, given, config_dir), stacklevel=3)


def of_words(
    overrides: Sequence[str], results_dir: str | Path | None, config_dir: str | Path | None, stacklevel: int = 2
) -> Result:
    """The result of a run given by words; raises as ``run`` does."""
    config, call = request.composed([*overrides, *_folder(results_dir)], config_dir)
    return _made(config, call, stacklevel + 1)


def _folder(results_dir: str | Path | None) -> list[str]:
    return [] if results_dir is None else objects.overrides({"results_dir": results_dir})


def _made(config: Mapping[str, Any], call: Call, stacklevel: int) -> Result:
    notes: list[str] = []
    wanted = plan(config, call)
    answer = answers.stored(wanted, notes.append)
    if answer is not None:
        answers.unfollowed(config, notes.append)
    answer = answer or complete(wanted, note=notes.append)
    for line in notes:
        warnings.warn(line, stacklevel=stacklevel)
    return of_folder(Path(answer.place))


def of_folder(path: Path) -> Result:
    """The result in a run folder."""
    import pandas as pd

    metrics = records.metrics(path) if (path / "metrics.csv").exists() else pd.DataFrame({"round": []})
    return Result(metrics, folders.summary_in(path) or {}, path)


def results(folder: str | Path = "results", where: str | Sequence[str] = ()) -> "pd.DataFrame":
    """The runs in a results folder, one row each: its result and every setting.

        >>> import robustfl_bench as rb
        >>> runs = rb.sweep(aggregator=["krum", "average"], attack=["none", "ipm"], rounds=2)
        >>> rb.results("results", where=["attack=ipm", "aggregator=krum"])["rounds"].tolist()
        [2]

    ``where`` keeps the runs that meet ``KEY=VALUE``, or all of several such conditions. Raises ConfigError for a key
    that no run has, DataError where there are no runs.
    """
    from robustfl_bench.read.runs.where import where as meeting

    if not isinstance(folder, str | os.PathLike):
        raise ConfigError(f"results takes the path of a results folder, got {folder!r:.60}")
    table = records.load(Path(folder).expanduser())
    return meeting(table, [where] if isinstance(where, str) else where).reset_index(drop=True)
