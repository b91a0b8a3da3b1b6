"""All attackers against the smallest cluster: the worst case of BRIFCA's theory (Tao et al., arXiv 2306.00638)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.parts.attacks.base import ChoiceView
from robustfl_bench.parts.attacks.wrapped import Wrapped


@dataclass(frozen=True)
class ClusterTarget(Wrapped):
    """All attackers apply ``attack`` to the model that the fewest honest clients of the round train.

    They ignore models that no honest client trains; in a tie they attack the first model. With fixed groups
    (three_stage) there is no choice, and without clustering the attack is ``attack`` alone.
    """

    def choose(self, view: ChoiceView) -> Tensor:
        used, sizes = torch.unique(view.honest, return_counts=True)
        smallest: Tensor = used[sizes.argmin()]
        return smallest.repeat(view.num_byzantine)
