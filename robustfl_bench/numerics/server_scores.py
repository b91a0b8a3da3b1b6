"""How good single models are on the server's data: what rules that test the clients' updates one by one need."""

import math

import torch
from torch import Tensor

from robustfl_bench.interfaces import ServerView
from robustfl_bench.updates import Updates

MODEL_BLOCK = 1 << 24  # numbers in a block of models, 64 MiB
FEW = 16  # clients whose sums are formed together


def stepped_losses(updates: Updates, server: ServerView) -> Tensor:
    """Server losses (n,) float64 of the models ``params - step_size * update``, one for each client's update.

    Works on blocks of models, so memory is bounded. A loss that is not a number counts as infinite: such a model is of
    no use.
    """
    blocks = updates.matrix.split(max(1, MODEL_BLOCK // updates.d))
    return _finite([server.loss(torch.sub(server.params, rows, alpha=server.step_size)) for rows in blocks])


def losses_without(updates: Updates, server: ServerView) -> Tensor:
    """As ``stepped_losses``, of the step along the mean of all other clients' updates (zero for a single client).

    The others are added up, few clients at a time: to take one out of the sum of all leaves its rounding errors.
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
    """The matrix (n, n) that adds up all rows but one."""
    return 1 - torch.eye(n, dtype=like.dtype, device=like.device)


def _finite(losses: list[Tensor]) -> Tensor:
    return torch.cat(losses).nan_to_num(nan=math.inf, posinf=math.inf)
