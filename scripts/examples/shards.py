"""What the examples of training over processes share: scikit-learn's digits, one shard for each process."""

from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist

from robustfl_bench import Digits


def started() -> tuple[int, torch.Tensor, torch.Tensor, Callable[[torch.nn.Module], float]]:
    """The rank of this process, started by torchrun; its shard, and the accuracy of a network on all test digits."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # all processes begin with the same network
    data = Digits().load(Path())

    def accuracy(net: torch.nn.Module) -> float:
        return float((net(data.test_x.flatten(1)).argmax(1) == data.test_y).float().mean())

    return rank, data.train_x.flatten(1)[rank::size], data.train_y[rank::size], accuracy
