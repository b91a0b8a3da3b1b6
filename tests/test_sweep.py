"""Sweeps survive: workers that are killed, hosts without locks, full disks, cells that cannot be made."""

import ctypes
import gc
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from filelock import SoftFileLease

from robustfl_bench.parts.datasets.mnist import Mnist
from robustfl_bench.read.runs import records
from robustfl_bench.runner.store import folders, lease
from robustfl_bench.runner.store.folders import RunFolder
from robustfl_bench.runner.sweeps import progress
from robustfl_bench.runner.sweeps.cells import Sweep
from robustfl_bench.runner.sweeps.take import take
from robustfl_bench.train.federation import Federation
from tests.conftest import Bench, contents, run_cli, run_folders
from tests.processes import Command, start, wait_for

pytestmark = pytest.mark.slow

TINY = ("rounds=2", "num_clients=4", "partition=iid", "model.hidden=[4]")
LONG = (
    "num_clients=6", "num_byzantine=1", "partition=iid", "model.hidden=[8]", "batch_size=8", "attack=ipm",
    "aggregator=geomed,coomed", "checkpoint_seconds=0",
)  # fmt: skip
TWO_WORKERS = ("hydra/launcher=processes", "hydra.launcher.n_jobs=2")


def owners(folder: Path) -> dict[int, Path]:
    """The processes that hold the claims of a results folder, with the run folders that they write."""
    found = {}
    for path in folder.glob(f"runs/*/{lease.NAME}"):
        owner = SoftFileLease(path).owner
        if owner is not None:
            found[owner.pid] = path.parent
    return found


def temporaries(folder: Path) -> list[str]:
    """What a run folder must not hold once its run has ended."""
    return [path.name for path in folder.rglob("*") if path.name.startswith(".") or path.name == "checkpoint.pt"]


def rounds_of(folder: Path) -> int:
    """The rows that a run has so far."""
    path = folder / "metrics.csv"
    return max(path.read_bytes().count(b"\n") - 1, 0) if path.exists() else 0


# --- workers ----------------------------------------------------------------------------------------------------------


def test_killed_workers_cost_a_resume_each_and_change_no_byte(bench: Bench, tmp_path: Path) -> None:
    sweep = ("-m", *LONG, "rounds=40", "seed=0,1,2,3")
    assert bench(*sweep, "results_dir=whole").code == 0
    process, rng, killed = start(tmp_path, *sweep, "results_dir=cut", *TWO_WORKERS), random.Random(0), set[int]()
    seen: dict[int, int] = {}
    while process.poll() is None:
        time.sleep(0.02)
        for pid, folder in owners(tmp_path / "cut").items():
            trained = rounds_of(folder) - seen.setdefault(pid, rounds_of(folder))
            if len(killed) < 4 and pid not in killed and trained > rng.randrange(3, 15):  # it is training
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert len(killed) == 4 and err.count("was ended by signal 9; another takes its place") == 4
    assert "starts again" not in err and "sweep: 8 runs: 8 finished" in err
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    assert not temporaries(tmp_path / "cut")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_leave_checkpoints_and_end_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, "-m", *LONG, "rounds=100000", "checkpoint_seconds=1000", *TWO_WORKERS)
    wait_for(lambda: len(owners(tmp_path / "results")) == 2)
    workers = owners(tmp_path / "results")
    wait_for(lambda: all(rounds_of(folder) > 5 for folder in workers.values()))
    process.send_signal(number)
    process.communicate()
    wait_for(lambda: not owners(tmp_path / "results"))
    assert all((folder / "checkpoint.pt").exists() for folder in workers.values())
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


# --- several processes started with the same command ------------------------------------------------------------------


SHARED = ("-m", *LONG, "rounds=40", "aggregator=coomed")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Command]:
    """A sweep of one run, which has begun and is held in its fifth round."""
    process = start(tmp_path, *SHARED, first=stop_at_fifth_row)
    wait_for(lambda: any(rounds_of(folder) == 4 for folder in run_folders(tmp_path / "results").values()))
    yield process
    process.send_signal(signal.SIGKILL)
    process.communicate()


