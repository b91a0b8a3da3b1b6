"""What code that is not ours may not do to the process in which it is called: end it, fork it, or move it to another
working directory. What it prints is known as its own, and stdout has nothing of it."""

import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from functools import cache

from robustfl_bench.base.console import say
from robustfl_bench.base.errors import BrokenContract, Terminated
from robustfl_bench.base.opened import noted

_called: list[Callable[[], str]] = []
"""The code that is being called, the innermost last."""


@contextmanager
def no_exit(who: Callable[[], str]) -> Iterator[None]:
    """Raise BrokenContract, which names ``who``, where code within the context ends the process by ``sys.exit``. The
    end that SIGTERM asks for goes on."""
    try:
        yield
    except Terminated:
        raise
    except SystemExit as error:
        raise BrokenContract(f"{who()} called sys.exit({error.code!r}), which no part may do") from error


@contextmanager
def contained(who: Callable[[], str]) -> Iterator[None]:
    """As ``no_exit``, and the same where it forks the process, other than for ``multiprocessing``, or leaves it in
    another working directory, which is set back. What it prints goes to stderr, behind its name."""
    _refuse_forks()
    folder, printed = _folder(), _Printed(who)
    in_main = threading.current_thread() is threading.main_thread()  # others share sys.stdout and builtins with it
    _called.append(who)
    try:
        with ExitStack() as stack:
            for context in (no_exit(who), *((_stdout_to_stderr(), redirect_stdout(printed), noted()) * in_main)):
                stack.enter_context(context)
            yield
    finally:
        _called.pop()
        printed.end()
        if (moved := _folder()) != folder and folder is not None:
            os.chdir(folder)
    if moved != folder:
        raise BrokenContract(f"{who()} changed the working directory to {moved}, which no part may do")


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """What is written to the file descriptor of stdout, by this process or its children, goes to stderr; where Python's
    stdout is another one, as in a notebook, it stays."""
    own = sys.__stdout__
    if own is None or sys.stdout is not own:
        yield
        return
    try:
        own.flush()
        stdout = os.dup(1)
    except (OSError, ValueError):  # it is closed
        yield
        return
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


def _folder() -> str | None:
    """The working directory; None if it was removed."""
    with suppress(OSError):
        return os.getcwd()
    return None


@cache
def _refuse_forks() -> None:
    """Let code that is called not fork this process: two would write one run. A hook cannot be removed."""
    sys.addaudithook(_see)


def _see(event: str, _: tuple[object, ...]) -> None:
    by = sys._getframe(1).f_globals.get("__name__") if event in ("os.fork", "os.forkpty") and _called else None
    if by not in (None, "multiprocessing.popen_fork"):
        raise BrokenContract(f"{_called[-1]()} forks this process, which no part may do")


class _Printed(io.TextIOBase):
    """Text that goes to stderr line by line, behind the name of who prints it."""

    def __init__(self, who: Callable[[], str]) -> None:
        self._who, self._line = who, ""

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            say(f"{self._who()} prints: {line}")
        return len(text)

    def end(self) -> None:
        """Print what is left of a line."""
        if self._line:
            self.write("\n")
