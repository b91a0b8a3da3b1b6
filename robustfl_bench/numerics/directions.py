"""Directions of vectors, from their inner products."""

import numpy as np

from robustfl_bench.numerics.gram_space import Array


def cosines(gram: Array) -> Array:
    """Cosines (n, n) of the angles between vectors with these inner products; 0 for a zero vector."""
    lengths = np.sqrt(gram.diagonal().clip(min=0))
    lengths[lengths == 0] = np.inf
    found: Array = (gram / lengths / lengths[:, None]).clip(-1, 1)
    return found
