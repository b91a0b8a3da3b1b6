"""The base class of attacks that change another attack."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from robustfl_bench.parts.attacks.base import Attack, AttackView, ChoiceView, Crafted, GossipView, Harm, PlanView, Shard


@dataclass(frozen=True)
class Wrapped(Attack):
    """An attack that calls another one, ``attack``, in every step. A subclass overrides the steps that it changes."""

    attack: Attack
    """the attack that this one changes"""

    @property
    def exempt(self) -> Mapping[str, str]:  # type: ignore[override]
        """The promises that ``attack`` does not make."""
        return self.attack.exempt

    @property
    def reports(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the numbers that ``attack`` notes in each round."""
        return self.attack.reports

    @property
    def present(self) -> bool:
        return self.attack.present

    @property
    def crafts(self) -> bool:
        return self.attack.crafts

    @property
    def needs_honest(self) -> bool:
        return self.attack.needs_honest

    @property
    def by_columns(self) -> bool:
        return self.attack.by_columns

    @property
    def poisons(self) -> bool:
        return self.attack.poisons

    @property
    def plans(self) -> bool:
        return self.attack.plans

    @property
    def square_matrices(self) -> int:  # type: ignore[override]
        """The (n, n) matrices that ``attack`` holds."""
        return self.attack.square_matrices

    def plan(self, view: PlanView) -> object:
        """The plan of ``attack``, whose attacks are changed as it is."""
        return self.attack.plan(_Changed(view, self))

    def active(self, round: int) -> bool:
        return self.attack.active(round)

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        return self.attack.poison(shard)

    def goal(self, shard: Shard) -> tuple[Tensor, Tensor] | None:
        return self.attack.goal(shard)

    def choose(self, view: ChoiceView) -> Tensor:
        return self.attack.choose(view)

    def claim(self, counts: Tensor) -> Tensor:
        return self.attack.claim(counts)

    def report(self, losses: Tensor, honest: Tensor) -> Tensor:
        return self.attack.report(losses, honest)

    def craft(self, view: AttackView) -> Tensor | Crafted:
        return self.attack.craft(view)

    def craft_messages(self, view: GossipView) -> Tensor | Crafted | None:
        return self.attack.craft_messages(view)


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
    def own_draws(self) -> Callable[[int], np.random.Generator]:
        return self.view.own_draws

    def simulate(self, attacks: Sequence[Attack], stream: int) -> list[Harm | None]:
        return self.view.simulate([replace(self.wrapper, attack=attack) for attack in attacks], stream)

    def assess_by_class(self, models: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.view.assess_by_class(models)

    def carry_out(self, attack: Attack) -> object:
        return self.view.carry_out(replace(self.wrapper, attack=attack))

    def carry_out_on_labels(self, attack: Attack, choose: Callable[[Tensor], Tensor]) -> object:
        return self.view.carry_out_on_labels(replace(self.wrapper, attack=attack), choose)