def stop_at_fifth_row() -> None:
    """This process stops, alive, when it is to write its fifth row."""
    append = RunFolder.append

    def stopped(folder: RunFolder, name: str, row: Any) -> None:
        if name == "metrics.csv" and row["round"] == 5:
            os.kill(os.getpid(), signal.SIGSTOP)
        append(folder, name, row)

    RunFolder.append = stopped  # type: ignore[method-assign]


def test_a_sweep_leaves_what_others_run_if_it_is_told_to(bench: Bench, running: Command) -> None:
    outcome = bench(*SHARED, "wait=false")
    assert outcome.code == 75
    assert "sweep: 1 run: 1 others" in outcome.err
    assert running.poll() is None


def test_a_sweep_takes_over_the_runs_of_a_process_that_died(bench: Bench, tmp_path: Path, running: Command) -> None:
    again = start(tmp_path, *SHARED)
    time.sleep(1)
    running.send_signal(signal.SIGKILL)
    _, err = again.communicate()
    assert again.returncode == 0, err
    assert bench(*SHARED, "results_dir=whole").code == 0
    assert contents(tmp_path / "results") == contents(tmp_path / "whole")


def other_host(name: str) -> None:
    """This process is on a host of that name, with short leases."""
    lease.EXPIRY = 2.0
    assert ctypes.CDLL(None, use_errno=True).unshare(0x04000000) == 0  # CLONE_NEWUTS
    socket.sethostname(name)


