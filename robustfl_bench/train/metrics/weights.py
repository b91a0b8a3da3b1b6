"""The rule's treatment of the clients: weights, and clients accepted or dropped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from torch import Tensor

    from robustfl_bench.numerics.updates import Aggregate
    from robustfl_bench.train.evaluation import Evaluation

COUNTS = 0.01  # a client is accepted if its weight is more than this share of the largest weight

_Of = Callable[["Sequence[tuple[Tensor, int]]"], float]
"""Computes a metric from the weights, or the accepted clients, of each model, with its number of honest clients."""


def _of_weights(metric: _Of) -> Callable[[Evaluation], float | None]:
    return lambda evaluation: _of(evaluation, lambda aggregate: aggregate.weights, metric)


def _of_accepted(metric: _Of) -> Callable[[Evaluation], float | None]:
    return lambda evaluation: _of(evaluation, accepted, metric)


def _of(evaluation: Evaluation, read: Callable[[Aggregate], Tensor | None], metric: _Of) -> float | None:
    """The metric of the models with an aggregate of which ``read`` gives a tensor.

    A round may have no aggregate if clients can drop out; it then has nan, because every row has the same columns.
    """
    models = [(read(model.aggregate), model.num_honest) for model in evaluation.round.models
              if model.aggregate is not None]  # fmt: skip
    known = [(tensor, honest) for tensor, honest in models if tensor is not None]
    if known:
        return metric(known)
    return math.nan if evaluation.clients_drop_out else None


def accepted(aggregate: Aggregate) -> Tensor | None:
    """The clients that the rule accepted, (n,) bool; None if unknown."""
    if aggregate.accepted is None and aggregate.weights is not None:
        sizes = aggregate.weights.abs()
        return sizes > COUNTS * sizes.max()
    return aggregate.accepted


def effective_clients(weights: Tensor) -> float:
    """``1 / sum of squared weights``, for weights (n,) scaled so that their sizes sum to 1.

    It is n where all are equal, 1 where one client has all the weight, and 0 where nobody has any.
    """
    sizes = weights.abs()
    return float(sizes.sum() ** 2 / sizes.square().sum()) if sizes.any() else 0.0


def _byzantine_weight(models: Sequence[tuple[Tensor, int]]) -> float:
    return sum(float(weights[honest:].sum()) for weights, honest in models) / len(models)


def _effective_clients(models: Sequence[tuple[Tensor, int]]) -> float:
    return sum(effective_clients(weights) for weights, _ in models) / len(models)


def _byzantine_accepted(models: Sequence[tuple[Tensor, int]]) -> int:
    return sum(int(mask[honest:].sum()) for mask, honest in models)


def _honest_dropped(models: Sequence[tuple[Tensor, int]]) -> int:
    return sum(int((~mask[:honest]).sum()) for mask, honest in models)


METRICS = (
    Metric("byzantine_weight", "Weight given to Byzantine clients", _of_weights(_byzantine_weight), "fraction", -1),
    Metric("effective_clients", "Effective number of clients", _of_weights(_effective_clients), "clients", 1, digits=1),
    Metric(
        "byzantine_accepted", "Byzantine clients accepted", _of_accepted(_byzantine_accepted), "clients", -1, digits=1
    ),
    Metric("honest_dropped", "Honest clients dropped", _of_accepted(_honest_dropped), "clients", -1, digits=1),
)
