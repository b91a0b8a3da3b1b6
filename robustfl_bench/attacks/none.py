"""No attack: the clean run that every attacked run is compared with (folklore)."""

from dataclasses import dataclass

from robustfl_bench.interfaces import Attack


@dataclass(frozen=True)
class NoAttack(Attack):
    """There are no Byzantine clients, whatever ``num_byzantine`` says; the server may still expect some."""

    present = False
    crafts = False
