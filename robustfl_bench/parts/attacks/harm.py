"""The harm that aggregates do, as measured by attackers who know the honest clients' data."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from robustfl_bench.parts.attacks.base import AttackView, Harm

HARMS = {
    "error": "share of honest samples",
    "loss": "of honest clients",
    "slope": "that loss, to first order",
    "distance": "of the aggregate",
}


def harms(
    view: AttackView, kind: str, aggregates: Sequence[Tensor], calm: Tensor | None = None, ahead: int = 1
) -> list[Harm]:
    """The harm of each of the aggregates (d,), at least one; their models are assessed together.

    ``error`` is the share of the honest clients' samples that the model gets wrong after the server's step, taken
    ``ahead`` times, with the loss on them to break ties; for regression, the loss alone. ``loss`` is that loss.
    ``slope`` is its change to first order: minus the inner product of the aggregate with the honest mean update.
    ``distance`` is the Euclidean distance of the aggregate from ``calm`` (d,), the aggregate when the attackers send
    the honest mean. A model whose loss is not finite is the greatest harm.
    """
    if kind == "distance":
        assert calm is not None
        return [(float(torch.linalg.vector_norm(vector.double() - calm.double())), 0.0) for vector in aggregates]
    if kind == "slope":
        wanted = view.upload(view.mean).double()
        return [(-float(vector.double() @ wanted), 0.0) for vector in aggregates]
    models = torch.stack([view.params + ahead * (view.after(vector) - view.params) for vector in aggregates])
    losses, errors = view.assess(models)
    pairs = [(loss, 0.0) for loss in losses.tolist()]
    if kind == "error" and errors is not None:
        pairs = list(zip(errors.tolist(), losses.tolist(), strict=True))
    return [pair if fine else (math.inf, 0.0) for pair, fine in zip(pairs, losses.isfinite().tolist(), strict=True)]
