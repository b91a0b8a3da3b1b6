"""The share of honest clients that train the model of their true cluster."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from robustfl_bench.train.evaluation import Evaluation


def _share(evaluation: Evaluation) -> float | None:
    from robustfl_bench.numerics.metrics import cluster_recovery
    from robustfl_bench.train.evaluation import users

    counts = users(evaluation.federation, evaluation.round.cohorts)
    if min(counts.shape) < 2:
        return None
    return cluster_recovery(counts) if counts.any() else math.nan


METRICS = (Metric("cluster_recovery", "Honest clients in the right cluster", _share, "%", 1, 100, 1),)
