"""DistributedDataParallel with a rule in its communication hook: four processes, and the last one lies.

    torchrun --nproc-per-node 4 scripts/examples/ddp.py

The rule gets the gradients of all buckets together: Krum and the geometric median compare whole gradients.
"""

import torch
import torch.distributed as dist
from robustfl_bench.distributed import RobustAllReduce, robust_hook
from shards import started
from torch.nn.parallel import DistributedDataParallel

from robustfl_bench import Aggregator, GeoMed

rank, x, y, accuracy = started()


def train(rule: Aggregator | None, liars: int) -> float:
    """The accuracy after 20 steps, without a rule on the mean; the loss of the last processes is -10 times theirs."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 200), torch.nn.ReLU(), torch.nn.Linear(200, 10))
    wrapped = DistributedDataParallel(net, bucket_cap_mb=0.02)  # several buckets
    if rule is not None:
        wrapped.register_comm_hook(None, robust_hook(RobustAllReduce(rule)))
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.5, momentum=0.5)
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(wrapped(x), y)
        (loss * (-10 if rank >= dist.get_world_size() - liars else 1)).backward()
        optimizer.step()
    return accuracy(net)


for name, rule, liars in (("mean", None, 0), ("mean", None, 1), ("geometric median", GeoMed(), 1)):
    reached = train(rule, liars)
    if rank == 0:
        print(f"{name}, {liars} of 4 processes lie: accuracy {reached:.2f}")
dist.destroy_process_group()
