"""Sweeps through a real Ray on this machine: one of its workers is killed."""

import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from robustfl_bench.runner.store.lease import Lease
from robustfl_bench.runner.sweeps.clusters import CLUSTERS, Tasks
from tests.conftest import Bench, contents
from tests.processes import start, wait_for
from tests.sweeps import TWELVE, is_training, undisturbed

pytestmark = pytest.mark.slow

RAY = ("checkpoint_seconds=0", "hydra/launcher=ray", "hydra.launcher.workers=2", "hydra.launcher.watch_seconds=0.3")


def test_a_killed_worker_leaves_the_same_bytes(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # it would be 15: other tests run as well
    command = start(tmp_path, *TWELVE, *RAY)
    wait_for(is_training(tmp_path), command)
    owners = [Lease(path).owner for path in tmp_path.glob("results/runs/*")]
    os.kill(next(int(re.findall(r"\d+", owner)[0]) for owner in owners if owner), signal.SIGKILL)
    out, err = command.communicate(120)
    assert command.poll() == 0, err
    assert out.count("result: ") == 12 and "sweep: 12 runs: 12 finished" in err
    assert contents(tmp_path / "results") == undisturbed(bench, *TWELVE)
    assert not list(tmp_path.glob("results/runs/*/.*"))  # no leases, no temporary files


def test_a_lost_head_ends_the_sweep_with_its_sum_and_leaves_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    command = start(tmp_path, *TWELVE, *RAY, "rounds=1000000", "checkpoint_seconds=60")
    wait_for(is_training(tmp_path), command)
    owners = [Lease(path).owner for path in tmp_path.glob("results/runs/*")]
    workers = [int(re.findall(r"\d+", owner)[0]) for owner in owners if owner]
    os.kill(head_of(command.pid), signal.SIGKILL)
    _, err = command.communicate(120)
    assert command.poll() == 1 and "the head of the Ray cluster at 127.0.0.1:" in err, err
    assert "sweep: 12 runs: 12 missing" in err
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def head_of(pid: int | None) -> int:
    """The process of the head that a process has started."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and "gcs_server" in (path / "cmdline").read_text().split("\0")[0]:
                return int(path.name)
    raise AssertionError("no gcs_server")


def test_a_cluster_of_our_own_listens_on_this_host_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    monkeypatch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)  # as where ray was not imported yet
    monkeypatch.delenv(CLUSTERS, raising=False)
    with Tasks(None, 1, 1, 1, 0.1).cluster() as started:
        assert os.environ[CLUSTERS] == "0" and started is ray
        assert ray.util.get_node_ip_address() == "127.0.0.1"


@pytest.mark.parametrize(("address", "set_to"), [(None, "0"), ("10.0.0.1:6379", None)])
def test_ray_is_told_so_before_it_is_imported(
    monkeypatch: pytest.MonkeyPatch, address: str | None, set_to: str | None
) -> None:
    asked: list[str | None] = []
    fake = SimpleNamespace(init=lambda *_, **__: asked.append(os.environ.get(CLUSTERS)), shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setenv(CLUSTERS, "")  # restored after the test
    monkeypatch.delenv(CLUSTERS)
    with Tasks(address, 1, 1, 1, 0.1).cluster():
        assert asked == [set_to]
