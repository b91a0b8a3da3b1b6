"""Loss and accuracy on the samples held out for validation, which are neither corrupted nor poisoned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from robustfl_bench.train.evaluation import Evaluation


def _loss(evaluation: Evaluation) -> float | None:
    return None if evaluation.validation is None else evaluation.validation.loss


def _accuracy(evaluation: Evaluation) -> float | None:
    return None if evaluation.validation is None else evaluation.validation.accuracy


METRICS = (
    Metric("validation_loss", "Validation loss", _loss, better=-1),
    Metric("validation_accuracy", "Validation accuracy", _accuracy, "%", 1, 100, 1),
)
