"""An attack with one more trick: what the tricks share."""

from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.interfaces import Attack, AttackView, Shard


@dataclass(frozen=True)
class Wrapped(Attack):
    """The attackers do what ``attack`` does, but for what a subclass changes."""

    attack: Attack

    @property
    def present(self) -> bool:  # type: ignore[override]
        """Whether there is an attack at all."""
        return self.attack.present

    @property
    def alone(self) -> bool:  # type: ignore[override]
        """Whether it works without honest clients."""
        return self.attack.alone

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        return self.attack.poison(shard)

    def goal(self, shard: Shard) -> tuple[Tensor, Tensor] | None:
        return self.attack.goal(shard)

    def report(self, losses: Tensor, honest: Tensor) -> Tensor:
        return self.attack.report(losses, honest)

    def craft(self, view: AttackView) -> Tensor:
        return self.attack.craft(view)
