"""AutoGM, the auto-weighted geometric median (Li, Ngai, Voigt, IEEE Transactions on Industrial Informatics 2023).

"Byzantine-robust aggregation in federated learning empowered industrial IoT",
https://doi.org/10.1109/TII.2021.3128164.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch

from robustfl_bench.base.fields import SCALE, at_least
from robustfl_bench.numerics.gram_space import Array, medoid, recentred, spread, sq_dists_to
from robustfl_bench.numerics.medians import geometric_median
from robustfl_bench.numerics.sample_weights import penalised_weights
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class AutoGm(Aggregator):
    """Weighted geometric median of the updates, with weights that decrease with the distance from it.

    The rule minimises ``sum a_i |x_i - z| + regularization / 2 sum a_i^2`` alternately over the vector z and the
    weights a on the simplex, until the weights do not change or for ``max_iter`` alternations. Towards
    ``regularization`` 0 the nearest client gets all the weight, towards infinity z is the geometric median. Null is the
    number of clients. Its unit is a length, so for small updates every value is large.

    Code: null follows the first versions of Blades, the first author's library. Blades sorts the clients by index; here
    they are sorted by distance, as in the theorem.
    """

    exempt: ClassVar[Mapping[str, str]] = {
        "scale": "the regularization is a length",
    }

    regularization: Annotated[float | None, at_least(1e-100), SCALE] = None
    """lambda: small values leave the nearest clients; null: the number of clients"""
    eps: Annotated[float, at_least(0)] = 1e-6
    """precision of medians and weights, in median distances from the medoid"""
    max_iter: Annotated[int, at_least(1)] = 100
    """maximum number of alternations between median and weights"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        ones, gram = np.ones(updates.n), updates.gram.cpu().numpy()
        gram = recentred(gram, medoid(gram, ones))
        eps = self.eps * spread(gram, ones)
        regularization = updates.n if self.regularization is None else self.regularization
        masses = ones / updates.n
        weights = geometric_median(gram, masses, eps)
        for _ in range(self.max_iter):
            previous, masses = masses, penalised_weights(np.sqrt(sq_dists_to(gram, weights)), ones, regularization)
            weights = _median_of_active(gram, masses, eps)
            if np.abs(masses - previous).max() <= self.eps:
                break
        return updates.combine(torch.from_numpy(weights).to(updates.device))


def _median_of_active(gram: Array, masses: Array, eps: float) -> Array:
    active = np.flatnonzero(masses)
    weights = np.zeros_like(masses)
    weights[active] = geometric_median(gram[np.ix_(active, active)], masses[active], eps)
    return weights
