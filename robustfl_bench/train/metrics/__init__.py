"""The metrics of a round, as a map of functions: a file of this folder adds its METRICS, and no other file is edited.

The modules import PyTorch only inside their functions, because commands that read results need their headings.
"""

import pkgutil
from importlib import import_module

from robustfl_bench.train.metric import Metric

_FIRST = (
    "training", "test", "validation", "recall", "cluster_accuracy", "attack_success", "cluster_recovery", "distance",
    "availability", "weights", "attack_notes", "non_finite", "traffic", "cluster_training",
)  # fmt: skip
"""The modules whose columns come first, in this order; those of other modules follow in alphabetical order."""


def _modules() -> list[str]:
    names = {module.name for module in pkgutil.iter_modules(__path__)}
    return [*_FIRST, *sorted(names - set(_FIRST))]


METRICS: tuple[Metric, ...] = tuple(
    metric for name in _modules() for metric in import_module(f"{__name__}.{name}").METRICS
)
"""All metrics, in the order of their columns."""
