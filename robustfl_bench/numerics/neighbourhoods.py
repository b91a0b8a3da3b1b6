"""The messages of one round of gossip at all nodes: the updates of one node, and mixing at all nodes at once."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from robustfl_bench.numerics.blocks import each_block, width
from robustfl_bench.numerics.updates import Updates

BLOCK = 1 << 20
"""Numbers of differences that are in memory at once, per thread of a CPU."""


@dataclass(frozen=True)
class Neighbourhoods:
    """What the h honest nodes know after the messages of a round have arrived.

    ``own`` (h, d) are the nodes' own models after their local step. Link k brings row ``source[k]`` of ``messages``
    (m, d), the model that a neighbour claims to have, to node ``receiver[k]``, a row of ``own``; both are (e,) int64,
    and the links of a node stand together, nodes in order. ``weights`` (e,) float64 are the gossip weights W_ij of the
    links, ``own_weights`` (h,) the nodes' weights W_ii of their own models; those of a node sum to 1.

    Results for a node depend on its own links only, to the bit: a process that knows one node computes the same bytes.
    """

    own: Tensor
    messages: Tensor
    receiver: Tensor
    source: Tensor
    weights: Tensor
    own_weights: Tensor

    def at(self, node: int) -> Updates:
        """The updates that the rule receives at a node: differences (k + 1, d) of what it knows from its own model.

        The first row belongs to the node itself and is zero; those of its k neighbours follow, attackers last. The
        ``counts`` are the gossip weights, W_ii first.
        """
        links = self._links[node]
        rows = self.own.new_zeros(len(range(*links.indices(len(self.source)))) + 1, self.own.shape[1])
        torch.sub(self.messages[self.source[links]], self.own[node], out=rows[1:])
        return Updates(rows, torch.cat([self.own_weights[node, None], self.weights[links]]))

    @cached_property
    def _links(self) -> list[slice]:
        """The links of every node."""
        ends = torch.bincount(self.receiver, minlength=len(self.own)).cumsum(0).tolist()
        return [slice(start, stop) for start, stop in zip([0, *ends], ends, strict=False)]

    @cached_property
    def sq_dists(self) -> Tensor:
        """Squared distance of every message from its receiver's own model, (e,) float64."""
        found = torch.zeros(len(self.source), dtype=torch.float64, device=self.own.device)
        for columns in self._blocks():  # one after the other: the sum has one order
            found += self._differences(columns).double().square_().sum(dim=1)
        return found

    def combine(self, coefficients: Tensor) -> Tensor:
        """The sum at every node of its links' differences times their ``coefficients`` (e,): (h, d) float32."""
        out, factors = torch.zeros_like(self.own), coefficients.to(self.own.dtype)[:, None]

        def fill(columns: slice) -> None:
            out[:, columns].index_add_(0, self.receiver, self._differences(columns).mul_(factors))

        each_block(fill, out.shape[1], self._width)
        return out

    def summed(self, values: Tensor) -> Tensor:
        """The sum at every node of a number (e,) of its links: (h,)."""
        return values.new_zeros(len(self.own)).index_add_(0, self.receiver, values)

    def _differences(self, columns: slice) -> Tensor:
        """Every message minus its receiver's own model, in some columns: (e, k)."""
        return self.messages[self.source, columns] - self.own[self.receiver, columns]

    @property
    def _width(self) -> int:
        return width(self.messages, max(1, BLOCK // max(1, len(self.source))))

    def _blocks(self) -> list[slice]:
        d, step = self.own.shape[1], BLOCK // 1024
        return [slice(start, min(start + step, d)) for start in range(0, d, step)]
