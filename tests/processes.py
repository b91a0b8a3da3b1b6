"""Commands in processes of their own, forked from one that has imported torch and read what ``preloaded.py`` reads: a
new one would take three seconds."""

import os
import runpy
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path

from robustfl_bench.runner.processes.launch import local
from robustfl_bench.runner.store.folders import RunFolder

ROOT = Path(__file__).resolve().parent.parent

Prepare = Callable[[], None]


@dataclass(frozen=True)
class Outcome:
    """Exit code and what was printed."""

    code: int
    out: str
    err: str

    def refused(self, code: int, *words: str) -> None:
        """It ended with this code and one line, which has all of these words."""
        assert (self.code, self.out) == (code, ""), self
        assert len(self.err.strip().splitlines()) == 1 and all(word in self.err for word in words), self.err


class Command:
    """A running command, with the methods of ``subprocess.Popen`` that tests use."""

    def __init__(self, process: BaseProcess, printed: Path) -> None:
        self._process, self._printed = process, printed

    def poll(self) -> int | None:
        """The exit code, minus the signal that ended it; None while it runs."""
        return self._process.exitcode

    @property
    def returncode(self) -> int | None:
        """The same."""
        return self.poll()

    @property
    def pid(self) -> int | None:
        """The number of the process."""
        return self._process.pid

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None and self._process.pid is not None:
            os.kill(self._process.pid, number)

    def lines(self, count: int, timeout: float = 120) -> list[str]:
        """The first lines on standard error, as soon as there are so many or it has ended."""
        deadline = time.monotonic() + timeout
        while True:
            is_over = self.poll() is not None or time.monotonic() > deadline
            text = path.read_text(encoding="utf-8") if (path := Path(f"{self._printed}.err")).exists() else ""
            if text.count("\n") >= count or is_over:
                return text.splitlines()[:count]
            time.sleep(0.002)

    def communicate(self, timeout: float = 300) -> tuple[str, str]:
        """Wait until it ends; what it has printed on standard output and on standard error."""
        self._process.join(timeout)
        if self.poll() is None:
            self._process.kill()
            raise TimeoutError(f"a command still runs after {timeout} s: {self._printed}")
        out, err = (Path(f"{self._printed}.{name}").read_text(encoding="utf-8") for name in ("out", "err"))
        return out, err


def wait_for(condition: Callable[[], object], *commands: Command) -> None:
    """Wait at most two minutes until the condition holds; the commands must not end before."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        for command in commands:
            assert command.poll() is None, command.communicate()
        time.sleep(0.01)


def lines_of_metrics(results: Path) -> int:
    """The lines that all runs have written so far."""
    return sum(path.read_bytes().count(b"\n") for path in results.glob("runs/*/metrics.csv"))


def fork_from_preloaded() -> None:
    """Start the process from which others are forked, unless there is one; those of ring and sweep use it as well."""
    found = local().context
    found.set_forkserver_preload(["tests.preloaded"])
    with chdir(ROOT):  # where it finds the module
        forkserver.ensure_running()


def start(
    folder: Path, *overrides: str, module: str | Path = "robustfl_bench.commands.bench", first: Prepare | None = None
) -> Command:
    """Start ``robustfl-bench``, another command by its module, or a script by its file, in ``folder``; ``first`` is
    called there before."""
    printed = Path(tempfile.mkdtemp(prefix="printed-", dir=folder.parent)) / "command"
    arguments = (module, folder, overrides, printed, dict(os.environ), first)
    fork_from_preloaded()
    process = local().context.Process(target=_command, args=arguments)
    process.start()
    return Command(process, printed)


def call(folder: Path, module: str | Path, *arguments: str, first: Prepare | None = None) -> Outcome:
    """Start a command and wait until it ends."""
    command = start(folder, *arguments, module=module, first=first)
    out, err = command.communicate()
    assert command.returncode is not None
    return Outcome(command.returncode, out, err)


def _command(
    module: str | Path, folder: Path, overrides: tuple[str, ...], printed: Path, environment: dict[str, str],
    first: Prepare | None,
) -> None:  # fmt: skip
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{printed}.{name}", os.O_WRONLY | os.O_CREAT), stream)
    if first is not None:
        first()
    sys.argv = [str(module), *overrides]
    if isinstance(module, str):
        sys.exit(import_module(module).main())
    sys.path.insert(0, str(module.parent))
    runpy.run_path(str(module), run_name="__main__")


def die_after_checkpoint(seconds: float) -> None:
    """This process ends once it has computed for so long after its first checkpoint, however busy the machine is.

    SIGPROF, which the kernel sends, ends it at once like SIGKILL: no code of ours runs.
    """
    save = RunFolder.save_checkpoint

    def saved(*arguments: object) -> None:
        save(*arguments)  # type: ignore[arg-type]
        if signal.getitimer(signal.ITIMER_PROF)[0] == 0:
            signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-6))

    RunFolder.save_checkpoint = saved  # type: ignore[method-assign]


def die_in_run(number: int) -> None:
    """This process is killed in the run of that number of a sweep, when that has written its first row."""
    begin, append, begun = RunFolder.begin, RunFolder.append, []

    def begins(*arguments: object, **named: object) -> None:
        begun.append(begin(*arguments, **named))  # type: ignore[arg-type]

    def appends(*arguments: object) -> None:
        append(*arguments)  # type: ignore[arg-type]
        if len(begun) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    RunFolder.begin, RunFolder.append = begins, appends  # type: ignore[method-assign]
