"""GAS: any rule on groups of coordinates tells who is far from it (Liu, Chen, Lyu, Wu, Wu, Chen, ICML 2023).

"Byzantine-robust learning on heterogeneous data via gradient splitting", https://arxiv.org/abs/2302.06079.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.abilities import passes_on
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.selection import mean_of_lowest, num_kept
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerAlone, ServerView


@passes_on("rule")
@dataclass(frozen=True)
class Gas(Aggregator):
    """Mean of the n - f updates of least score: the sum, over groups of coordinates, of the distances from ``rule``.

    In every round the coordinates are dealt at random to ``groups`` groups of equal size, up to one. In each group g
    the rule aggregates the clients' sub-vectors x_i(g) to r(g): ``score_i = sum of |x_i(g) - r(g)| over the groups g``.
    The rule works with few coordinates at a time, and its aggregate is only a reference. Equals at the border share the
    places that are left. The rule may read the updates and the server's own ones, but neither whole models nor memory.
    It is called once per group, so the cost grows with their number.

    Code: the authors' default is 1000 groups, of a ResNet-18 with 11 million parameters. Their Multi-Krum is the one
    here; their f is the number of attackers among the clients of the round.
    """

    whole_matrices = 1

    rule: Aggregator
    """the rule for each group"""
    num_byzantine: Annotated[int, at_least(0)]
    """f: the n - f updates of least score are averaged"""
    groups: Annotated[int, at_least(1)] = 10
    """p: number of groups of coordinates; at most one per coordinate"""

    def check(self, n: int) -> None:
        """Raise ConfigError if f leaves no client, or if n clients are too few for the rule."""
        num_kept("GAS", n, self.num_byzantine)
        self.rule.check(n)

    def check_mixed(self, n: int) -> None:
        """Raise ConfigError if f leaves none of n mixed updates, or if the rule cannot work on them."""
        num_kept("GAS", n, self.num_byzantine)
        self.rule.check_mixed(n)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        kept = num_kept("GAS", updates.n, self.num_byzantine)
        scores = torch.zeros_like(updates.counts)
        for group in np.array_split(server.rng.permutation(updates.d), min(self.groups, updates.d)):
            columns = torch.from_numpy(group).to(updates.device)
            part = updates.at(columns)
            scores += part.sq_dists_from(self._reference(part, server, updates.place.chosen(columns)[1])).sqrt()
        return mean_of_lowest(updates, scores, kept)

    def _reference(self, part: Updates, server: ServerView, here: Tensor) -> Tensor:
        """The rule's aggregate (k,) of a group, whose coordinates in this process are ``here`` (k,)."""
        found = self.rule(part, _group_view(self.rule, server, here))
        if found.memory:
            raise ConfigError(
                f"{type(self.rule).__name__} keeps a memory, but the groups of GAS change in every round; "
                "set aggregator.rule to another rule"
            )
        return found.vector


class _GroupView(ServerAlone):
    """The server of the rule of a group; the model is cut to the group when it is read."""

    @property
    def params(self) -> Tensor:  # type: ignore[override]
        cut: Tensor = self.__dict__["_cut"](self.__dict__["_server"].params)
        return cut


def _group_view(rule: Aggregator, server: ServerView, here: Tensor) -> ServerView:
    """The server as ``rule`` sees it in a group with the coordinates ``here`` (k,)."""

    def cut(vectors: Tensor) -> Tensor:
        return vectors[..., here]

    return _GroupView(
        rule,
        lambda name: "whole models, which the groups of GAS are not; set aggregator.rule to another rule",
        _server=server,
        _cut=cut,
        previous=None if server.previous is None else cut(server.previous),
        step_size=server.step_size,
        round=server.round,
        rng=server.rng,
        clients=server.clients,
        counts=server.counts,
        memory={},
        train_per_class=lambda: cut(server.class_updates),
        train_together=lambda: cut(server.update),
    )
