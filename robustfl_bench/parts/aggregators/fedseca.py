"""FedSECA: sign election and coordinate-wise aggregation (Benjamin, Asokan, Yaqub, Nandakumar, CVPR Workshops 2025).

https://arxiv.org/abs/2411.03861, equations 2 to 7.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from robustfl_bench.base.fields import between
from robustfl_bench.numerics.clipping import clip_factors, median_norm
from robustfl_bench.numerics.inner_products import gram_matrix
from robustfl_bench.numerics.medians import median
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class FedSeca(Aggregator):
    """A vote elects the sign of every coordinate; clipped and sparsified entries of that sign are averaged.

    The elected sign is ``s = sign(sum of w_i sign(x_i))`` with ``w_i = max(0, mean of c_ij over j)``, j = i included.
    The agreement ``c_ij = sign(<sign(x_i), sign(x_j)>)`` is +1 if more than half of two clients' nonzero signs are
    equal, -1 if fewer are, and 0 in a tie. The size a_i of an entry is its size after the update is clipped to the
    median of all norms. Of each client only the entries above the ``sparsity`` quantile of its own sizes, before
    clipping, remain. The aggregate of a coordinate is ``s * mean of min(a_i, median of a_1, ..., a_n)`` over the
    remaining entries of sign s, or 0 if there are none.

    Code: the equations were read in the reimplementation of FL-Byzantine-Library. It takes the lower one of two middle
    values as the median; where no sign is elected it averages all entries. The authors' own code
    (JosephGeoBenjamin/FedSECA-ByzantineTolerance) has this ``sparsity``, 0.9, and the lower median, too. It differs in
    three points: only the entries that remain vote; clipped norms count in the median sizes alone, to which the
    entries of updates as they came are clamped; and its server takes a moving average of its steps (``moment_beta``
    0.5). The vote matters most.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "the smallest numbers of an update count as 0",
        "translation": "signs and lengths depend on the origin",
    }

    whole_matrices = 4

    sparsity: Annotated[float, between(0, 1)] = 0.9
    """gamma: share of each update's entries, the smallest, that are set to 0"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        rows = updates.columns
        signs = rows.sign()
        elected = _votes(updates, signs).sign()
        sizes = rows.abs()
        # The quantile lies between the entry of this place and the next, so the entries above it are those that follow.
        least = updates.place.kth_smallest(sizes.clone(), math.floor(self.sparsity * (updates.d - 1) + 1e-9) + 1)
        kept = (sizes > least) & (signs * elected > 0)
        sizes *= clip_factors(updates.norms, median_norm(updates.norms)).to(sizes.dtype)[:, None]
        middle = median(updates.like(sizes))
        total = torch.minimum(sizes, middle).where(kept, 0).sum(dim=0, dtype=torch.float64)
        return Aggregate((elected * total / kept.sum(dim=0).clamp(min=1)).to(rows.dtype))


def _votes(updates: Updates, signs: Tensor) -> Tensor:
    """The sums (d,) of the clients' signs, each weighted by its concordance ratio times n, a whole number."""
    agreement = updates.place.sum(gram_matrix(signs)).sign().sum(dim=1).clamp(min=0)
    return agreement.to(signs.dtype) @ signs
