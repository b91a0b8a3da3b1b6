"""LFighter: of two groups, told apart by two output neurons, one is left out (Jebreel et al., Neural Networks 2024).

Jebreel, Domingo-Ferrer, Sanchez, Blanco-Justicia, "LFighter: defending against the label-flipping attack in federated
learning"; Algorithm 1 and Procedure 1 in https://arxiv.org/abs/2207.01982.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.gram_space import Array
from robustfl_bench.numerics.sample_weights import reweighted
from robustfl_bench.numerics.selection import two_groups
from robustfl_bench.numerics.spectra import cosines
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class LFighter(Aggregator):
    """Mean of the larger or more scattered of two groups of clients, which k-means makes.

    K-means compares the clients' updates of the weights of two output neurons: those of the largest norms, summed over
    clients, supposedly the source and the target of flipped labels. The score of a group of k clients is
    ``k / n * (1 - mean of min(0, c_i))`` over its members, where c_i is a member's least cosine to another member. The
    group of the lower score is left out: the smaller one, or of similar sizes the one whose members point in similar
    directions. If the scores are equal, no client is left out.

    The last two parameter tensors must be the weights and biases of the output layer. With one or two outputs, all
    weights of that layer are compared, and for a matrix without a model all columns.

    Code: the score is that of the authors' code. The paper has the largest angle in the place of 1 minus the least
    cosine, which also distinguishes groups without an obtuse angle. The authors add the sizes of the biases to the
    norms of the neurons; Peng et al. (JMLR 2025) leave them out, as here. The first version of the paper has another
    procedure for clients with one class each, by HDBSCAN, which neither code has. Their k-means starts at random.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "translation": "cosines and norms depend on the origin",
        "robust": "it finds one group of attackers who are alike, not several",
    }

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        kept = torch.from_numpy(self._kept(self._relevant_gram(updates, server).cpu().numpy())).to(updates.device)
        weights = kept.to(updates.counts)
        return updates.combine(weights / weights.sum())

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        return reweighted(self.aggregate(updates, server), updates)

    def _relevant_gram(self, updates: Updates, server: ServerView) -> Tensor:
        """Inner products (n, n) of the clients' weights of the two neurons of largest norm."""
        if not server.layers:
            return updates.gram
        if len(server.layers) < 2 or server.layers[-2] % server.layers[-1]:
            raise ConfigError("lfighter compares weights of output neurons: take a model that ends in a linear layer")
        weights, outputs = server.layers[-2:]
        inputs = weights // outputs
        parts = updates.layers((sum(server.layers[:-2]), *[inputs] * outputs, outputs))
        grams = torch.stack([neuron.gram for neuron, _ in parts[1:-1]])
        if outputs <= 2:
            return grams.sum(dim=0)
        norms = grams.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt().sum(dim=1)
        return grams[norms.topk(2).indices].sum(dim=0)

    def _kept(self, gram: Array) -> NDArray[np.bool_]:
        """Which clients count, (n,)."""
        squares = gram.diagonal()
        group = two_groups((squares[:, None] + squares - 2 * gram).clip(min=0))
        similarity, n = cosines(gram), len(gram)
        scores = [_dissimilarity(similarity[np.ix_(part, part)]) * part.sum() / n for part in (group, ~group)]
        if scores[0] == scores[1]:
            return np.ones(n, dtype=bool)
        return group if scores[0] > scores[1] else ~group


def _dissimilarity(similarity: Array) -> float:
    """1 minus the mean over members of their least cosine to another member, or 0 if that is larger."""
    if not len(similarity):
        return 0.0
    return 1 - float(similarity.min(axis=1).clip(max=0).mean())
