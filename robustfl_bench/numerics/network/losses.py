"""The mean losses of clients under cross-entropy, and their gradients at the outputs of a network."""

from collections.abc import Sequence

import torch
from torch import Tensor


def mean_losses(outputs: Tensor, y: Tensor, sizes: Sequence[int], read: bool = True) -> tuple[Tensor, Tensor]:
    """Each client's mean loss, (n,) float64, nothing (0,) unless it is ``read``, and the gradient of the sum of these
    means at the ``outputs`` (N, c).

    Client i has ``sizes[i]`` rows of ``outputs`` and classes ``y`` (N,), one client after the other.
    """
    delta = torch.log_softmax(outputs, dim=1)
    chosen = y[:, None]
    losses = torch.empty(0, dtype=torch.float64)
    if read:
        own = parts(delta.gather(1, chosen), sizes)
        losses = torch.stack([-part.sum(dtype=torch.float64) / len(part) for part in own])
    delta.exp_().scatter_add_(1, chosen, delta.new_full((len(y), 1), -1.0))
    for part in parts(delta, sizes):
        part.mul_(1 / len(part))
    return losses, delta


def parts(rows: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
    """The rows of each client, as views, of whom client i has ``sizes[i]``."""
    return rows.split_with_sizes(list(sizes)) if len(sizes) > 1 else (rows,)
