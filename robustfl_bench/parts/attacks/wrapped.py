"""The base class of attacks that change another attack."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from robustfl_bench.base.abilities import passes_on
from robustfl_bench.parts.attacks.base import Attack, Harm, PlanView


@passes_on("attack")
@dataclass(frozen=True)
class Wrapped(Attack):
    """An attack that passes on to another one, ``attack``, all that a subclass does not override."""

    attack: Attack
    """the attack that this one changes"""

    def plan(self, view: PlanView) -> object:
        """The plan of ``attack``, whose attacks are changed as it is."""
        return self.attack.plan(_Changed(view, self))


@dataclass(frozen=True)
class _Changed(PlanView):
    """The view of a planning attack that ``wrapper`` changes: so it changes all attacks that are simulated."""

    view: PlanView
    wrapper: Wrapped

    @property
    def round(self) -> int:
        return self.view.round

    @property
    def rounds(self) -> int:
        return self.view.rounds

    @property
    def memory(self) -> Mapping[str, Tensor]:
        return self.view.memory

    @property
    def varies(self) -> bool:
        return self.view.varies

    @property
    def supposes(self) -> bool:
        return self.view.supposes

    @property
    def error_at_hand(self) -> float:
        return self.view.error_at_hand

    @property
    def own_draws(self) -> Callable[[int], np.random.Generator]:
        return self.view.own_draws

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        return self.view.layer_sizes

    def simulate(self, attacks: Sequence[Attack], stream: int) -> list[Harm | None]:
        return self.view.simulate([replace(self.wrapper, attack=attack) for attack in attacks], stream)

    def assess_by_class(self, models: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.view.assess_by_class(models)

    def carry_out(self, attack: Attack) -> object:
        return self.view.carry_out(replace(self.wrapper, attack=attack))

    def carry_out_on_labels(self, attack: Attack, choose: Callable[[Tensor], Tensor]) -> object:
        return self.view.carry_out_on_labels(replace(self.wrapper, attack=attack), choose)
