"""Min-Max (Shejwalkar and Houmansadr, NDSS 2021, "Manipulating the Byzantine", section IV)."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.parts.attacks.base import Attack, AttackView
from robustfl_bench.parts.attacks.line_search import largest_harm
from robustfl_bench.parts.attacks.perturbation import PERTURBATIONS, largest_gamma, perturbation, sq_dists_along


@dataclass(frozen=True)
class MinMax(Attack):
    """All attackers send mean + gamma * p, no farther from any honest update than the farthest two from each other.

    gamma comes from the original halving search, from ``gamma_init`` to the tolerance ``tau``. BOBA uses std, 10 and
    1e-5.

    The paper's attack does not use the rule. If ``evaluations`` is a number, the attackers try that many gammas, evenly
    spaced up to the one above, on the rule in use, and send the vector that moves its aggregate farthest from the
    honest mean: the objective of the paper's attacks that know the rule, under the constraint of this one.
    """

    perturbation: Annotated[str, one_of(**PERTURBATIONS)] = "std"
    """direction p in which the honest mean is moved"""
    gamma_init: Annotated[float, at_least(1e-12)] = 10
    """start of the search, which stays below twice this value"""
    tau: Annotated[float, at_least(1e-12)] = 1e-5
    """tolerance of the search"""
    evaluations: Annotated[int | None, at_least(1)] = None
    """allowed gammas tried on the rule, of which the most harmful is sent; null: the largest allowed gamma is sent"""

    by_columns = True

    def craft(self, view: AttackView) -> Tensor:
        direction = perturbation(view, self.perturbation)
        sq_dists = sq_dists_along(view, direction)
        limit = float(view.honest.sq_dists.max())
        gamma = largest_gamma(lambda g: sq_dists(g).max() <= limit, self.gamma_init, self.tau)
        if self.evaluations is not None:
            gamma = largest_harm(view, direction, gamma, self.evaluations)
        return view.mean + gamma * direction
