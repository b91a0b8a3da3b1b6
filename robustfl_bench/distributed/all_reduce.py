"""``all_reduce`` with a robust rule: every process sends each part of its update to the process that holds these
columns, the rule runs on columns, and the parts of the aggregate go back to all.

The columns of a process are trusted to it: a process that lies about its part of the *aggregate* is not found out.
Rules protect against what processes send as updates.
"""

import zlib
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from robustfl_bench.aggregators.base import Aggregator, ServerAlone
from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.distributed.peers import Peers
from robustfl_bench.numerics.places import Place
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.protocols.chunks import chunks


class RobustAllReduce:
    """Replaces a process's update by the rule's aggregate of the updates of all processes, round after round.

    ``rule`` is any rule that needs neither samples of the server nor whole updates. It keeps its memory and the last
    aggregate from round to round, and draws from ``seed``. ``group`` is a group of ``torch.distributed`` (gloo on a
    CPU; nccl is untested). ``non_finite`` counts, per process, the rounds in which its update had numbers that are not
    finite: these updates count as 0. ``sent`` is the number of bytes that this process has sent.

    Raises ConfigError if the group is too small for the rule.
    """

    def __init__(
        self, rule: Aggregator, group: dist.ProcessGroup | None = None, seed: int = 0, timeout: float = 300.0
    ) -> None:
        self.rule, self.peers, self.seed = rule, Peers(group, timeout), seed
        rule.check(self.peers.size)
        self.round = 0
        self.non_finite = [0] * self.peers.size
        self._previous: Tensor | None = None
        self._memory: Mapping[str, Tensor] = {}
        self._rows = torch.empty(self.peers.size, 0)

    @property
    def sent(self) -> int:
        """Bytes of updates and aggregates that this process has sent."""
        return self.peers.sent

    def __call__(self, flat: Tensor, count: int = 1) -> Tensor:
        """Overwrite ``flat`` (d,) float32, this process's update, by the aggregate, which is also returned.

        ``count`` is the number of samples behind the update, which weighted rules use. Raises ConfigError if the
        processes disagree on the length, the rule or the round, or the rule needs what is not at hand; PeerLost if a
        process has gone.
        """
        if flat.dtype != torch.float32 or flat.ndim != 1 or not flat.is_contiguous():
            raise ConfigError(f"the update must be a contiguous float32 vector, got {flat.dtype} {tuple(flat.shape)}")
        peers, d = self.peers, len(flat)
        rule = zlib.crc32(repr((self.rule, self.seed)).encode())
        peers.agree([d, rule, self.round], ["the length of an update", "the rule and its seed", "the round"])
        columns = chunks(d, peers.size)
        mine = columns[peers.rank]
        if self._rows.shape[1] != mine.stop - mine.start or self._rows.device != flat.device:
            self._rows = flat.new_empty(peers.size, mine.stop - mine.start)
        peers.swap([flat[part] for part in columns], list(self._rows))
        vector = self._aggregate(Place(d, mine.start, mine.stop, peers.sum if peers.size > 1 else None), count)
        peers.swap([vector] * peers.size, [flat[part] for part in columns])
        self.round += 1
        return flat

    def _aggregate(self, place: Place, count: int) -> Tensor:
        """This process's columns of the aggregate."""
        peers, rows = self.peers, self._rows
        # Whoever receives a column tests it, so that all processes leave out the same updates.
        told = torch.zeros(2, peers.size, dtype=torch.float64)
        told[0], told[1, peers.rank] = (~rows.isfinite().all(dim=1)).double(), count
        wrong, counts = peers.sum(told)
        for rank in wrong.nonzero().flatten().tolist():
            rows[rank] = 0
            self.non_finite[rank] += 1
        server = ServerAlone(
            self.rule,
            lambda name: "the model" if name == "params" else "samples of a server, which no process has",
            previous=self._previous,
            step_size=1.0,
            round=self.round,
            rng=seeding.generator(self.seed, "aggregator", self.round),
            clients=torch.arange(peers.size),
            counts=counts,
            memory=self._memory,
            layers=(),
        )
        made = self.rule(Updates(rows, counts, place=place), server)
        self._memory = made.memory or {}
        self._previous = made.vector.clone()
        vector: Tensor = made.vector.to(rows)
        return vector.contiguous()


def robust_all_reduce(flat: Tensor, rule: Aggregator, group: dist.ProcessGroup | None = None, count: int = 1) -> Tensor:
    """``flat`` (d,) float32 overwritten by the aggregate, by ``rule``, of the vectors of all processes; one round.

    A rule with a memory starts anew: use ``RobustAllReduce`` for more rounds than one. Raises as it does.

    >>> import torch.distributed as dist
    >>> from robustfl_bench import CooMed
    >>> dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
    >>> robust_all_reduce(torch.tensor([1.0, 2.0]), CooMed())
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    return RobustAllReduce(rule, group)(flat, count)
