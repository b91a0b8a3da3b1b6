"""``all_reduce`` with a robust rule: every process sends each part of its update to the process that holds these
columns, the rule runs on columns, and the parts of the aggregate go back to all.

The columns of a process are trusted to it: a process that lies about its part of the *aggregate* is not found out.
Rules protect against what processes send as updates.
"""

import zlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.places import Place
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.base import Aggregator
from robustfl_bench.parts.protocols.chunks import chunks
from robustfl_bench.runner.processes.peers import Peers
from robustfl_bench.train.alone import RuleAlone


class RobustAllReduce:
    """Replaces a process's update by the rule's aggregate of the updates of all processes, round after round.

    ``rule`` is any rule that needs neither the model, nor samples of the server, nor whole updates; another one raises
    ConfigError when it is first called. It keeps its memory and the last aggregate from round to round, and draws from
    ``seed``. ``group`` is a group of ``torch.distributed`` (gloo on a CPU; nccl is untested). ``non_finite`` counts,
    per process, the rounds in which its update had numbers that are not finite: these updates count as 0. ``sent`` is
    the number of bytes that this process has sent.

    Raises ConfigError if the group is too small for the rule.
    """

    def __init__(
        self, rule: Aggregator, group: dist.ProcessGroup | None = None, seed: int = 0, timeout: float = 300.0
    ) -> None:
        self.rule, self.peers = rule, Peers(group, timeout)
        self._asked = RuleAlone(rule, None, seed, _needed)
        self._asked.check(self.peers.size)
        self._rule_and_seed = zlib.crc32(repr((rule, seed)).encode())
        self.round = 0
        self.non_finite = [0] * self.peers.size
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
        alike = {"the length of an update": d, "the rule and its seed": self._rule_and_seed, "the round": self.round}
        counts = peers.agree(alike, told=count)
        columns = chunks(d, peers.size)
        mine = columns[peers.rank]
        if self._rows.shape[1] != mine.stop - mine.start or self._rows.device != flat.device:
            self._rows = flat.new_empty(peers.size, mine.stop - mine.start)
        peers.swap([flat[part] for part in columns], list(self._rows))
        for rank in peers.drop_non_finite(self._rows):
            self.non_finite[rank] += 1
        place = Place(d, mine.start, mine.stop, peers.sum if peers.size > 1 else None)
        updates = Updates(self._rows, counts.double(), place=place)
        known = {"counts": updates.counts, "step_size": 1.0, "layers": ()}
        vector = self._asked(updates, self.round, torch.arange(peers.size), **known).vector.to(flat)
        peers.swap([vector] * peers.size, [flat[part] for part in columns])
        self.round += 1
        return flat


def _needed(field: str) -> str:
    """What a rule needs that reads this field of the server, and what to do."""
    needed = {
        "params": "the model, which no process gives to this call: robustfl_bench.flower has it",
        "losses_of": "losses that clients report when asked, which no process does",
    }
    return f"{needed.get(field, 'samples of a server, which no process has')}; or take a rule of updates alone, {ALONE}"


ALONE = "as coomed, trmean, krum, mkrum, geomed, rfa or signguard are"
"""Some rules that read updates and nothing else."""


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


def robust_hook(reduce: RobustAllReduce) -> Callable[[Any, Any], torch.futures.Future[Tensor]]:
    """A hook for ``model.register_comm_hook(None, robust_hook(RobustAllReduce(rule)))``.

    DistributedDataParallel passes the gradients in buckets. The rule gets the gradient of all buckets together when the
    last is ready: a rule on distances would select other clients in each bucket, so that the result would depend on the
    size of buckets.
    """
    waiting: list[tuple[Tensor, torch.futures.Future[Tensor]]] = []

    def hook(_state: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
        future: torch.futures.Future[Tensor] = torch.futures.Future()
        waiting.append((bucket.buffer(), future))
        if bucket.is_last():
            buckets, flat = list(waiting), torch.cat([buffer for buffer, _ in waiting])
            waiting.clear()
            reduce(flat)
            for (buffer, done), part in zip(buckets, flat.split([len(buffer) for buffer, _ in buckets]), strict=True):
                buffer.copy_(part)
                done.set_result(buffer)
        return future

    return hook
