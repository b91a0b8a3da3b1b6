"""Processes that a command starts end with it, however it ends, and leave nothing in the folder for temporary files."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")]

MARK = "CHILDREN_OF_THIS_TEST"
RUN = ("partition=iid", "num_clients=8", "rounds=100000", "eval_every=1000", "use_kept=false")
COMMANDS = {
    "processes": ("bench", *RUN, "processes=2"),
    "ring": ("ring", *RUN[:1], "num_clients=2", "attack=none", "aggregator=rar", "rounds=100000", "eval_every=1000"),
    "sweep": ("bench", "-m", *RUN, "eval_every=10", "seed=0,1", "hydra/launcher=processes", "hydra.launcher.n_jobs=2"),
}
BEGUN = {"processes": "process 1 of 2: ", "ring": "client 0: process "}


class Real:
    """A command as a user starts it, with a folder of its own for temporary files."""

    def __init__(self, folder: Path, temporary: Path, name: str, *more: str) -> None:
        self.temporary, self.mark = temporary, f"{folder}/{name}"
        module, *words = COMMANDS[name]
        command = [sys.executable, "-m", f"robustfl_bench.commands.{module}", *words, *more]
        environment = {**os.environ, MARK: self.mark, "TMPDIR": str(self.temporary)}
        self.err = folder / "err"
        with open(self.err, "w") as err:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=err, stderr=err, start_new_session=True
            )

    def wait_for(self, line: str) -> None:
        """Until the command has said so."""
        self.wait_until(lambda: line in self.err.read_text())

    def wait_until(self, condition: Callable[[], bool], seconds: float = 120) -> None:
        """Until the condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline and self.process.poll() is None, self.err.read_text()
            time.sleep(0.02)

    def alive(self) -> list[int]:
        """The processes of the command that have not ended, servers and trackers of ``multiprocessing`` included."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.mark}\0".encode() in (path / "environ").read_bytes():
                    state = (path / "stat").read_text().rpartition(")")[2].split()[0]
                    found += [int(path.name)] if state != "Z" else []
            except OSError:
                continue
        return found

    def gone(self, seconds: float) -> None:
        """All its processes end within these seconds."""
        deadline = time.monotonic() + seconds
        while left := self.alive():
            assert time.monotonic() < deadline, f"{left} still live"
            time.sleep(0.05)

    def leftovers(self) -> list[str]:
        """What is left of its temporary folders."""
        return [path.name for path in self.temporary.iterdir() if path.name.startswith(("robustfl-run-", "pymp-"))]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Real]]:
    """Starts a command; what a failed test leaves ends here."""
    commands: list[Real] = []
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:  # the names of sockets in it must be short

        def start(*words: str) -> Real:
            commands.append(Real(tmp_path, Path(temporary), *words))
            return commands[-1]

        yield start
        for command in commands:
            for pid in command.alive():
                os.kill(pid, signal.SIGKILL)
            command.process.wait()


@pytest.mark.parametrize(
    ("name", "number", "send", "after"),
    [
        ("processes", signal.SIGTERM, os.kill, 0.0),
        ("processes", signal.SIGINT, os.killpg, 0.3),
        ("processes", signal.SIGTERM, os.killpg, 1.8),
        ("ring", signal.SIGINT, os.kill, 0.0),
        ("ring", signal.SIGTERM, os.killpg, 0.3),
        ("ring", signal.SIGINT, os.kill, 1.8),
    ],
)  # all pairs of a command with a signal, a way to send it and a moment
def test_a_signal_just_after_the_first_child_ends_all(
    run: Callable[..., Real], name: str, number: signal.Signals, send: Callable[..., None], after: float
) -> None:
    """To the command alone, and to all its processes, as Ctrl-C on a terminal and a scheduler send it."""
    command = run(name)
    command.wait_for(BEGUN[name])
    time.sleep(after)
    send(command.process.pid, number)
    assert command.process.wait(60) == 128 + number
    command.gone(10)
    assert not command.leftovers()


@pytest.mark.parametrize("name", COMMANDS)
def test_children_follow_a_parent_that_is_killed_and_its_folders_go_at_the_next_start(
    tmp_path: Path, run: Callable[..., Real], name: str
) -> None:
    command = run(name)
    if name in BEGUN:
        command.wait_for(BEGUN[name])
        time.sleep(1)
    else:
        command.wait_until(lambda: len(list(tmp_path.glob("results/runs/*/metrics.csv"))) == 2)
    command.process.kill()
    command.process.wait()
    command.gone(30)
    assert command.leftovers()
    time.sleep(1)
    again = run("processes", "rounds=2", "eval_every=1", "results_dir=again")
    assert again.process.wait(120) == 0, again.err.read_text()
    assert not again.leftovers()
