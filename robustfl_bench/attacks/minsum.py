"""Min-Sum (Shejwalkar and Houmansadr, NDSS 2021, "Manipulating the Byzantine", section IV)."""

import math
from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.attacks.line_search import largest_harm
from robustfl_bench.attacks.perturbation import PERTURBATIONS, largest_gamma, perturbation, sq_dists_along
from robustfl_bench.interfaces import Attack, AttackView, check_choice, check_fields


@dataclass(frozen=True)
class MinSum(Attack):
    """All attackers send mean + gamma * p, whose squared distances from the honest updates add up to no more than those
    of an honest update do.

    ``reference`` says of which one: ``max`` of the one where the sum is largest, as in the paper; ``min`` of the one
    where it is smallest, as in the authors' notebooks (a weaker, stealthier attack). ``perturbation`` p is ``std``,
    ``inverse_std``, ``unit`` or ``sign``; gamma comes from the original halving search, starting at ``gamma_init`` with
    tolerance ``tau``, and stays below 2 * ``gamma_init``. BOBA uses std, 10 and 1e-5.

    The paper's attack does not look at the rule. With ``evaluations`` a number, the attackers ask the rule in use about
    so many gammas, evenly spaced up to that one, and send what moves its aggregate farthest from the honest mean: the
    objective of the paper's attacks that know the rule, under the constraint of this one.
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
