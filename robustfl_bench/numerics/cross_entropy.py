"""The cross-entropy of many clients, and its gradient at the outputs of a network."""

from collections.abc import Sequence

import torch
from torch import Tensor


def mean_losses(outputs: Tensor, y: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Each client's mean loss, (n,) float64, and the gradient of the sum of these means at the ``outputs`` (N, c).

    Client i has ``sizes[i]`` rows of ``outputs`` and classes ``y`` (N,), one client after the other.
    """
    delta = torch.log_softmax(outputs, dim=1)
    chosen = y[:, None]
    losses = [-part.sum(dtype=torch.float64) / len(part) for part in delta.gather(1, chosen).split(sizes)]
    delta.exp_().scatter_add_(1, chosen, delta.new_full((len(y), 1), -1.0))
    for part in delta.split(sizes):
        part.mul_(1 / len(part))
    return torch.stack(losses), delta
