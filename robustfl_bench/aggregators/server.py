"""Server: what the server would learn alone, from its own data (a baseline of BOBA, Bao et al., AISTATS 2024)."""

from dataclasses import dataclass

from robustfl_bench.interfaces import Aggregator, ServerView
from robustfl_bench.updates import Aggregate, Updates


@dataclass(frozen=True)
class Server(Aggregator):
    """Mean of the server's updates per class; the clients, whose weights are all 0, are ignored."""

    def __call__(self, updates: Updates, server: ServerView) -> Aggregate:
        return Aggregate(server.class_updates.mean(dim=0), updates.counts.new_zeros(updates.n))
