"""Robust rules in ``DistributedDataParallel``: a communication hook in place of the mean of the gradients."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from robustfl_bench.doors.distributed.all_reduce import RobustAllReduce


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
