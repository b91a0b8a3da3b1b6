"""Dynamic label flipping: always the least probable class (Peng, Li, Vlaski, Ling, JMLR 26(27), 2025).

"Mean aggregator is more robust than robust aggregators under label poisoning attacks on distributed heterogeneous
data", https://arxiv.org/abs/2404.13647; class furthest_label_flipping of their code, github.com/pengj97/LPA.
"""

from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.parts.attacks.base import Attack, PlanView


@dataclass(frozen=True)
class DynamicLabelFlip(Attack):
    """In every round each Byzantine client gives each of its samples the class that the model at hand finds least
    probable, and trains honestly on the result.
    """

    crafts = False

    def plan(self, view: PlanView) -> object:
        return view.carry_out_on_labels(self, _least_probable)


def _least_probable(outputs: Tensor) -> Tensor:
    return outputs.argmin(dim=1)
