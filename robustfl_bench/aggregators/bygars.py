"""ByGARS: learn the clients' weights on the server's data (Regatti, Chen, Gupta, 2022, https://arxiv.org/abs/2006.13421)."""

import math
from dataclasses import dataclass

import torch

from robustfl_bench.interfaces import ConfigError, ServerView, check_choice, check_fields
from robustfl_bench.updates import Aggregate, Updates


@dataclass(frozen=True)
class ByGars:
    """``sum_i q_i g_i`` with weights q, of either sign and any sum, learnt anew every round (BOBA's form).

    Each of ``inner_steps`` times, the model takes the step that q means, and q_i grows by ``inner_lr`` times the inner
    product of g_i with the server's gradient there. q starts at ``zero`` (BOBA) or ``uniform`` (1 / n). With
    ``normalize`` every g_i is scaled to length 1 first: BOBA speaks of inner products of normalised gradients, and its
    finding that huge random updates do no harm needs it.
    """

    inner_steps: int = 3
    inner_lr: float = 0.05
    start: str = "zero"
    normalize: bool = True

    def __post_init__(self) -> None:
        check_fields(self, inner_steps=(1, math.inf), inner_lr=(0, math.inf))
        check_choice("start", self.start, ("zero", "uniform"))
        if not isinstance(self.normalize, bool):
            raise ConfigError(f"normalize must be true or false, got {self.normalize!r}")

    def __call__(self, updates: Updates, server: ServerView) -> Aggregate:
        scales = torch.ones(updates.n, dtype=torch.float64, device=updates.device)
        if self.normalize:
            scales = (1 / updates.norms).where(updates.norms > 0, 0)
        weights = torch.full_like(scales, 0.0 if self.start == "zero" else 1 / updates.n)
        for _ in range(self.inner_steps):
            model = server.params - server.step_size * updates.combine(weights * scales).vector
            products = updates.cross(server.gradient(model)[None])[:, 0]
            weights = weights + self.inner_lr * scales * products
        return updates.combine(weights * scales)
