"""The memory that a run can take: limits of control groups and of Slurm, and what other runs have announced."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from robustfl_bench.interfaces import ConfigError
from robustfl_bench.runner.experiment import machine as this_machine
from robustfl_bench.runner.experiment import memory
from robustfl_bench.runner.experiment.machine import MIB, Reservations, free_bytes
from tests import presets
from tests.conftest import Bench

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 8 GiB available and no groups; its ``proc`` and ``groups`` are in the folder."""
    for name in ("PROC", "GROUPS"):
        monkeypatch.setattr(this_machine, name, tmp_path / name.lower())
        (tmp_path / name.lower()).mkdir()
    for name in ("SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_CPUS_ON_NODE", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    write(tmp_path / "proc" / "meminfo", f"MemTotal: 1 kB\nMemAvailable: {8 * GIB // 1024} kB\n")
    return tmp_path


def write(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def group(folder: Path, limit: object, used: int, cache: int, version: int) -> None:
    """The files of a control group."""
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    for name, value in zip(names, (limit, used), strict=True):
        write(folder / name, value)
    prefix = "" if version == 2 else "total_"
    write(folder / "memory.stat", f"anon 7\n{prefix}inactive_file {cache // 2}\n{prefix}active_file {cache // 2}")


def test_without_limits_what_the_system_reports(machine: Path) -> None:
    assert free_bytes() == 8 * GIB
    (machine / "proc" / "meminfo").unlink()
    assert free_bytes() == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize("version", [1, 2])
def test_the_tightest_of_nested_groups(machine: Path, version: int) -> None:
    """Files that the system keeps in memory are no obstacle."""
    root = machine / "groups" if version == 2 else machine / "groups" / "memory"
    line = "0::/a/b" if version == 2 else "5:cpu:/x\n4:memory,hugetlb:/a/b\n0::/z"
    write(machine / "proc" / "self" / "cgroup", line)
    group(root / "a" / "b", "max" if version == 2 else 9223372036854771712, GIB, 0, version)
    group(root / "a", 3 * GIB, 2 * GIB, GIB // 2, version)
    assert free_bytes() == 3 * GIB // 2
    group(root / "a" / "b", GIB, GIB // 4, 0, version)
    assert free_bytes() == 3 * GIB // 4
    group(root / "a" / "b", GIB, 2 * GIB, 0, version)
    assert free_bytes() == 0


@pytest.mark.parametrize("version", [1, 2])
def test_in_a_container_the_group_is_the_root(machine: Path, version: int) -> None:
    root = machine / "groups" if version == 2 else machine / "groups" / "memory"
    write(machine / "proc" / "self" / "cgroup", "0::/docker/1f" if version == 2 else "4:memory:/docker/1f")
    group(root, 2 * GIB, GIB, 0, version)
    assert free_bytes() == GIB


@pytest.mark.parametrize(
    ("given", "limit"),
    [({"SLURM_MEM_PER_NODE": "4096"}, 4 * GIB), ({"SLURM_MEM_PER_CPU": "512", "SLURM_CPUS_ON_NODE": "6"}, 3 * GIB),
     ({"SLURM_MEM_PER_NODE": "0"}, 8 * GIB), ({"SLURM_MEM_PER_CPU": "512"}, 8 * GIB)],
)  # fmt: skip
def test_what_a_slurm_job_asked_for(
    machine: Path, given: dict[str, str], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less what its processes use; those of other jobs do not count."""
    for name, value in ({"SLURM_JOB_ID": "7"} | given).items():
        monkeypatch.setenv(name, value)
    for process, job in ((11, "7"), (12, "7"), (13, "77")):
        write(machine / "proc" / str(process) / "environ", f"A=1\0SLURM_JOB_ID={job}\0B=2")
        write(machine / "proc" / str(process) / "statm", "900000 1000 300 0 0 0 0")
    used = 0 if limit == 8 * GIB else 1400 * os.sysconf("SC_PAGE_SIZE")
    assert free_bytes() == limit - used


def test_what_others_announced_and_have_not_taken(tmp_path: Path) -> None:
    ours = Reservations(tmp_path)
    ours.announce(10 * MIB)
    assert ours.of_others() == 0
    script = (
        "import sys; from pathlib import Path; from robustfl_bench.runner.experiment.machine import *\n"
        f"r = Reservations(Path({str(tmp_path)!r})); r.announce(100 * MIB); print(r.of_others(), flush=True)\n"
        "input(); held = bytearray(b'x') * (60 * MIB); print('held', flush=True); input()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert other.stdin is not None and other.stdout is not None
    assert int(other.stdout.readline()) >= 0  # of ours, less what this process has grown by since
    assert 99 * MIB < ours.of_others() <= 100 * MIB  # it may have grown by a page meanwhile
    print(file=other.stdin)
    assert other.stdout.readline() == "held\n"
    assert 35 * MIB < ours.of_others() < 45 * MIB
    other.kill()
    other.wait()
    assert ours.of_others() == 0 and not (tmp_path / str(other.pid)).exists()
    (tmp_path / "123456789").write_text("half")
    assert ours.of_others() == 0
    ours.drop()
    assert not (tmp_path / str(os.getpid())).exists()


def test_the_announcement_of_a_run_ends_with_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Here(Reservations):
        def __init__(self) -> None:
            super().__init__(tmp_path)

    class Plan:
        """As much of a plan as there is to announce."""

    def announced() -> int:
        return int((tmp_path / str(os.getpid())).read_text().split()[1])

    monkeypatch.setattr(memory, "Reservations", Here)
    monkeypatch.setattr(memory, "_announced", {})
    first, second = Plan(), Plan()
    memory._wait_for_room(first, 2 * MIB)  # type: ignore[arg-type]
    memory._wait_for_room(second, 5 * MIB)  # type: ignore[arg-type]
    assert announced() == 7 * MIB
    del first
    assert announced() == 5 * MIB
    del second
    assert not (tmp_path / str(os.getpid())).exists()


def test_a_run_waits_for_the_room_that_others_announced(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It fits beside the second answer; a run that does not fit alone is refused at once."""
    left, announced = [60_000_000, 10_000_000], []

    class Others(Reservations):
        def __init__(self) -> None:
            super().__init__(tmp_path / "announced")

        def of_others(self) -> int:
            return left.pop(0)

        def announce(self, needed: int) -> None:
            announced.append(needed)

    monkeypatch.setattr(memory, "Reservations", Others)
    monkeypatch.setattr(memory, "POLL", 0.01)
    monkeypatch.setattr(memory, "free_bytes", lambda: 70_000_000)
    run = ("rounds=1", "num_clients=600", "partition=iid", "model.hidden=[200]")
    done = bench(*run)
    assert done.code == 0 and not left
    assert done.err.count("waiting for other runs on this machine to end: this one needs ") == 1
    assert "of 70 MB free they still need 60 MB" in done.err
    assert 4 * 600 * 15_000 < announced[0] < 60_000_000
    monkeypatch.setattr(memory, "free_bytes", lambda: 7_000_000)
    assert bench(*run, "seed=1").code == 2


def test_a_run_waits_for_other_runs_on_its_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused at once if it needs more than the whole GPU, or if there are no runs that will end."""
    planned, gpu = presets.planned("num_clients=12", "num_byzantine=3"), torch.device("cuda:1")
    needed = {"the samples of digits": 60 * MIB, "1 models of d=760 parameters": MIB}
    free: list[int] = []
    monkeypatch.setattr(memory, "folder_of_user", lambda name: tmp_path / name)
    monkeypatch.setattr(memory, "_gpu", lambda _: ("uuid", free.pop(0) if free else 20 * MIB, 80 * MIB))
    monkeypatch.setattr(memory, "POLL", 0.01)
    own = tmp_path / "memory-uuid" / str(os.getpid())
    with pytest.raises(ConfigError, match=r"digits take 62\.9 MB and 21 MB are free on cuda:1 \(n=12"):
        memory._wait_for_gpu(planned, gpu, needed)  # nothing else runs there
    assert capsys.readouterr().err == "" and not own.exists()
    with subprocess.Popen(["sleep", "60"]) as other:
        own.with_name(str(other.pid)).write_text(f"{this_machine._life(other.pid)} 5 0")
        free[:] = [20 * MIB] * 9 + [70 * MIB]
        memory._wait_for_gpu(planned, gpu, needed)
        assert not free and own.exists()
        assert (
            capsys.readouterr().err.count("waiting for other runs on cuda:1 to end: this one needs 64 MB, and 21 ") == 1
        )
        with pytest.raises(ConfigError, match="are free on cuda:1"):
            memory._wait_for_gpu(planned, gpu, needed | {"the updates": 40 * MIB})
        other.kill()
    del planned
    assert not own.exists()
