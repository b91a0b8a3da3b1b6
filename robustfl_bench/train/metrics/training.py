"""The clients' training loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from robustfl_bench.train.evaluation import Evaluation


def _loss(evaluation: Evaluation) -> float | None:
    """The mean over the honest clients of the round, at the models that they received."""
    import torch

    losses = [model.losses for model in evaluation.round.models if model.losses is not None]
    return float(torch.cat(losses).mean()) if losses else None


METRICS = (Metric("train_loss", "Training loss", _loss, better=-1),)
