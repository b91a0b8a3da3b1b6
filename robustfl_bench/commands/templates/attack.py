"""An attack: the honest mean, shifted by a few standard deviations (ours)."""

from dataclasses import dataclass

from torch import Tensor

from robustfl_bench import Attack, AttackView, Number


@dataclass(frozen=True)
class Template(Attack):
    """All attackers send the mean of the honest updates minus ``factor`` standard deviations."""

    factor: Number = 1.5
    """standard deviations between the honest mean and what attackers send; 0: the mean"""

    def craft(self, view: AttackView) -> Tensor:
        """What the attackers send: (d,) for all, or (b, d) for each of b attackers."""
        return view.mean - self.factor * view.std
