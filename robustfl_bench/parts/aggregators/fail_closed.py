"""A rule that fails closed: more clients look hostile than it can bear (ours)."""

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.abilities import passes_on
from robustfl_bench.base.errors import ConfigError, FailedClosed
from robustfl_bench.base.fields import Option, at_least, one_of
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView
from robustfl_bench.parts.aggregators.secure_sum import SecureSum

ALIKE = 1e-12
"""The squared distance of two copies of an update at most, as a share of its squared length."""


@passes_on("rule")
@dataclass(frozen=True)
class FailClosed(Aggregator):
    """``rule``, unless more than ``num_byzantine`` clients look hostile: then the round changes nothing, or the run
    ends.

    In such a round the model, the server's optimizer and the last aggregate stay; with gossip a node takes nothing from
    its neighbours. A client looks hostile if its median distance to the others is more than ``times`` the median of
    these over all clients (of an even number, the lower one of the two in the middle), or if another client sent the
    same update. Attackers who stay as near to the honest clients as these are to
    each other are not seen; honest clients with few samples, as in ``quantity_skew``, can look hostile. The setting
    ``on_suspicion`` makes this rule of any other.
    """

    rule: Aggregator
    """the rule for rounds without alarm"""
    num_byzantine: Annotated[int, at_least(0)]
    """f: the hostile clients that the rule can bear"""
    action: Annotated[str, one_of(skip="the model stays as it is", stop="the run ends")] = "skip"
    """what an alarm does"""
    times: Annotated[float, Option(1, math.inf, "()")] = 2.0
    """the distance that looks hostile, in median distances"""

    exempt = MappingProxyType({"unanimous": "clients that all send the same update look hostile"})

    def __post_init__(self) -> None:
        if isinstance(self.rule, SecureSum):
            raise ConfigError("on_suspicion compares the clients' updates, which secure_aggregation hides; take one")

    def check_mixed(self, n: int) -> None:
        """Raise ConfigError: a pre-aggregation gives clients the same updates, which would look hostile."""
        raise ConfigError("on_suspicion compares the clients' own updates; set on_suspicion=keep or "
                          "pre_aggregation=none")  # fmt: skip

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        hostile = int(self.hostile(updates).sum())
        if hostile > self.num_byzantine and self.action == "stop":
            alarm = f"{hostile} of {updates.n} clients look hostile, and f is {self.num_byzantine}"
            raise FailedClosed(f"round {server.round + 1}: {alarm}")
        result = self.rule(updates, server)
        if hostile <= self.num_byzantine:
            return result
        weights = None if result.weights is None else torch.zeros_like(result.weights)
        nothing = torch.zeros_like(result.vector)
        return replace(result, vector=nothing, weights=weights, memory=dict(server.memory), skipped=True)

    def hostile(self, updates: Updates) -> Tensor:
        """Which clients look hostile, (n,) bool."""
        if updates.n < 3:
            return torch.zeros(updates.n, dtype=torch.bool, device=updates.columns.device)
        squares = updates.sq_dists.clone()
        lengths = updates.norms.double().square()
        copies = (squares <= ALIKE * torch.maximum(lengths, lengths[:, None])).fill_diagonal_(False).any(dim=1)
        typical = squares.fill_diagonal_(-1).sort(dim=1).values[:, 1:].median(dim=1).values.sqrt()
        return copies | (typical > self.times * typical.median())
