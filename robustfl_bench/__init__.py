"""Experiments in Byzantine-robust federated learning, from a composed config to a paper's table.

``run("aggregator=krum", "attack=ipm")`` makes a run, ``results("results")`` is the table of those in a folder. A rule,
an attack, a data set ... is a subclass of ``Aggregator``, ``Attack``, ``Dataset`` ... Each name is imported on first
access, as PyTorch and pandas take over a second.
"""

import ctypes
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robustfl_bench.api import Result, run
    from robustfl_bench.errors import ConfigError, DataError, check_fields
    from robustfl_bench.interfaces import (
        Aggregator,
        Attack,
        AttackView,
        Data,
        Dataset,
        Model,
        Partition,
        PreAggregation,
        Schedule,
        ServerOptimizer,
        ServerView,
    )
    from robustfl_bench.results import runs as results
    from robustfl_bench.updates import Aggregate, Updates

__all__ = [
    "Aggregate", "Aggregator", "Attack", "AttackView", "ConfigError", "Data", "DataError", "Dataset", "Model",
    "Partition", "PreAggregation", "Result", "Schedule", "ServerOptimizer", "ServerView", "Updates", "check_fields",
    "results", "run",
]  # fmt: skip

_HOMES = {"Aggregate": "updates", "Result": "api", "Updates": "updates", "run": "api"}
"""The modules of those names; that of the others is ``interfaces``."""

# Idle OpenMP threads that spin steal the cores from the BLAS of NumPy and from neighbouring runs: one Gram matrix
# took five times as long. The libraries read this once, when they are loaded, so it has to be here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _keep_freed_memory() -> None:
    """Let the C library keep what a batch frees for the next one: up to a quarter of a convolutional network's time."""
    given = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if sys.platform == "linux" and not given and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(-3, 1 << 28)  # M_MMAP_THRESHOLD: blocks up to this size come from the heap
        libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD: which keeps this much for later


_keep_freed_memory()

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "results":
        return import_module(f"{__name__}.results")  # which can be called
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'interfaces')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
