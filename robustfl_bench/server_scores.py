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
        steps = matrix[part] if mixing is None else mixing[part].to(matrix.dtype) @ matrix
        losses.append(server.loss(server.params - server.step_size * steps))
    return torch.cat(losses).nan_to_num(nan=math.inf, posinf=math.inf)
