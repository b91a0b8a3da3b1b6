"""What code that is not ours may not do to the process in which it is called: end it, fork it, or move it to another
working directory. What it prints is known as its own, and stdout has nothing of it. And what it depends on besides its
text: the files that it opens for reading and the environment variables that it reads, noted from its import on, and
what differs from process to process."""

import builtins
import importlib.util
import io
import linecache
import os
import sys
import sysconfig
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import Any

from robustfl_bench.base.console import say
from robustfl_bench.base.errors import BrokenContract, Terminated
from robustfl_bench.base.public import PACKAGE

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


LIBRARIES = ("site-packages", "dist-packages")  # folders in which modules of many authors lie side by side
_STANDARD = Path(sysconfig.get_paths()["stdlib"])

_CELL = "<ipython-input-"  # a cell's name in IPython; in Jupyter it ends with .py

_opened: dict[str, set[str]] = defaultdict(set)
"""The paths that the code of each source file has opened itself: no other code outside of libraries lay in between."""

_states: dict[str, tuple[int, int] | None] = {}
"""The size and the time of change of each of these paths when it was first opened; None if there was no file."""

_variables: dict[str, set[str]] = defaultdict(set)
"""The environment variables that the code of each source file has read itself."""

_varying: dict[str, set[str]] = defaultdict(set)
"""The functions that the code of each source file has called itself and that answer otherwise in another process."""

_BY_PROCESS: tuple[tuple[Any, str], ...] = ((builtins, "hash"), (builtins, "id"), (os, "getpid"), (os, "getppid"))
"""These functions, by their modules."""

_READING = {os.getenv.__code__.co_filename, os.environ.get.__func__.__code__.co_filename}  # type: ignore[attr-defined]
"""The code of Python through which a variable is read."""


@cache
def watch() -> None:
    """From now on, note which files code from outside opens, and which environment variables it reads. A hook cannot be
    removed, so there is one per process."""
    sys.addaudithook(_note)
    os.environ.__class__ = _Environment


class _Environment(type(os.environ)):  # type: ignore[misc]
    """The environment, which notes who reads it."""

    def __getitem__(self, name: str) -> str:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename in _READING:
            frame = frame.f_back  # type: ignore[assignment]
        if frame is not None and _is_users(frame.f_code.co_filename):
            _variables[_resolved(frame.f_code.co_filename)].add(name)
        return str(super().__getitem__(name))


@contextmanager
def noted() -> Iterator[None]:
    """Note which code from outside asks within the context for what differs from process to process."""
    before = {name: getattr(module, name) for module, name in _BY_PROCESS}
    for module, name in _BY_PROCESS:
        setattr(module, name, _NOTING[name])
    try:
        yield
    finally:
        for module, name in _BY_PROCESS:
            setattr(module, name, before[name])


def _noting(module: Any, name: str) -> Callable[..., Any]:
    """A function that answers as the one of this name, and notes who calls it."""
    real, public = getattr(module, name), f"{name}()" if module is builtins else f"{module.__name__}.{name}()"

    def call(*given: Any) -> Any:
        file = sys._getframe(1).f_code.co_filename
        if _is_users(file) and not (name == "hash" and _is_the_same_everywhere(given)):
            _varying[_resolved(file)].add(public)
        return real(*given)

    return call


_NOTING = {name: _noting(module, name) for module, name in _BY_PROCESS}


def _is_the_same_everywhere(value: Any) -> bool:
    """Whether a value has the same hash in every process: numbers and tuples of numbers, but no text and no object."""
    return isinstance(value, int | float | complex) or (
        type(value) is tuple and all(map(_is_the_same_everywhere, value))
    )


def variables_of(files: Iterable[Path]) -> set[str]:
    """The names of the environment variables that the code in these source files has read in this process."""
    return {name for path in files for name in _variables.get(str(path.resolve()), ())}


@contextmanager
def varying_within(files: Iterable[Path]) -> Iterator[set[str]]:
    """As ``varying_of``, for what is called within the context: the set that is yielded has it afterwards."""
    places, found = [str(path.resolve()) for path in files], set[str]()
    earlier = {place: _varying.pop(place, set()) for place in places}
    try:
        yield found
    finally:
        for place in places:
            found |= _varying[place]
            _varying[place] |= earlier[place]


def varying_of(files: Iterable[Path]) -> set[str]:
    """The functions that the code in these source files has called, and that answer otherwise in another process."""
    return {name for path in files for name in _varying.get(str(path.resolve()), ())}


def opened_by(files: Iterable[Path]) -> list[Path]:
    """What the code in these source files, and in those that it opened, has opened for reading in this process, other
    than these files themselves, files of libraries and folders."""
    own = {path.resolve() for path in files}
    paths: set[Path] = set()
    left = [*own]
    while left:
        found = {Path(path).resolve() for path in _opened.get(str(left.pop()), ())} - paths
        paths |= found
        left += found
    return sorted(path for path in paths - own if path.is_file() and is_own(path))


def _state(path: str) -> tuple[int, int] | None:
    with suppress(OSError):
        state = os.stat(path)
        return state.st_size, state.st_mtime_ns
    return None


def has_changed(path: str) -> bool:
    """Whether a file is not as it was when code from outside first opened it in this process."""
    return any(_state(place) != then for place, then in _states.items() if place == path or _resolved(place) == path)


@cache
def is_own(path: Path) -> bool:
    """Whether a file belongs neither to this package, nor to Python, nor to an installed package."""
    elsewhere = (PACKAGE, _STANDARD, Path("/proc"), Path("/sys"), Path("/dev"))
    return not (any(place in path.parents for place in elsewhere) or any(part in LIBRARIES for part in path.parts))


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open":
        return
    path, _, flags = arguments
    if not isinstance(path, str) or not isinstance(flags, int) or flags & (os.O_WRONLY | os.O_RDWR):
        return
    if path.endswith(".pyc"):
        try:
            path = importlib.util.source_from_cache(path)
        except ValueError:
            return
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == linecache.__file__ or _is_ours(file):  # shows source, such as that of a launcher; or our own file
            return
        if (kept := _kept_by(file)) and os.path.abspath(path).startswith(kept):
            return
        if _is_users(file):
            _opened[_resolved(file)].add(place := os.path.abspath(path))
            if place not in _states:
                _states[place] = _state(place)
            return
        frame = frame.f_back  # type: ignore[assignment]


def _is_users(file: str) -> bool:
    """Whether code is in a source file, or a cell, from outside."""
    if file not in _users:
        _users[file] = False  # paths ask for the hash of their parts
        _users[file] = (file.endswith(".py") or file.startswith(_CELL)) and is_own(Path(file).absolute())
    return _users[file]


_users: dict[str, bool] = {}


@cache
def _kept_by(file: str) -> tuple[str, ...]:
    """The folders in which the library of a source file keeps what it makes for itself, such as its list of fonts."""
    for name in LIBRARIES:
        _, place, within = file.rpartition(f"/{name}/")
        if place:
            homes = (os.environ.get("XDG_CACHE_HOME") or "~/.cache", os.environ.get("XDG_CONFIG_HOME") or "~/.config")
            library = within.partition("/")[0]
            return tuple(os.path.abspath(os.path.expanduser(f"{home}/{library}")) + os.sep for home in homes)
    return ()


@cache
def _is_ours(file: str) -> bool:
    return PACKAGE in Path(file).absolute().parents


@cache
def _resolved(file: str) -> str:
    return str(Path(file).resolve())
