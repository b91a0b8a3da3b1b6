"""Products of a vector with an estimate of the Hessian, from past steps and changes of the gradient."""

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.numerics.updates import Updates


def hessian_product(vectors: Updates) -> Tensor:
    """The product (d,) of L-BFGS's estimate of the Hessian with the last of the ``vectors`` (2k + 1, d).

    The first k are the steps of a model, oldest first, the next k the changes of its gradient along these steps. The
    estimate is what k BFGS updates make of ``sigma I``, where sigma is the curvature along the last step (Byrd,
    Nocedal, Schnabel, Mathematical Programming 1994, Theorem 2.3). It needs only inner products of the vectors. The
    product is zero if the last step is, or if the estimate is not finite.
    """
    gram, k = vectors.gram.cpu().numpy(), vectors.n // 2
    steps, changes, vector = slice(0, k), slice(k, 2 * k), 2 * k
    nothing = torch.zeros_like(vectors.columns[0])
    with np.errstate(all="ignore"):
        sigma = gram[2 * k - 1, k - 1] / gram[k - 1, k - 1]
    if not np.isfinite(sigma):
        return nothing
    crossed = gram[steps, changes]
    below = np.tril(crossed, -1)
    middle = np.block([[sigma * gram[steps, steps], below], [below.T, -np.diag(crossed.diagonal())]])
    sides = np.concatenate([sigma * gram[steps, vector], gram[changes, vector]])
    solved = np.linalg.lstsq(middle, sides)[0]
    factors = np.concatenate([-sigma * solved[steps], -solved[changes], [sigma]])
    most = torch.finfo(nothing.dtype).max
    return (
        vectors.combine(torch.from_numpy(factors)).vector.clamp(-most, most) if np.isfinite(factors).all() else nothing
    )
