"""Min-Sum (Shejwalkar and Houmansadr, NDSS 2021, "Manipulating the Byzantine", section IV)."""

import math
from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.attacks.base import Attack, AttackView
from robustfl_bench.attacks.line_search import largest_harm
from robustfl_bench.attacks.perturbation import PERTURBATIONS, largest_gamma, perturbation, sq_dists_along
from robustfl_bench.base.errors import check_choice, check_fields


@dataclass(frozen=True)
class MinSum(Attack):
    """All attackers send mean + gamma * p, whose squared distances from the honest updates have a sum no larger than
    that of an honest update.

    ``reference`` selects that honest update: ``max`` the one with the largest sum, as in the paper; ``min`` the one
    with the smallest sum, as in the authors' notebooks (a weaker, stealthier attack). ``perturbation`` p is ``std``,
    ``inverse_std``, ``unit`` or ``sign``; gamma comes from the original halving search, starting at ``gamma_init`` with
    tolerance ``tau``, and stays below 2 * ``gamma_init``. BOBA uses std, 10 and 1e-5.

    The paper's attack does not use the rule. If ``evaluations`` is a number, the attackers try that many gammas, evenly
    spaced up to the one above, on the rule in use, and send the vector that moves its aggregate farthest from the
    honest mean: the objective of the paper's attacks that know the rule, under the constraint of this one.
    """

    perturbation: str = "std"
    gamma_init: float = 10
    tau: float = 1e-5
    reference: str = "max"
    evaluations: int | None = None

    def __post_init__(self) -> None:
        check_choice("perturbation", self.perturbation, PERTURBATIONS)
        check_choice("reference", self.reference, ("max", "min"))
        check_fields(self, gamma_init=(1e-12, math.inf), tau=(1e-12, math.inf), evaluations=(1, math.inf))

    def craft(self, view: AttackView) -> Tensor:
        direction = perturbation(view, self.perturbation)
        sq_dists = sq_dists_along(view, direction)
        sums = view.honest.sq_dists.sum(dim=1)
        limit = float(sums.max() if self.reference == "max" else sums.min())
        gamma = largest_gamma(lambda g: sq_dists(g).sum() <= limit, self.gamma_init, self.tau)
        if self.evaluations is not None:
            gamma = largest_harm(view, direction, gamma, self.evaluations)
        return view.mean + gamma * direction
