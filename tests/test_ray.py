"""Sweeps through a real Ray on this machine: one of its workers is killed."""

import os
import re
import signal
from pathlib import Path

import pytest

from robustfl_bench.store.lease import Lease
from tests.conftest import Bench, contents
from tests.processes import start
from tests.sweeps import TWELVE, is_training, undisturbed, wait_for

pytestmark = pytest.mark.slow

RAY = ("checkpoint_seconds=0", "hydra/launcher=ray", "hydra.launcher.workers=2", "hydra.launcher.watch_seconds=0.3")


def test_a_killed_worker_leaves_the_same_bytes(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # it would be 15: other tests run as well
    command = start(tmp_path, *TWELVE, *RAY)
    wait_for(is_training(tmp_path), command)
    owners = [Lease(path).owner for path in tmp_path.glob("results/runs/*")]
    os.kill(next(int(re.findall(r"\d+", owner)[0]) for owner in owners if owner), signal.SIGKILL)
    out, err = command.communicate(60)
    assert command.poll() == 0, err
    assert out.count("result: ") == 12 and "sweep: 12 runs: 12 finished" in err
    assert contents(tmp_path / "results") == undisturbed(bench, *TWELVE)
    assert not list(tmp_path.glob("results/runs/*/.*"))  # no leases, no temporary files
