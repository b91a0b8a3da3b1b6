"""Distances of the models to the true parameters, if the data have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from robustfl_bench.train.evaluation import Evaluation


def _truth(evaluation: Evaluation) -> Tensor | None:
    truth = evaluation.federation.clients.data.truth
    fits = truth is not None and truth.shape[1] == evaluation.state.params.shape[1]
    return truth.cpu() if truth is not None and fits else None


def _matched(evaluation: Evaluation) -> float | None:
    from robustfl_bench.numerics.metrics import matched_distance

    truth = _truth(evaluation)
    return None if truth is None else matched_distance(evaluation.state.params.cpu(), truth)


def _nearest(evaluation: Evaluation) -> float | None:
    from robustfl_bench.numerics.metrics import nearest_distance

    truth = _truth(evaluation)
    return None if truth is None else nearest_distance(evaluation.state.params.cpu(), truth)


METRICS = (
    Metric("distance", "Distance to the true parameters, best matching of clusters", _matched, better=-1),
    Metric("distance_nearest", "Distance of each estimate to the nearest true parameter", _nearest, better=-1),
)
