"""All attackers against the smallest cluster: the worst case of BRIFCA's theory (Tao et al., arXiv 2306.00638)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustfl_bench.attacks.wrapped import Wrapped
from robustfl_bench.interfaces import ChoiceView


@dataclass(frozen=True)
class ClusterTarget(Wrapped):
    """The attackers do what ``attack`` does, all to the model that the fewest honest clients of the round train.

    Models that no honest client trains are left alone; of equals the first is attacked. Where the groups are fixed
    (three_stage) there is nothing to choose, and without clustering only ``attack`` remains.
    """

    def choose(self, view: ChoiceView) -> Tensor:
        used, sizes = torch.unique(view.honest, return_counts=True)
        smallest: Tensor = used[sizes.argmin()]
        return smallest.repeat(view.num_byzantine)
