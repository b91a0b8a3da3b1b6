"""The ring on two hosts: two network namespaces, joined by a cable, with a folder each."""

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from robustfl_bench.runner.processes.peers import INTERFACE
from tests.conftest import Bench, contents
from tests.processes import Command, lines_of_metrics, start, wait_for

RUN = ("partition=iid", "model.hidden=[16]", "batch_size=16", "attack=none", "protocol=ring", "device=cpu",
       "num_clients=2", "aggregator=brace", "aggregator.threshold=1", "lr=0.01")  # fmt: skip
ADDRESSES = ("10.77.0.1", "10.77.0.2")


def _ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True, capture_output=True)


@pytest.fixture
def hosts() -> Iterator[list[str]]:
    """Two hosts, by the names of their namespaces; the network interface of each has the name of its host."""
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("network namespaces need root and iproute2")
    names = [f"ring{os.getpid()}{side}" for side in "ab"]
    try:
        for name in names:
            _ip(f"netns add {name}")
        _ip(f"link add {names[0]} netns {names[0]} type veth peer name {names[1]} netns {names[1]}")
        for name, address in zip(names, ADDRESSES, strict=True):
            _ip(f"-n {name} link set lo up")
            _ip(f"-n {name} address add {address}/24 dev {name}")
            _ip(f"-n {name} link set {name} up")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
    else:
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _move_to(host: str, rank: int) -> None:
    """This process is on the host from now on, as a client that ``torchrun`` has started."""
    with open(f"/run/netns/{host}") as namespace:
        assert ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) == 0
    place = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": 29500}
    os.environ |= {key: str(value) for key, value in place.items()} | {INTERFACE: host}


@pytest.fixture
def ring(hosts: list[str], tmp_path: Path) -> Callable[..., list[Command]]:
    """Start a client on each host, in the folder of its host."""

    def begin(*overrides: str, module: str = "robustfl_bench.commands.ring") -> list[Command]:
        clients = []
        for rank, host in enumerate(hosts):
            folder = tmp_path / f"host_{rank}"
            folder.mkdir(exist_ok=True)
            first = partial(_move_to, host, rank)
            clients.append(start(folder, *RUN, *overrides, module=module, first=first))
        return clients

    return begin


def test_a_ring_across_hosts_survives_one_of_them(
    ring: Callable[..., list[Command]], bench: Bench, tmp_path: Path
) -> None:
    first, second = ring("rounds=60")
    wait_for(lambda: lines_of_metrics(tmp_path / "host_0" / "results") > 5, first)
    second.send_signal(signal.SIGKILL)
    _, told = first.communicate(120)
    assert first.poll() == 1 and "client 1 has gone; the same command goes on" in told
    times = next(tmp_path.glob("host_0/results/runs/*/timings.csv"))
    before = times.read_text().splitlines()[:4]
    for client in ring("rounds=60"):
        assert "error" not in client.communicate(120)[1] and client.poll() == 0
    assert bench(*RUN, "rounds=60", "results_dir=simulated").code == 0
    assert contents(tmp_path / "host_0/results") == contents(tmp_path / "simulated")
    assert times.read_text().splitlines()[:4] == before  # it went on, and did not begin again
    assert not list(tmp_path.glob("host_1/results/runs/*"))  # checkpoints go when they are not needed any more


def test_a_run_whose_processes_are_on_two_hosts(
    ring: Callable[..., list[Command]], bench: Bench, tmp_path: Path
) -> None:
    asked = ("protocol=synchronous", "rounds=2")
    for process in ring(*asked, "processes=2", module="robustfl_bench.commands.bench"):
        assert "error" not in process.communicate(120)[1] and process.poll() == 0
    assert bench(*RUN, *asked, "results_dir=alone").code == 0
    assert contents(tmp_path / "host_0/results", "metrics.csv") == contents(tmp_path / "alone", "metrics.csv")
