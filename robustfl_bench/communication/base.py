"""The base class of communication schemes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING

from robustfl_bench.aggregators.base import Aggregator, ServerView
from robustfl_bench.base.abilities import Part

if TYPE_CHECKING:
    from torch import Tensor

    from robustfl_bench.numerics.updates import Aggregate, Updates


class Communication(Part):
    """The communication between clients, and with the server if there is one.

    With ``clients_compute_alone`` the engine computes every client's update separately, so that a separate process per
    client gives the same bits.
    """

    clients_compute_alone: bool = False

    def check(self, rule: Aggregator, others: Collection[str]) -> None:
        """Raise ConfigError if a run with this rule cannot communicate in this way.

        ``others`` names the optional config groups that the run uses, such as ``pre_aggregation``.
        """

    def deliver(self, uploads: Tensor) -> None:
        """Turn the clients' uploads (n, d) into the received ones, in place; by default they are the same."""

    @abstractmethod
    def total_bits(self, rule: Aggregator, n: int, d: int) -> int:
        """The number of bits that n clients together send in a round, for a model of d parameters."""

    @abstractmethod
    def aggregate(self, rule: Aggregator, updates: Updates, server: ServerView) -> Aggregate:
        """The aggregate of one round."""
