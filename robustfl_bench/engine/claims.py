"""The sample counts that clients report, where attackers lie about theirs."""

from torch import Tensor

from robustfl_bench.attacks.base import Attack
from robustfl_bench.engine.federation import Federation


def claims(attack: Attack) -> bool:
    """Whether the attackers report other numbers of samples than they have."""
    return type(attack).claim is not Attack.claim


def claimed(federation: Federation) -> Tensor:
    """The sample counts (N,) float64 that all clients of a federation report."""
    counts, attackers = federation.counts.clone(), federation.byzantine_ids
    counts[attackers] = federation.parts.attack.claim(counts[attackers])
    return counts
