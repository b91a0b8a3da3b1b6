"""Run folders on disk, and the tables and plots made from them. Knows records and files, and no training.

The package is also the function ``runs``: ``robustfl_bench.results("results")``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def runs(folder: str | Path = "results", where: str | Sequence[str] = ()) -> pd.DataFrame:
    """The runs in a results folder, one row each: its result and every setting.

    >>> runs("results", where=["attack=ipm", "aggregator=krum,boba"])[["aggregator", "final_accuracy"]]

    ``where`` keeps the runs that meet ``KEY=VALUE``, or all of several such conditions. Raises ConfigError for a key
    that no run has, DataError where there are no runs.
    """
    from robustfl_bench.results import records
    from robustfl_bench.results.where import where as meeting

    found = records.load(Path(folder).expanduser())
    return meeting(found, [where] if isinstance(where, str) else where).reset_index(drop=True)


class _Callable(ModuleType):
    """The type of this module. The function and the package have one name, and importing either must not hide it."""

    __call__ = staticmethod(runs)


sys.modules[__name__].__class__ = _Callable
