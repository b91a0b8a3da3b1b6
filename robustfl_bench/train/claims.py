"""The sample counts that clients report, where attackers lie about theirs."""

from torch import Tensor

from robustfl_bench.train.clients import Clients


def claimed(clients: Clients) -> Tensor:
    """The sample counts (N,) float64 that all clients report."""
    counts, attackers = clients.counts.clone(), clients.byzantine_ids
    counts[attackers] = clients.parts.attack.claim(counts[attackers])
    return counts
