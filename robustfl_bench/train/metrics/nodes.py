"""Where every node has a model of its own: how well the honest nodes' models do, and how far apart they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from robustfl_bench.train.evaluation import Evaluation


def _models(evaluation: Evaluation) -> Tensor | None:
    """The honest nodes' models (h, d), None if there is only one model."""
    return evaluation.state.protocol.get("nodes")


def _accuracies(evaluation: Evaluation) -> Mapping[str, float] | None:
    """None also for data without classes."""
    from robustfl_bench.train.evaluation import on_test_set

    models, cohorts = _models(evaluation), evaluation.round.cohorts
    if models is None:
        return None
    found = [on_test_set(evaluation.federation, model[None], cohorts).accuracy for model in models]
    known = [accuracy for accuracy in found if accuracy is not None]
    if not known:
        return None
    return {"mean": sum(known) / len(known), "worst": min(known), "best": max(known)}


def _consensus_distance(evaluation: Evaluation) -> float | None:
    models = _models(evaluation)
    if models is None:
        return None
    exact = models.double()
    return float((exact - exact.mean(dim=0)).square().sum(dim=1).mean())


METRICS = (
    Metric("node_accuracy_{}", "Test accuracy of the honest nodes, {}", _accuracies, "%", 1, 100, 1),
    Metric("consensus_distance", "Mean squared distance of the nodes from their mean", _consensus_distance, better=-1),
)
