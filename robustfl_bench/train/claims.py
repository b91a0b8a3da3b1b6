"""The sample counts that clients report, where attackers lie about theirs."""

from torch import Tensor

from robustfl_bench.train.federation import Federation


def claimed(federation: Federation) -> Tensor:
    """The sample counts (N,) float64 that all clients of a federation report."""
    counts, attackers = federation.counts.clone(), federation.byzantine_ids
    counts[attackers] = federation.parts.attack.claim(counts[attackers])
    return counts
