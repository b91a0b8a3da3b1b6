"""ByGARS: learns the clients' weights on the server's data (Regatti, Chen, Gupta, 2022,
https://arxiv.org/abs/2006.13421)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch

from robustfl_bench.base.fields import Flag, at_least, one_of
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class ByGars(Aggregator):
    """Sum of the updates, with weights of either sign that lower the loss on the server's data.

    The aggregate is ``sum_i q_i g_i``; the weights q have any sum and are learnt anew every round (BOBA's form).

    In each of ``inner_steps`` steps, the server's gradient is computed at the model that the current q leads to, and
    q_i grows by ``inner_lr`` times the inner product of g_i with this gradient.

    BOBA describes inner products with "(normalized)" gradients; ``normalize`` ``cosine`` is closest to its tables. With
    ``none`` huge random updates, harmless in BOBA's tables, dominate. With ``chain_rule`` the inner product is
    multiplied by the model's step size, as in the gradient of the server's loss with respect to q; ByGARS's own formula
    omits this factor.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "its weights do not sum to 1",
        "translation": "inner products depend on the origin",
        "scale": "the length of its step has a scale of its own",
        "robust": "its weights have any sum, so its length has no bound",
    }

    inner_steps: Annotated[int, at_least(1)] = 3
    """k: gradient steps on the weights per round"""
    inner_lr: Annotated[float, at_least(0)] = 0.05
    """alpha: learning rate of the weights"""
    start: Annotated[str, one_of(zero="BOBA", uniform="1 / n")] = "zero"
    """weights at the start of a round"""
    normalize: Annotated[
        str,
        one_of(cosine="updates and server gradient", updates="", products="updates, only in inner products", none=""),
    ] = "cosine"
    """what is scaled to length 1"""
    chain_rule: Flag = True
    """true: the weights' gradient includes the model's step size"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        ones = torch.ones(updates.n, dtype=torch.float64, device=updates.device)
        units = ones if self.normalize == "none" else (1 / updates.norms).where(updates.norms > 0, 0)
        scales = units if self.normalize in ("cosine", "updates") else ones
        rate = self.inner_lr * (server.step_size if self.chain_rule else 1)
        weights = ones * (0 if self.start == "zero" else 1 / updates.n)
        for _ in range(self.inner_steps):
            model = server.params - server.step_size * updates.combine(weights * scales).vector
            gradient = server.gradient(model)
            if self.normalize == "cosine":
                length = updates.place.norm(torch.linalg.vector_norm(gradient, dtype=torch.float64))
                gradient = gradient if length == 0 else gradient.double() / length
            weights = weights + rate * units * updates.cross(gradient[None])[:, 0]
        return updates.combine(weights * scales)
