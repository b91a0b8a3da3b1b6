"""No attack: the clean run that every attacked run is compared with (folklore)."""

from dataclasses import dataclass

from robustfl_bench.parts.attacks.base import Attack


@dataclass(frozen=True)
class NoAttack(Attack):
    """There are no Byzantine clients, regardless of ``num_byzantine``; the server may still expect some."""

    present = False
    crafts = False
