"""Models without clients, and models that did not change because their clients were too few for the rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from robustfl_bench.train.evaluation import Evaluation


def _empty(evaluation: Evaluation) -> int | None:
    cohorts = evaluation.round.cohorts
    return sum(not len(cohort) for cohort in cohorts) if len(cohorts) > 1 else None


def _untrained(evaluation: Evaluation) -> int | None:
    models = evaluation.round.models
    return sum(model.aggregate is None for model in models) if len(models) > 1 else None


METRICS = (
    Metric("empty_clusters", "Clusters without clients", _empty, "clusters", -1, digits=1),
    Metric("untrained_clusters", "Clusters whose model did not change", _untrained, "clusters", -1, digits=1),
)
