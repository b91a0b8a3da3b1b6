"""Robust all-reduce over real processes, its faults, and its hook of DistributedDataParallel."""

import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from robustfl_bench import Aggregator, Arfl, Flame, FLTrust
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.doors.distributed import RobustAllReduce
from robustfl_bench.runner.processes.peers import fault
from tests.processes import start

PREPARED = """
import os, sys, time
import torch, torch.distributed as dist
from robustfl_bench import CooMed, FLTrust, Krum, Lasa, NormBound, TrMean
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.doors.distributed import RobustAllReduce, robust_hook
from robustfl_bench.runner.processes.peers import PeerLost
rank, size, where = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{where}", rank=rank, world_size=size)
"""

ROUNDS = """
def all_updates(round):
    return torch.randn(size, 1003, generator=torch.Generator().manual_seed(round))

for rule in (CooMed(), Krum(1), TrMean(1), NormBound(None), Lasa()):
    reduce = RobustAllReduce(rule, timeout=60)
    for round in range(2):
        rows = all_updates(round)
        mine = rows[rank].clone()
        if round == 1:
            rows[2] = 0
            if rank == 2:
                mine[7] = float("nan")  # whose columns one process alone receives
        got = reduce(mine)
        assert (got - rule(rows)).abs().max() < 1e-6, (rule, round)
    assert reduce.non_finite == [0, 0, 1, 0, 0], reduce.non_finite
    assert reduce.sent <= 1.01 * 2 * (2 * 4 * 1003 * (size - 1) / size), reduce.sent  # two rounds of a plain all-reduce

net = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.Tanh(), torch.nn.Linear(300, 3))
def start(net):
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(torch.randn(p.shape, generator=torch.Generator().manual_seed(i)) * 0.1)
start(net)
def gradient(net, rank):
    x = torch.randn(8, 20, generator=torch.Generator().manual_seed(100 + rank))
    net.zero_grad()
    net(x).square().sum().backward()
    return torch.cat([p.grad.flatten() for p in net.parameters()])
alone = torch.stack([gradient(net, r) for r in range(size)])
wrapped = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.005)  # several buckets
wrapped.register_comm_hook(None, robust_hook(RobustAllReduce(Krum(1))))
for _ in range(2):
    assert torch.allclose(gradient(wrapped, rank), Krum(1)(alone), atol=1e-6)

try:
    RobustAllReduce(CooMed())(torch.zeros(10 + (rank == 3)))
except ConfigError as error:
    print(error)
try:
    RobustAllReduce(CooMed() if rank else Krum(1))(torch.zeros(10))
except ConfigError as error:
    print(error)
try:
    RobustAllReduce(FLTrust())(torch.ones(10))
except ConfigError as error:
    print(error)
os.environ["ROBUSTFL_TOKEN"] = "secret" if rank < 3 else "guessed"
try:
    RobustAllReduce(CooMed())
except ConfigError as error:
    print(error)
del os.environ["ROBUSTFL_TOKEN"]
"""

HUNG = """
reduce = RobustAllReduce(CooMed(), dist.new_group(), timeout=4)
reduce(torch.ones(100))
if rank == 2:
    time.sleep(6)
else:
    try:
        reduce(torch.ones(100))
    except PeerLost as error:
        print(error)
"""

LOST = """
reduce = RobustAllReduce(CooMed(), timeout=5)
reduce(torch.ones(100))
if rank == 2:
    os._exit(9)
try:
    for _ in range(100):
        reduce(torch.ones(100))
except PeerLost as error:
    print(error)
os._exit(0)  # a group that has failed cannot be left in order
"""


def test_an_exchange_that_fails_before_its_time_names_no_silence() -> None:
    now = time.monotonic()
    assert fault(now, timedelta(seconds=600)) == "has gone"  # whatever the system calls it, as "Connection timed out"
    assert fault(now - 601, timedelta(seconds=600)) == "is silent for 600 s"


@pytest.mark.parametrize(
    ("rule", "needed"),
    [
        (
            Flame(),
            "Flame needs the model, which no process gives to this call: robustfl_bench.flower has it; or take",
        ),
        (Arfl(), "Arfl needs losses that clients report when asked, which no process does; or take a rule"),
        (
            FLTrust(),
            "FLTrust needs samples of a server, which no process has; or take a rule of updates alone",
        ),
    ],
)
def test_a_rule_of_more_than_updates_is_refused_with_what_to_do(rule: Aggregator, needed: str, tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        with pytest.raises(ConfigError, match=f"^{needed}"):
            RobustAllReduce(rule)(torch.ones(10))
    finally:
        dist.destroy_process_group()


def run(script: str, folder: Path, size: int = 5) -> list[tuple[int | None, str, str]]:
    program = folder / "member.py"
    program.write_text(PREPARED + script)
    processes = [start(folder, str(rank), str(size), str(folder / "meeting"), module=program) for rank in range(size)]
    ended = [(*process.communicate(timeout=120), process) for process in processes]
    return [(process.returncode, out, err) for out, err, process in ended]


@pytest.mark.skipif(sys.platform != "linux", reason="names the loopback interface as Linux does")
def test_processes_get_the_aggregate_of_all_updates_and_faults_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    ended = run(ROUNDS + HUNG + LOST, tmp_path)
    assert ended[2][0] == 9, ended[2]
    for rank in (0, 1, 3, 4):
        code, out, err = ended[rank]
        assert code == 0, err
        length, rule, needed, secret, hung, lost = out.splitlines()
        assert length.startswith("the processes disagree on the length of an update: rank 0 has 10, rank 3 has 11;")
        assert rule.startswith("the processes disagree on the rule and its seed: rank 0 has ")
        assert needed.startswith(
            "FLTrust needs samples of a server, which no process has; or take a rule of updates alone"
        )
        assert secret.startswith(f"rank {3 if rank < 3 else 0} does not know the secret of the group: set the same")
        assert hung == f"rank 2 of the group is silent for 4 s; rank {rank} stops"
        assert lost == f"rank 2 of the group has gone; rank {rank} stops"
