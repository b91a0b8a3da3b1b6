"""A rule in place of all_reduce: four processes train one model, and the last one lies.

torchrun --nproc-per-node 4 scripts/examples/all_reduce.py
"""

import torch
import torch.distributed as dist
from robustfl_bench.distributed import RobustAllReduce
from shards import started
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from robustfl_bench import Aggregator, Average, TrMean

rank, x, y, accuracy = started()


def train(rule: Aggregator, liars: int) -> float:
    """The accuracy after 20 steps on the aggregate of gradients; the last processes send -10 times theirs."""
    net, reduce = torch.nn.Linear(64, 10), RobustAllReduce(rule)
    torch.nn.init.zeros_(net.weight)
    params = parameters_to_vector(net.parameters()).detach()
    for _ in range(20):
        gradient = torch.autograd.grad(torch.nn.functional.cross_entropy(net(x), y), list(net.parameters()))
        flat = parameters_to_vector(gradient) * (-10 if rank >= reduce.peers.size - liars else 1)
        params -= reduce(flat)  # in place of dist.all_reduce(flat); flat /= 4
        vector_to_parameters(params, net.parameters())
    return accuracy(net)


for name, rule, liars in (("mean", Average(), 0), ("mean", Average(), 1), ("trimmed mean", TrMean(1), 1)):
    reached = train(rule, liars)
    if rank == 0:
        print(f"{name}, {liars} of 4 processes lie: accuracy {reached:.2f}")
dist.destroy_process_group()
