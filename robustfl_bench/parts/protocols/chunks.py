"""The chunks into which a ring cuts a vector, and the order in which it sums them."""

from itertools import pairwise

import torch
from torch import Tensor


def chunks(d: int, n: int) -> list[slice]:
    """n parts of d coordinates, in order, whose sizes differ by at most one coordinate."""
    return [slice(start, stop) for start, stop in pairwise(i * d // n for i in range(n + 1))]


def ring_sum(rows: Tensor) -> Tensor:
    """The sum (d,) of the rows (n, d) as a ring computes it: chunk k starts at client k and collects the chunks k of
    clients k + 1, k + 2, ... in turn (BRACE, section 2.2, phase I).

    Another order would round differently.
    """
    n, d = rows.shape
    total = torch.empty_like(rows[0])
    for k, chunk in enumerate(chunks(d, n)):
        part = rows[k, chunk].clone()
        for step in range(1, n):
            part += rows[(k + step) % n, chunk]
        total[chunk] = part
    return total
