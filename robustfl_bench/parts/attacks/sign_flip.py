"""Sign flipping: an honest upload reversed and scaled up, as in RAGA (Zuo et al., arXiv 2403.13374)."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import Number, one_of
from robustfl_bench.parts.attacks.base import Attack, AttackView


@dataclass(frozen=True)
class SignFlip(Attack):
    """Attackers send ``-factor`` times an upload, by ``flip``: each its ``own``, all the ``honest_sum`` or the
    ``honest_mean``, or each the ``running_sum``.

    RAGA prints the sum over the honest clients, with factor 3. Its numbers for FedAvg, which one attacker in ten hardly
    harms, fit only the attacker's own upload. This is therefore the default, and needs Byzantine clients with data.

    ``running_sum`` is the sum T_(k-1) of all uploads before attacker k, those of earlier attackers included: T_0 is the
    sum of the honest uploads, and T_k = (1 - factor) T_(k-1), so that attacker k sends -factor (1 - factor)^(k-1) T_0.
    With factor 3, signs alternate and sizes double from attacker to attacker. RAGA's number for its own rule with 40%
    attackers fits this reading alone (results/forensics.md).
    """

    flip: Annotated[
        str,
        one_of(
            own="needs data", honest_sum="", honest_mean="", running_sum="over honest clients and earlier attackers"
        ),
    ] = "own"
    """the flipped vector"""
    factor: Number = 3
    """multiple of the flipped vector that attackers send"""

    by_columns = True

    def craft(self, view: AttackView) -> Tensor:
        if self.flip == "own":
            return -self.factor * view.own
        if self.flip == "honest_mean":
            return -self.factor * view.mean
        honest_sum = view.mean * (view.n - view.num_byzantine)
        if self.flip == "honest_sum":
            return -self.factor * honest_sum
        sizes = [-self.factor * (1 - self.factor) ** k for k in range(view.num_byzantine)]
        return honest_sum.new_tensor(sizes).unsqueeze(1) * honest_sum
