"""How a ring cuts a vector into chunks and in which order it sums them."""

from itertools import pairwise

import torch
from torch import Tensor


def chunks(d: int, n: int) -> list[slice]:
    """n roughly equal parts of d coordinates, in their order; they differ by one coordinate at most."""
    return [slice(start, stop) for start, stop in pairwise(i * d // n for i in range(n + 1))]


def ring_sum(rows: Tensor) -> Tensor:
    """The sum (d,) of the rows (n, d) as a ring computes it: chunk k starts at client k and collects those of
    clients k + 1, k + 2, ... in turn (BRACE, section 2.2, phase I).

    Another order would give other roundings.
    """
    n, d = rows.shape
    total = torch.empty_like(rows[0])
    for k, chunk in enumerate(chunks(d, n)):
        part = rows[k, chunk].clone()
        for step in range(1, n):
            part += rows[(k + step) % n, chunk]
        total[chunk] = part
    return total
