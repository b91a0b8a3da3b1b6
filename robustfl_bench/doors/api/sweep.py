"""A sweep as a function."""

import itertools
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.doors.api import data, objects
from robustfl_bench.read.runs import records
from robustfl_bench.runner.config import compose, options
from robustfl_bench.runner.store.folders import FAILED
from robustfl_bench.runner.sweeps.cells import Sweep
from robustfl_bench.runner.sweeps.workers import take_quietly

if TYPE_CHECKING:
    import pandas as pd


def sweep(
    *overrides: str,
    results_dir: str | Path | None = None,
    config_dir: str | Path | None = None,
    n_jobs: int = 1,
    **settings: Any,
) -> "pd.DataFrame":
    """The runs of ``robustfl-bench -m OVERRIDES``, one row each: its result and every setting; stored runs are reused.

        >>> import robustfl_bench as rb
        >>> runs = rb.sweep(aggregator=[rb.CooMed(), "krum"], attack=["none", "ipm"], rounds=2)
        >>> runs[["aggregator", "attack", "state"]]
          aggregator attack     state
        0     coomed   none  finished
        1     coomed    ipm  finished
        2       krum   none  finished
        3       krum    ipm  finished

    ``settings`` are those of ``run``; a list, tuple, range or array is swept over its items. A setting whose value is
    itself a list takes a list of lists. The runs share the folder with every other process that sweeps it, and a run
    that was interrupted resumes. ``n_jobs`` processes make the runs, -1: one for each core; with more than one, rules
    must be in a module, and a script needs ``if __name__ == "__main__":``.

    A rule that cannot work with so many clients has a row with the state ``infeasible``. Failed runs are in the table,
    too, and issue a warning. Raises ConfigError, before the first run, for what is wrong with any of them.
    """
    if strange := [word for word in overrides if not isinstance(word, str)]:
        raise ConfigError(f"a sweep takes words such as seed=0,1, and settings, got a {type(strange[0]).__name__}")
    listed = cells(overrides, data.stored(settings, results_dir), results_dir, config_dir)
    if n_jobs != 1 and any(":" in word and "__main__:" in word for cell in listed for word in cell):
        raise ConfigError(
            "a class of the notebook itself is unknown to other processes: put it in a module, or n_jobs=1"
        )
    return table(made(listed, config_dir, n_jobs))


def cells(
    overrides: Sequence[str], settings: dict[str, Any], results_dir: str | Path | None, config_dir: str | Path | None
) -> list[tuple[str, ...]]:
    """The words of each run of a sweep; its results are run folders, never those that come with the package."""
    axes = [[objects.overrides({name: item}) for item in _items(name, value)] for name, value in settings.items()]
    folder = ["use_kept=false", *([] if results_dir is None else objects.overrides({"results_dir": results_dir}))]
    given = compose.sweep(overrides, options.search(config_dir))
    return [(*own, *itertools.chain(*chosen), *folder) for own in given for chosen in itertools.product(*axes)]


def made(listed: Sequence[tuple[str, ...]], config_dir: str | Path | None, n_jobs: int = 1) -> Sweep:
    """Make the runs of a sweep that are not stored. Raises ConfigError for a run that cannot be composed."""
    shared = compose.shared([word for word in listed[0] if word.startswith("results_dir=")], options.search(config_dir))
    asked = Sweep(
        cells=tuple(listed),
        config_dir=None if config_dir is None else str(config_dir),
        results_dir=shared["results_dir"],
    )
    for cell in asked.listed:
        _ = cell.asked  # composes it
    outcome = take_quietly(asked, n_jobs)
    for reason, number in Counter(end.reason for end in outcome.ends if end.status == FAILED).items():
        warnings.warn(f"{number} of {len(listed)} runs failed: {reason}", stacklevel=4)
    return asked


def table(asked: Sweep) -> "pd.DataFrame":
    """The runs of a sweep that was made, one row each, in their order."""
    return records.of_folders([cell.folder().path for cell in asked.listed])


def _items(name: str, value: Any) -> Sequence[Any]:
    """The values of a setting: those of a list, tuple, range or array of numbers, else one."""
    if isinstance(value, list | tuple | range):
        if not len(value):
            raise ConfigError(f"{name} has no values to sweep")
        return value
    return list(value) if getattr(value, "ndim", 0) == 1 else [value]
