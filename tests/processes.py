"""The command in a process of its own, to be killed: forked from one that has imported torch, which takes seconds."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

from robustfl_bench import cli
from robustfl_bench.results.store import RunFolder

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["torch", "threadpoolctl", "robustfl_bench.cli", "robustfl_bench.engine.loop"])


def fork(folder: Path, *overrides: str, first: Callable[[], None] | None = None) -> BaseProcess:
    """Start ``robustfl-bench`` in ``folder``, silently, after calling ``first`` there."""
    process = _SERVER.Process(target=_command, args=(folder, overrides, dict(os.environ), first))
    process.start()
    return process


def _command(folder: Path, overrides: tuple[str, ...], environment: dict[str, str], first: Callable[[], None]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    if first is not None:
        first()
    sys.argv = ["robustfl-bench", *overrides]
    cli.main()


def die_after_checkpoint(seconds: float) -> None:
    """This process is killed once it has computed for so long after its first checkpoint, however busy the machine is.

    SIGPROF, which the kernel sends, ends a process at once like SIGKILL: no code of ours runs.
    """
    save = RunFolder.save_checkpoint

    def saved(*arguments: object) -> None:
        save(*arguments)  # type: ignore[arg-type]
        if signal.getitimer(signal.ITIMER_PROF)[0] == 0:
            signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-6))

    RunFolder.save_checkpoint = saved  # type: ignore[method-assign]
