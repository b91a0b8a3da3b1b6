"""Recall per class on the test set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robustfl_bench.train.evaluation import Evaluation


def _recall(evaluation: Evaluation) -> Mapping[str, float]:
    return {str(i): recall for i, recall in enumerate(evaluation.test.recall)}


METRICS = (Metric("recall_{}", "Recall of class {}", _recall, "%", 1, 100, 1),)