@contextmanager
def mounted(*command: str, at: Path) -> Iterator[None]:
    at.mkdir(parents=True)
    if subprocess.run([*command, str(at)], capture_output=True).returncode:
        pytest.skip(f"{command[0]} cannot mount here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("bindfs") is None, reason="needs root and bindfs")
def test_hosts_whose_locks_do_not_reach_each_other_make_every_round_once(bench: Bench, tmp_path: Path) -> None:
    """Host a dies; host b, which cannot see its processes, takes over when the lease expires."""
    sweep = ("-m", *LONG, "rounds=80", "seed=0,1", "aggregator=coomed")
    assert bench(*sweep, "results_dir=whole").code == 0
    shared = tmp_path / "shared"
    shared.mkdir()
    with mounted("bindfs", str(shared), at=tmp_path / "a"), mounted("bindfs", str(shared), at=tmp_path / "b"):

        def begin(name: str) -> Command:
            return start(tmp_path, *sweep, f"results_dir={tmp_path / name}", first=partial(other_host, name))

        first = begin("a")
        wait_for(lambda: owners(shared))
        (killed,) = owners(shared)
        os.kill(killed, signal.SIGSTOP)  # it holds its run until the other host has come
        second = begin("b")
        wait_for(lambda: set(owners(shared)) - {killed})
        os.kill(killed, signal.SIGKILL)
        first.communicate()
        _, err = second.communicate()
        assert second.returncode == 0, err
    assert contents(shared) == contents(tmp_path / "whole")
    assert not temporaries(shared)


def test_a_writer_that_lost_its_claim_writes_nothing_more(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, ["run"], "0123456789ab")
    folder.open()
    folder.append("metrics.csv", {"round": 1})
    before = (folder.path / "metrics.csv").read_bytes()
    path = folder.path / lease.NAME
    taken_over = re.sub("token=.*", "token=that_of_another", path.read_text())
    path.unlink()
    path.write_text(taken_over)
    for write in (
        lambda: folder.append("metrics.csv", {"round": 2}),
        lambda: folder.save_checkpoint({}, {}),
        lambda: folder.finish({"status": folders.FAILED}),
        lambda: folder.cut(0),
        folder.forget_rows,
    ):
        with pytest.raises(lease.LeaseLost, match="was taken over by process"):
            write()
    path.unlink()
    with pytest.raises(lease.LeaseLost, match="was removed or replaced while the run went on; nothing more is written"):
        folder.forget_rows()
    path.write_text(taken_over)
    folder.close()
    assert {path.name for path in folder.path.iterdir()} == {"metrics.csv", lease.NAME}, "the lease of the other stays"
    assert (folder.path / "metrics.csv").read_bytes() == before


def test_a_taker_that_is_terminated_keeps_its_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = Sweep((("rounds=1000000", *TINY[1:], f"results_dir={tmp_path}/cut", "checkpoint_seconds=1000"),))
    sweep.enter()
    threading.Timer(3, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(SystemExit):
        take(sweep)
    ((_, folder),) = run_folders(tmp_path / "cut").items()
    assert (folder / "checkpoint.pt").exists() and not (folder / lease.NAME).exists()


# --- what is stored ---------------------------------------------------------------------------------------------------


def test_processes_that_take_cells_need_no_hydra(tmp_path: Path) -> None:
    program = (
        "import sys; from robustfl_bench.runner.sweeps.cells import Sweep\n"
        "from robustfl_bench.runner.sweeps.take import take\n"
        f"sweep = Sweep((({', '.join(map(repr, TINY))}, 'aggregator=coomed'),), folder={str(tmp_path)!r})\n"
        "sweep.enter()\n"
        "print(*{end.status for end in take(sweep)}, 'hydra' in sys.modules, 'omegaconf' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "finished False False"
    assert len(run_folders(tmp_path / "results")) == 1


def test_stored_cells_are_answered_without_torch(bench: Bench, tmp_path: Path) -> None:
    sweep = ("-m", *TINY, "aggregator=average,krum", "num_byzantine_declared=0,2", "seed=0,1")
    first = bench(*sweep)
    assert first.code == 0 and "6 finished, 2 infeasible" in first.err
    again = bench(*sweep)
    assert again.code == 0  # average does not read what the server assumes: its cells are the same runs
    assert set(again.out.splitlines()) == {f"stored {line}" for line in first.out.splitlines()}
    program = (
        "import sys; from robustfl_bench.commands import bench; bench.main(); sys.exit(7 * ('torch' in sys.modules))"
    )
    command = [sys.executable, "-c", program, *sweep]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0


def test_a_changed_result_is_not_answered(bench: Bench, tmp_path: Path) -> None:
    sweep = ("-m", *TINY, "seed=0,1")
    assert bench(*sweep).code == 0
    folder = next(iter(run_folders(tmp_path / "results").values()))
    rows = (folder / "metrics.csv").read_text()
    (folder / "metrics.csv").write_text(rows.replace("0.", "1.", 1))
    outcome = bench(*sweep)
    assert outcome.code == 0 and outcome.err.count("stored result not used: metrics.csv") == 1
    assert outcome.out.count("stored result:") == 1 and (folder / "metrics.csv").read_text() == rows


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_cell_that_cannot_be_made_is_recorded_and_the_others_are_run(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "data" / "mnist"
    damaged.mkdir(parents=True)
    for file in Mnist.source.layouts[0].files:
        (damaged / file.name).touch()
    outcome = bench(
        *("-m", *TINY, "lr=-1,0.1", "dataset=digits,mnist"),
        *(f"data_dir={damaged.parent}", f"results_dir={tmp_path}/results"),
    )
    assert outcome.code == 1
    assert "sweep: 4 runs: 1 finished, 3 failed" in outcome.err
    assert "  2 failed: lr must be > 0, got -1.0" in outcome.err
    runs = records.load(tmp_path / "results")
    assert sorted(runs["state"]) == ["failed", "finished"], "what cannot be composed leaves nothing"
    assert runs["error"].str.contains("robustfl-data prepare mnist").sum() == 1


@pytest.mark.parametrize("launcher", ["in_process", pytest.param("processes", marks=pytest.mark.slow)])
def test_cells_that_are_refused_are_said_and_leave_a_failure_with_a_config_or_nothing(
    bench: Bench, tmp_path: Path, launcher: str
) -> None:
    """A cell that cannot be composed is no run; one whose rule cannot be built is."""
    words = (
        "-m",
        *TINY,
        "num_byzantine_declared=0",
        "lr=-1,0.1",
        "aggregator=krum",
        "aggregator.num_selected=0,1",
        f"hydra/launcher={launcher}",
    )
    for _ in range(2):
        outcome = bench(*words)
        assert outcome.code == 2 and "sweep: 4 runs: 1 finished, 3 failed" in outcome.err
        assert "  2 failed: lr must be > 0, got -1.0" in outcome.err
        runs = records.load(tmp_path / "results")
        assert sorted(runs["state"]) == ["failed", "finished"]
        assert runs["error"].str.contains("num_selected must be >= 1, got 0").sum() == 1


@pytest.mark.parametrize("words", [(), ("aggregator=krum", "num_clients=3", "num_byzantine_declared=1")], ids=len)
def test_a_link_in_a_run_folder_leaves_the_other_runs_alone(
    bench: Bench, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """A run, and one that is infeasible."""
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    first = bench("-m", *TINY, *words, "seed=0")
    (folder,) = run_folders(tmp_path / "results").values()
    (folder / "summary.json").unlink()
    (folder / "error.txt").unlink(missing_ok=True)
    (folder / "error.txt").symlink_to(mine)
    outcome = bench("-m", *TINY, *words, "seed=0,1,2")
    assert len(run_folders(tmp_path / "results")) == 3, outcome.err
    if words:
        assert outcome.code == first.code and "sweep: 3 runs: 3 infeasible" in outcome.err
    else:
        assert outcome.code == 1 and "sweep: 3 runs: 2 finished, 1 failed" in outcome.err
        assert "error.txt is a link or no regular file; remove it" in outcome.err
    assert mine.read_text() == "precious"


@pytest.mark.parametrize("launcher", ["in_process", "processes"])
def test_missing_data_are_one_line_before_anything_is_written(bench: Bench, tmp_path: Path, launcher: str) -> None:
    overrides = ("dataset=digits,mnist,cifar10", "seed=0,1", "data_dir=nowhere", f"results_dir={tmp_path}/results")
    outcome = bench("-m", *TINY, *overrides, f"hydra/launcher={launcher}")
    assert outcome.code == 3 and outcome.err.count("\n") == 1, outcome
    for name in ("mnist", "cifar10"):
        assert outcome.err.count(f"no {name} in ") == outcome.err.count(f"robustfl-data prepare {name} ") == 1
    assert not (tmp_path / "results").exists()
    assert bench("-m", *TINY, "seed=0,1", f"results_dir={tmp_path}/results", "data_dir=nowhere").code == 0  # needs none
    single = bench(*TINY, "dataset=mnist", *overrides[2:])
    assert single.code == 3 and single.err.count("\n") == 1 and len(run_folders(tmp_path / "results")) == 2


@pytest.mark.parametrize("launcher", [("hydra/launcher=in_process",), TWO_WORKERS], ids=["in_process", "processes"])
def test_an_error_that_ends_a_sweep_is_one_line(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    """Rates for a rule of one's own are chosen by runs that come first."""
    (tmp_path / "mine.py").write_text(
        "from robustfl_bench.parts.aggregators.coomed import CooMed\n\n\nclass Mine(CooMed):\n    'A median.'\n"
    )
    sweep = ("-m", "+experiment=arena/digits", "aggregator=mine:Mine", "attack=none", "partition=iid", "seed=0,1")
    command = start(tmp_path, *sweep, *launcher)
    _, errors = command.communicate()
    assert command.returncode == 2 and "first: robustfl-bench -m +experiment=arena/digits_rates" in errors, errors
    assert errors.count("\n") == 1 and errors.startswith("error: "), errors


def test_failures_for_the_same_reason_are_one_line(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from robustfl_bench.parts.aggregators.coomed import CooMed

    def broken(*_: object) -> None:
        raise MemoryError("too much")

    monkeypatch.setattr(CooMed, "aggregate", broken)
    sweep = bench("-m", *TINY, "aggregator=coomed", "attack=none,ipm", "seed=0,1,2")
    assert sweep.code == 1 and sweep.err.count("MemoryError: too much") == 2, "the first failure, and the end"
    assert "  6 failed: MemoryError: too much" in sweep.err
    for verb, first in (("status", "-s0-"), ("table", "seed 0"), ("table --format markdown", "seed 0")):
        code, out, _ = run_cli(capfd, *verb.split())
        [line] = [line for line in out.splitlines() if "MemoryError" in line]
        assert code == 0 and first in line and " and 5 more" in line and "too much" in line
    assert run_cli(capfd, "status", "--all")[1].count("MemoryError") == 6
    page = run_cli(capfd, "report", "--output", "page.html")
    assert page[0] == 0 and "Missing or not finished: 1<" in Path("page.html").read_text()


def test_what_failed_is_run_again_or_left(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from robustfl_bench.parts.aggregators.coomed import CooMed

    calls: list[int] = []

    def broken(*_: object) -> None:
        calls.append(1)
        raise MemoryError("too much")

    sweep = ("-m", *TINY, "aggregator=coomed,average")
    with monkeypatch.context() as patch:
        patch.setattr(CooMed, "aggregate", broken)
        assert bench(*sweep).code == 1 and len(calls) == 1
        left = bench(*sweep, "retry_failed=false")
        assert left.code == 1 and len(calls) == 1 and "  1 failed: MemoryError: too much" in left.err
        assert bench(*sweep).code == 1 and len(calls) == 2
    assert bench(*sweep).code == 0


def test_a_run_that_kills_its_processes_is_given_up(bench: Bench, tmp_path: Path) -> None:
    sweep = ("-m", *TINY, "seed=0")
    for number in range(5):
        process = start(tmp_path, *sweep, first=die_at_first_row)
        _, err = process.communicate()
        assert process.returncode == -signal.SIGKILL, (number, err)
    outcome = bench(*sweep)
    assert outcome.code == 1 and "5 processes in a row were killed in this run at the same point" in outcome.err
    assert bench(*sweep).code == 0, "it is tried again when it is asked for again"


def die_at_first_row() -> None:
    """This process is killed when it writes its first row, as by the out-of-memory killer."""
    RunFolder.append = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk_stops_the_sweep_and_space_lets_it_go_on(bench: Bench, tmp_path: Path) -> None:
    sweep = ("-m", *LONG, "rounds=3", "seed=0,1,2,3")
    assert bench(*sweep, "results_dir=whole").code == 0
    disk = tmp_path / "disk"
    with mounted("mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", at=disk):
        outcome = bench(*sweep, f"results_dir={disk}")
        assert outcome.code == 1 and "No space left on device; free space for it" in outcome.err
        assert outcome.err.count("cannot write") == 1 and str(disk) in outcome.err
        assert not [name for name in temporaries(disk) if name != "checkpoint.pt"]
        subprocess.run(["mount", "-o", "remount,size=30m", str(disk)], check=True)
        assert bench(*sweep, f"results_dir={disk}").code == 0
        assert contents(disk) == contents(tmp_path / "whole")
        assert not temporaries(disk)


# --- progress ---------------------------------------------------------------------------------------------------------


def test_the_progress_of_a_sweep_is_told_by_its_folders(bench: Bench, tmp_path: Path) -> None:
    assert bench("-m", *TINY, "seed=0,1,2", "rounds=4").code == 0
    folders = list(run_folders(tmp_path / "results").values())
    for folder in folders[:2]:
        (folder / "timings.csv").write_text("round,seconds\n1,10\n2,10\n3,10\n4,10\n")
    (folders[1] / "summary.json").unlink()
    (folders[1] / "timings.csv").write_text("round,seconds\n1,10\n")
    (folders[2] / "summary.json").unlink()
    (folders[2] / "timings.csv").unlink()
    sweep = Sweep(tuple((*TINY[1:], f"seed={seed}", "rounds=4") for seed in range(3)))
    with SoftFileLease(folders[1] / lease.NAME, lease_duration=lease.EXPIRY):
        assert progress.line(progress.look(sweep, {})) == ("sweep: 3 runs: 1 finished, 1 running, 1 waiting; 70 s left")


def test_a_log_file_gets_lines_in_the_meantime(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sweep = Sweep((("seed=0", f"results_dir={tmp_path}"),))
    with progress.shown(sweep, every=0.01):
        time.sleep(0.3)
    lines = set(capfd.readouterr().err.splitlines())
    assert lines == {"sweep: 1 run: 1 waiting"}


def test_what_runs_held_is_freed_before_the_next(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a sweep over large data takes more and more memory."""
    monkeypatch.setattr("robustfl_bench.runner.sweeps.take.EVERY", -1)
    held = weakref.WeakSet[Federation]()
    made, alive = Federation.__init__, []

    def count(federation: Federation, *given: Any) -> None:
        alive.append(len(held))
        made(federation, *given)
        held.add(federation)

    monkeypatch.setattr(Federation, "__init__", count)
    gc.disable()  # so rarely does it come by itself
    try:
        assert bench("-m", "seed=0,1,2,3", "rounds=1", "num_clients=10", "model.hidden=[4]").code == 0
    finally:
        gc.enable()
    assert alive == [0, 0, 0, 0]
