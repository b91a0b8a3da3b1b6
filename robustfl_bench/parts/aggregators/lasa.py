"""LASA, layer-adaptive sparsified model aggregation (Xu, Zhang, Hu, WACV 2025, Algorithm 1).

"Achieving Byzantine-resilient federated learning via layer-adaptive sparsified model aggregation",
https://arxiv.org/abs/2409.01435.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustfl_bench.base.fields import at_least, between, one_of
from robustfl_bench.numerics.clipping import clip_factors, median_norm
from robustfl_bench.numerics.gram_space import Array
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class Lasa(Aggregator):
    """Layer-wise mean of sparsified updates, over the clients whose norm and signs are typical in that layer.

    Updates are clipped to the median of all norms, and the ``sparsity`` share of smallest entries of each is set to 0,
    so that k = (1 - ``sparsity``) d are kept. In every parameter tensor the result is ``mean of z_i`` over the accepted
    clients, where z_i is the clipped and sparsified part of update i. A client is accepted if
    ``|a_i - median of a| < limit * std of a``, with n in the denominator of std, for its norm ``a_i = |z_i|``, with
    ``length_limit``, and for its share a_i of positive entries, with ``sign_limit``. Where all a_i are equal, all pass;
    if no client passes both, all are accepted. The paper shrinks the share towards a half by the sparsity; this changes
    no decision and is left out here.

    Code: the defaults are the authors'. Their code keeps only the entries above the k-th largest, which are k - 1
    (``boundary=dropped``): a small change, unless it moves a client across a limit. It prunes weights but no biases;
    here all parameters of the model are pruned together. It clips to the lower one of two middle norms.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "unanimous": "the smallest numbers of an update count as 0",
        "translation": "signs and lengths depend on the origin",
    }

    whole_matrices = 2

    sparsity: Annotated[float, between(0, 1)] = 0.3
    """share of each update's entries, the smallest, that are set to 0"""
    length_limit: Annotated[float, at_least(0)] = 1.0
    """standard deviations from the median norm within which a client counts, per layer"""
    sign_limit: Annotated[float, at_least(0)] = 1.0
    """standard deviations from the median share of positive entries within which a client counts, per layer"""
    boundary: Annotated[str | None, one_of(dropped="the authors' code", null="kept, as in the paper")] = None
    """the k-th largest entry of an update"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        factors = clip_factors(updates.norms, median_norm(updates.norms))
        least = self._least(updates)
        layers = updates.layers(server.layers or (updates.d,))
        return Aggregate(torch.cat([self._layer(layer, least, factors) for layer, _ in layers]))

    def _least(self, updates: Updates) -> Tensor:
        """The magnitude (n, 1) of each update's k-th largest entry, k of which are kept; -1 if all are, infinite if
        none is."""
        kept = math.floor((1 - self.sparsity) * updates.d + 1e-9)
        if kept in (0, updates.d):
            return updates.columns.new_full((updates.n, 1), -1.0 if kept else math.inf)
        return updates.place.kth_smallest(updates.columns.abs(), updates.d - kept + 1)

    def _layer(self, updates: Updates, least: Tensor, factors: Tensor) -> Tensor:
        """The aggregate (k,) of one layer's updates (n, k)."""
        rows, place = updates.columns, updates.place
        sizes = rows.abs()
        sparse = rows.where(sizes >= least if self.boundary is None else sizes > least, 0)
        norms = factors * place.norm(torch.linalg.vector_norm(sparse, dim=1, dtype=torch.float64))
        balances = place.sum(sparse.sign().sum(dim=1, dtype=torch.float64))
        shares = balances / place.sum(sparse.count_nonzero(dim=1)).clamp(min=1)
        usual = _usual(norms.cpu().numpy(), self.length_limit) & _usual(shares.cpu().numpy(), self.sign_limit)
        members = torch.from_numpy(usual if usual.any() else ~usual).to(rows.device)
        return updates.like(sparse).combine(members * factors / members.sum()).vector


def _usual(values: Array, limit: float) -> NDArray[np.bool_]:
    """Which values are less than ``limit`` standard deviations from their median; all, if they are equal."""
    away, deviation = np.abs(values - np.median(values)), values.std()
    return away < limit * deviation if deviation > 0 else np.ones(len(values), dtype=bool)
