"""Losses of single models on the server's data, for rules that test the clients' updates one by one."""

import math
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from robustfl_bench.numerics.updates import Updates


class Server(Protocol):
    """What the scores need of a ``ServerView``: its model, its step size and its loss."""

    params: Tensor
    step_size: float

    @property
    def loss(self) -> Callable[[Tensor], Tensor]:
        """Maps models (k, d) to their losses (k,) on the server's data."""


MODEL_BLOCK = 1 << 24  # float32 entries in a block of models, 64 MiB
FEW = 16  # clients whose sums over the others are formed together


def stepped_losses(updates: Updates, server: Server) -> Tensor:
    """Server losses (n,) float64 of the models ``params - step_size * update``, one for each client's update.

    Works on blocks of models, so memory is bounded. A loss that is not a number counts as infinite, as its model is
    useless.
    """
    blocks = updates.matrix.split(max(1, MODEL_BLOCK // updates.d))
    return _finite([server.loss(torch.sub(server.params, rows, alpha=server.step_size)) for rows in blocks])


def losses_without(updates: Updates, server: Server) -> Tensor:
    """As ``stepped_losses``, for steps along the mean of all other clients' updates (zero for a single client).

    The other updates are added up, few clients at a time. Subtracting an update from the sum of all would leave its
    rounding errors.
    """
    blocks = updates.matrix.split(min(FEW, max(1, MODEL_BLOCK // updates.d)))
    scale = server.step_size / max(updates.n - 1, 1)
    elsewhere = _others(len(blocks), blocks[0]) @ torch.stack([rows.sum(dim=0) for rows in blocks])  # (blocks, d)
    starts = torch.sub(server.params, elsewhere, alpha=scale)
    models = (
        torch.addmm(start, _others(len(rows), rows), rows, alpha=-scale)
        for start, rows in zip(starts, blocks, strict=True)
    )
    return _finite([server.loss(block) for block in models])


def _others(n: int, like: Tensor) -> Tensor:
    """The matrix (n, n) whose product with n rows sums, for each row, all other rows."""
    return 1 - torch.eye(n, dtype=like.dtype, device=like.device)


def _finite(losses: list[Tensor]) -> Tensor:
    return torch.cat(losses).nan_to_num(nan=math.inf, posinf=math.inf)
