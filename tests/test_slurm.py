"""Sweeps through a real Slurm of one node: jobs that are killed, queued again and left alone by their command."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Bench, contents
from tests.processes import start, wait_for
from tests.sweeps import CELLS, TWELVE, is_training, undisturbed

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
SLURM = ("checkpoint_seconds=0", "hydra/launcher=slurm", "hydra.launcher.watch_seconds=0.3", "hydra.launcher.jobs=2")


@pytest.fixture(scope="module", autouse=True)
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Slurm of one node, which all commands of this module find in ``SLURM_CONF``."""
    pytest.importorskip("submitit", reason="submitit is not installed")
    if os.geteuid() or not shutil.which("slurmctld") or not shutil.which("munged"):
        pytest.skip("a Slurm of one node needs root, slurm-wlm and munge")
    script = ROOT / "scripts" / "checks" / "slurm_single_node.sh"
    folder = tmp_path_factory.mktemp("slurm") / "node"
    printed = subprocess.run([script, "up", folder], check=True, stdout=subprocess.PIPE, text=True).stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", printed.strip().partition("=")[2])
        yield
        subprocess.run([script, "down"], check=True)
    assert not folder.exists()


def _ask(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def _kill(job: str) -> None:
    """SIGKILL to what a job has started, as by the kernel when memory runs out."""
    (number,) = _ask("squeue", "--noheader", f"--job={job}", "--format=%A")
    listed = subprocess.check_output(["scontrol", "listpids", f"{number}.0"], text=True).splitlines()[1:]
    for pid in {int(line.split()[0]) for line in listed}:
        os.kill(pid, signal.SIGKILL)


def test_a_killed_and_a_requeued_job_and_a_killed_command_leave_the_same_bytes(bench: Bench, tmp_path: Path) -> None:
    command = start(tmp_path, *TWELVE, *SLURM)
    wait_for(is_training(tmp_path), command)
    killed, requeued = _ask("squeue", "--noheader", "--format=%i")
    command.send_signal(signal.SIGKILL)
    _ask("scancel", "--signal=USR2", requeued)  # as Slurm does when the time of a job is nearly out
    _kill(killed)
    again = start(tmp_path, *TWELVE, *SLURM)
    wait_for(lambda: "PENDING" in _ask("squeue", "--noheader", "--format=%T"), again)
    _ask("scontrol", "update", f"JobId={requeued}", "StartTime=now")  # else Slurm waits two minutes
    out, err = again.communicate(120)
    assert again.poll() == 0, err
    assert out.count("result: ") == 12 and "sweep: 12 runs: 12 finished" in err
    assert contents(tmp_path / "results") == undisturbed(bench, *TWELVE)
    logs = [path.read_text() for path in tmp_path.glob("results/slurm/*/*.out")]
    # Slurm may kill the job as soon as it has asked to be queued again, so before it writes that it has.
    assert sum(log.count("Calling checkpoint method") for log in logs) == 1
    assert not list(tmp_path.glob("results/runs/*/.*"))  # no leases, no temporary files


def test_jobs_that_are_gone_are_missed_and_submitted_again_but_not_for_what_is_stored(
    bench: Bench, tmp_path: Path
) -> None:
    sweep = (*CELLS, "aggregator=average", "attack=none", "seed=0,1", "rounds=150")
    command = start(tmp_path, *sweep, *SLURM, "hydra.launcher.jobs=1", "hydra.launcher.gpus_per_node=1")
    wait_for(lambda: list(tmp_path.glob("results/runs/*/checkpoint.pt")), command)
    _ask("scancel", *_ask("squeue", "--noheader", "--format=%A"))
    _, err = command.communicate(120)
    assert command.poll() == 1 and "no job of this sweep is left" in err and re.search("sweep: 2 runs: .*missing", err)
    logs = "".join(path.read_text() for path in tmp_path.glob("results/slurm/*/*.err"))
    assert "CUDA_VISIBLE_DEVICES=0 names a GPU, but PyTorch finds none" in logs
    assert bench(*sweep, *SLURM).code == 0
    assert contents(tmp_path / "results") == undisturbed(bench, *sweep)
    stored = bench(*sweep, *SLURM)
    assert stored.code == 0 and stored.out.count("stored result") == 2 and "slurm:" not in stored.err


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("hydra.launcher.jobs=0", "jobs must be a whole number >= 1"),
        ("hydra.launcher.partition=none", "invalid partition"),
    ],
)
def test_what_cannot_be_submitted_is_one_line(bench: Bench, option: str, told: str) -> None:
    found = bench(*CELLS, "seed=0,1", *SLURM, option)
    assert found.code == 2 and told in found.err.splitlines()[-1]
