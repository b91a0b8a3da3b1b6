"""Server: what the server would learn alone, from its own data (a baseline of BOBA, Bao et al., AISTATS 2024)."""

from dataclasses import dataclass

from robustfl_bench.interfaces import ServerView
from robustfl_bench.updates import Aggregate, Updates, mean_row


@dataclass(frozen=True)
class Server:
    """Mean of the server's updates per class; the clients, whose weights are all 0, are ignored."""

    def __call__(self, updates: Updates, server: ServerView) -> Aggregate:
        return Aggregate(mean_row(server.class_updates), updates.counts.new_zeros(updates.n))
