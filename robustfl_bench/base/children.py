"""Processes that this one starts on this machine. They end with it, however it ends, and leave no files.

Pools of joblib and of ``concurrent.futures`` end as a whole when one of their processes is killed, so these are plain
processes of ``multiprocessing``, forked from a server that has imported PyTorch.
"""

import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from multiprocessing import forkserver as server
from multiprocessing import util
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from robustfl_bench.base.errors import Terminated

OWNER = ".robustfl-owner"
"""The file in a temporary folder that its owner has locked; the lock ends with the process, however that ends."""

PREFIX = "robustfl-run-"
"""The first letters of temporary folders."""

BEGUN = 1.0
"""Seconds after which its owner has surely locked a folder."""

PATIENCE = 60.0
"""Seconds that a child has to end, after a checkpoint, when its parent is gone."""


@contextmanager
def terminable() -> Iterator[None]:
    """The first SIGTERM raises Terminated, so that a checkpoint can be saved; further ones are ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated


def is_leaving(error: BaseException) -> bool:
    """Whether a run within ``terminable`` ends because of a signal. A library may turn the end that SIGTERM asks for
    into an error of its own."""
    if isinstance(error, (KeyboardInterrupt, Terminated)):
        return True
    here = threading.current_thread() is threading.main_thread()
    return here and signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def forkserver(*preload: str) -> ForkServerContext:
    """Processes that start with these modules imported, once for all of them."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(list(preload))
    return found


class Children:
    """Processes that end when the context does: they get SIGTERM, and after ``patience`` seconds, if any, SIGKILL.

    They start with the modules of ``preload`` imported. Ctrl-C, which reaches all processes of a terminal, is left to
    this one.
    """

    def __init__(self, *preload: str, patience: float | None = None) -> None:
        self.context, self._patience = forkserver(*preload), patience
        self.processes: list[BaseProcess] = []

    @cached_property
    def folder(self) -> Path:
        """A temporary folder, removed with the context."""
        return _made()

    def start(self, name: str, work: Callable[..., object], *arguments: Any) -> BaseProcess:
        """Start a process that does ``work`` with the arguments, called ``name``, in which {pid} stands for its
        number."""
        process = self.context.Process(target=_follow_parent, args=(self._patience or PATIENCE, work, arguments))
        self.processes.append(process)
        process.start()
        process.name = name.replace("{pid}", str(process.pid))
        return process

    def join(self, grace: float) -> list[BaseProcess]:
        """Wait until all have ended. From the first failure on they have ``grace`` seconds to notice it; returns those
        that did not, and were killed."""
        while running := [process for process in self.processes if process.is_alive()]:
            if any(process.exitcode for process in self.processes):
                return _end(running, grace)
            wait([process.sentinel for process in running])
        return []

    def __enter__(self) -> "Children":
        _remove_leftovers()
        if multiprocessing.parent_process() is None:  # else the folder of ``multiprocessing`` is that of the parent
            server.ensure_running()
            _own(Path(util.get_temp_dir()))
        return self

    def __exit__(self, *_: object) -> None:
        started = [process for process in self.processes if process.pid is not None]
        for process in started:
            process.terminate()
        _end(started, self._patience)
        if "folder" in self.__dict__:
            shutil.rmtree(self.folder, ignore_errors=True)


def by_signal(process: BaseProcess) -> str:
    """What ended a process, if it was a signal; else empty."""
    code = process.exitcode or 0
    return f"{process.name} was ended by signal {-code}" if code < 0 else ""


def _end(processes: Sequence[BaseProcess], patience: float | None) -> list[BaseProcess]:
    """Wait for processes for some seconds together; returns those that were left, and were killed."""
    deadline = None if patience is None else time.monotonic() + patience
    for process in processes:
        process.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
    left = [process for process in processes if process.is_alive()]
    for process in left:
        process.kill()
        process.join()
    return left


def _follow_parent(patience: float, work: Callable[..., object], arguments: Sequence[Any]) -> None:
    """Do ``work`` in a child; end, after a checkpoint, when the parent has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch_parent, args=(patience,), daemon=True).start()
    work(*arguments)


def _watch_parent(patience: float) -> None:
    """End this process when its parent has gone, which a pipe between them tells on every system: the signal that Linux
    has for this tells the end of the server that forked it. A process that still waits in a library is killed."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(patience)
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def temporary() -> Iterator[Path]:
    """A temporary folder, removed with the context; if this process is killed before, when another makes one."""
    _remove_leftovers()
    folder = _made()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _made() -> Path:
    """A new temporary folder of this process."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    _own(folder)
    return folder


_locks: list[FileLock] = []


def _own(folder: Path) -> None:
    """Let a temporary folder be this process's own, as long as it lives."""
    with suppress(OSError, NotImplementedError, Timeout):
        lock = FileLock(folder / OWNER)
        lock.acquire(timeout=0)
        _locks.append(lock)


def _remove_leftovers() -> None:
    """Remove the temporary folders of this user whose owners have ended without doing so."""
    top, now = Path(tempfile.gettempdir()), time.time()
    for path in [*top.glob(f"{PREFIX}*"), *top.glob("pymp-*")]:
        with suppress(OSError, NotImplementedError, Timeout):
            is_mine = path.lstat().st_uid == os.getuid() and not path.is_symlink()
            if is_mine and (path / OWNER).lstat().st_mtime < now - BEGUN:
                with FileLock(path / OWNER, timeout=0):
                    shutil.rmtree(path)
