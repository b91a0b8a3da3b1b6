"""Local SGD with a rule in the outer step, as in DiLoCo (Douillard et al., arXiv 2311.08105): four processes train for
20 steps of their own between exchanges, and the last one lies.

    torchrun --nproc-per-node 4 scripts/examples/diloco.py
"""

import torch
import torch.distributed as dist
from robustfl_bench.distributed import RobustAllReduce
from shards import started
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from robustfl_bench import Aggregator, Average, CooMed

rank, x, y, accuracy = started()


def train(rule: Aggregator, liars: int) -> float:
    """The accuracy after 5 outer steps with Nesterov's momentum; the last processes send -10 times their move."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    reduce, start = RobustAllReduce(rule), parameters_to_vector(net.parameters()).detach()
    outer = torch.optim.SGD([start], lr=0.7, momentum=0.9, nesterov=True)
    for _ in range(5):
        inner = torch.optim.AdamW(net.parameters(), lr=0.003)
        for _ in range(20):
            inner.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            inner.step()
        moved = start - parameters_to_vector(net.parameters()).detach()
        start.grad = reduce(moved * (-10 if rank >= reduce.peers.size - liars else 1))
        outer.step()
        vector_to_parameters(start.clone(), net.parameters())
    return accuracy(net)


for name, rule, liars in (("mean", Average(), 0), ("mean", Average(), 1), ("median", CooMed(), 1)):
    reached = train(rule, liars)
    if rank == 0:
        print(f"{name}, {liars} of 4 processes lie: accuracy {reached:.2f}")
dist.destroy_process_group()
