"""How good single models are on the server's data: what rules that test the clients' updates one by one need."""

import math

import torch
from torch import Tensor

from robustfl_bench.interfaces import ServerView
from robustfl_bench.updates import Updates

MODEL_BLOCK = 1 << 24  # numbers in a block of models, 64 MiB


def stepped_losses(updates: Updates, server: ServerView, mixing: Tensor | None = None) -> Tensor:
    """Server losses (k,) float64 of the models ``params - step_size * (mixing @ updates)``, one per row of ``mixing``.

    Without ``mixing`` (k, n), of a step along each client's update. Works on blocks of models, so memory is bounded.
    A loss that is not a number counts as infinite: such a model is of no use.
    """
    rows, matrix = max(1, MODEL_BLOCK // updates.d), updates.matrix
    losses = []
    for start in range(0, updates.n if mixing is None else len(mixing), rows):
        part = slice(start, start + rows)
        if mixing is None:
            models = torch.sub(server.params, matrix[part], alpha=server.step_size)
        else:
            models = torch.addmm(server.params, mixing[part].to(matrix.dtype), matrix, alpha=-server.step_size)
        losses.append(server.loss(models))
    return torch.cat(losses).nan_to_num(nan=math.inf, posinf=math.inf)
