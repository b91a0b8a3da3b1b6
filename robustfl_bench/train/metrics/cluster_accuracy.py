"""Accuracy on the test set of each true cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robustfl_bench.train.evaluation import Evaluation


def _accuracies(evaluation: Evaluation) -> Mapping[str, float] | None:
    confusions = evaluation.test.confusions
    if len(confusions) < 2:
        return None
    return {str(i): float(confusion.trace() / confusion.sum()) for i, confusion in enumerate(confusions)}


METRICS = (Metric("accuracy_cluster_{}", "Test accuracy in cluster {}", _accuracies, "%", 1, 100, 1),)
