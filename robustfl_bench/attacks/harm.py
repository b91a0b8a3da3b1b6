"""How much harm an aggregate does, in the eyes of attackers who know the honest clients' data."""

import math

import torch
from torch import Tensor

from robustfl_bench.interfaces import AttackView

HARMS = ("error", "loss", "slope", "distance")


def harm(
    view: AttackView, kind: str, aggregate: Tensor, calm: Tensor | None = None, ahead: int = 1
) -> tuple[float, float]:
    """The harm of an aggregate (d,), and a second number that decides between equals.

    ``error``: the share of the honest clients' samples that the model gets wrong after the server's step, taken
    ``ahead`` times, and its loss on them; the loss alone for regression. ``loss``: that loss. ``slope``: its change to
    first order, minus the inner product of the aggregate with the honest mean update. ``distance``: how far the
    aggregate is from ``calm`` (d,), the one that attackers get who send the honest mean. A model whose loss is not
    finite is the greatest harm.
    """
    if kind == "distance":
        assert calm is not None
        return float(torch.linalg.vector_norm(aggregate.double() - calm.double())), 0.0
    if kind == "slope":
        return -float(aggregate.double() @ view.upload(view.mean).double()), 0.0
    loss, error = view.assess(view.params + ahead * (view.after(aggregate) - view.params))
    if not math.isfinite(loss):
        return math.inf, 0.0
    return (loss, 0.0) if kind == "loss" or error is None else (error, loss)
