"""Experiments in Byzantine-robust federated learning, from a composed config to a paper's table.

``run(aggregator=Krum(2), attack="ipm")`` makes a run, ``sweep`` many, ``results("results")`` returns the table of the
runs in a folder, and ``plot`` draws them. Rules, attacks, data sets and other parts are subclasses of ``Aggregator``,
``Attack``, ``Dataset`` and so on; each part of this package has its name here, ``robustfl_bench.Krum``, unless two
groups share it. Each name is imported on first access, because PyTorch and pandas take over a second.
"""

import ctypes
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from robustfl_bench.base.errors import BrokenContract, ConfigError, DataError
    from robustfl_bench.base.fields import SCALE, Flag, Number, Option, at_least, between, check_fields, one_of
    from robustfl_bench.commands.python import command, compose, judge, recommend, table
    from robustfl_bench.doors.api import plot
    from robustfl_bench.doors.api.result import Result
    from robustfl_bench.doors.api.run import results, run, sweep
    from robustfl_bench.numerics.updates import Aggregate, Updates
    from robustfl_bench.parts.aggregators.base import Aggregator, ServerView
    from robustfl_bench.parts.attacks.base import Attack, AttackView
    from robustfl_bench.parts.datasets.base import Data, Dataset
    from robustfl_bench.parts.models.base import Model
    from robustfl_bench.parts.partitions.base import Partition
    from robustfl_bench.parts.pre_aggregations.base import PreAggregation
    from robustfl_bench.parts.protocols.base import Engine, Protocol, Setup
    from robustfl_bench.parts.protocols.state import Round, State
    from robustfl_bench.parts.schedules.base import Schedule
    from robustfl_bench.parts.server_optimizers.base import ServerOptimizer
    from robustfl_bench.runner.experiment.execute import RunFailed
    from robustfl_bench.runner.store.folders import RunLocked

__all__ = [
    "SCALE", "Aggregate", "Aggregator", "Attack", "AttackView", "BrokenContract", "ConfigError", "Data", "DataError",
    "Dataset", "Engine", "Flag", "Model", "Number", "Option", "Partition", "PreAggregation", "Protocol", "Result",
    "Round", "RunFailed", "RunLocked", "Schedule", "ServerOptimizer", "ServerView", "Setup", "State", "Updates",
    "at_least", "between", "check_fields", "command", "compose", "judge", "one_of", "plot", "recommend", "results",
    "run", "sweep", "table",
]  # fmt: skip

_HOMES = {
    "Aggregate": "numerics.updates", "Updates": "numerics.updates",
    "BrokenContract": "base.errors", "RunFailed": "runner.experiment.execute", "RunLocked": "runner.store.folders",
    "Round": "parts.protocols.state", "State": "parts.protocols.state",
    **dict.fromkeys(("command", "compose", "judge", "recommend", "table"), "commands.python"),
    "Result": "doors.api.result", "results": "doors.api.run", "run": "doors.api.run", "sweep": "doors.api.run",
}  # fmt: skip
"""The modules of these names; all others are in ``interfaces``."""

# Idle OpenMP threads that spin take the cores from NumPy's BLAS and from other runs: a Gram matrix took five times as
# long. The libraries read this variable once, when they are loaded, so it has to be set here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next batch; saves up to a quarter of a convolutional network's
    time."""
    given = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if sys.platform == "linux" and not given and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(-3, 1 << 28)  # M_MMAP_THRESHOLD: blocks up to this size are taken from the heap
        libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD: the heap keeps this much free memory


_keep_freed_memory()

__version__ = "0.2.0"


class _PublicNames:
    """Finds modules by their public names, ``robustfl_bench.aggregators`` for ``robustfl_bench.parts.aggregators``."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        package, _, inside = name.partition(".")
        if package != __name__ or os.path.exists(os.path.join(__path__[0], inside.partition(".")[0])):
            return None  # another package, or a wing of this one
        from robustfl_bench.base.public import spec_of

        return spec_of(name)


sys.meta_path.insert(0, _PublicNames)


def __getattr__(name: str) -> Any:
    if name == "plot":
        value = import_module(f"{__name__}.doors.api.plot")
    elif name in __all__:
        value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'interfaces')}"), name)
    else:
        value = _part(name)
    globals()[name] = value
    return value


def _part(name: str) -> Any:
    """The part of this package with a name that one group has. Raises AttributeError."""
    from robustfl_bench.base import public

    homes = [] if name.startswith("_") else public.groups_with(name)
    if len(homes) > 1:
        raise AttributeError(f"{name} is the name of several parts: import it from {' or '.join(homes)}")
    if not homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(homes[0]), name)


def __dir__() -> list[str]:
    from robustfl_bench.base import public

    return sorted({*globals(), *__all__, *public.parts()})
