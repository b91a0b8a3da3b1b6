"""The errors of a run and the exit code of each; imports nothing heavy."""

import difflib
import errno
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")
GENERAL, CONFIGURATION, DATA = 1, 2, 3
"""Exit codes of the commands: of a failure without a code of its own, an invalid configuration, missing or damaged
data."""

BUSY = 75
"""Exit code of ``sysexits.h``: other processes run all that is left of a sweep."""

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""Exit codes after Ctrl-C and after SIGTERM."""


TRANSIENT = (errno.EIO, errno.EAGAIN, errno.ESTALE, errno.ETIMEDOUT)
"""Errors of a shared file system that can pass within seconds."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk that is full, or as full as the user may make it."""

_REMEDIES = {
    "free space for it": NO_SPACE,
    "check the disk or the connection to it and repeat the command": TRANSIENT,  # after several attempts
}


class Reported(Exception):
    """An error whose message, one line, is all that the user of a command needs to know."""


class ConfigError(Reported, ValueError):
    """The configuration is invalid. The message says what is wrong and what to do."""

    exit_code = CONFIGURATION


class NotReady(ConfigError):
    """Another command has to be run first. It ends a whole sweep, because it applies to all of its runs."""


class DataError(Reported, RuntimeError):
    """Data are missing or damaged. The message says which and what to do."""

    exit_code = DATA


class Damaged(Reported, ValueError):
    """A file is not what was written. The message says which and why."""


class BrokenContract(Reported, TypeError):
    """A part returned something that its base class does not allow. The message names the part."""


class FailedClosed(RuntimeError):
    """More clients look hostile than the rule can bear, which is to end the run. The message is one line."""


class Diverged(Exception):
    """A model diverged in round ``round`` (from 1). This is a result and is recorded as one."""

    def __init__(self, round: int, reason: str) -> None:
        super().__init__(f"diverged in round {round}: {reason}")
        self.round = round


class Interrupted(Reported, RuntimeError):
    """A run was interrupted from outside. Its checkpoints are intact and the same command resumes it."""


class Terminated(SystemExit):
    """SIGTERM ends this process. It is raised wherever the process is, also in code that is not ours."""

    def __init__(self) -> None:
        super().__init__(TERMINATED)


def exit_code(error: Exception) -> int:
    """The exit code of a command that ends with this error: the one that the error carries, else GENERAL."""
    code: int = getattr(error, "exit_code", GENERAL)
    return code


def one_line(error: object) -> str:
    """The words of a message without its line breaks."""
    return " ".join(str(error).split())


def reason(error: Exception) -> str:
    """Why a file cannot be read, in one line that does not name the file."""
    return getattr(error, "strerror", None) or one_line(error)


def each_of(values: Mapping[str, Given], make: Callable[[str, Given], Made]) -> dict[str, Made]:
    """What ``make`` returns for each name and value. Raises one ConfigError with all that is wrong."""
    made, errors = dict[str, Made](), list[str]()
    for name, value in values.items():
        try:
            made[name] = make(name, value)
        except ConfigError as error:
            errors.append(str(error))
    if errors:
        raise ConfigError("; ".join(errors))
    return made


def explain(error: Exception) -> str:
    """One line: what was wrong, what was expected, what to do. An error that no command expects, such as one of a rule
    from outside, has its type before it."""
    line = one_line(error)
    if isinstance(error, OSError) and error.filename is not None:
        remedy = next((words for words, numbers in _REMEDIES.items() if error.errno in numbers),
                      "make its folder writable")  # fmt: skip
        return f"cannot write {error.filename!s}: {error.strerror}; {remedy}, or choose another with results_dir=..."
    is_expected = isinstance(error, Reported | OSError)
    return line if is_expected else f"{type(error).__name__}: {line} (HYDRA_FULL_ERROR=1 shows where)"


@contextmanager
def writable(path: str | Path) -> Iterator[None]:
    """Raise ConfigError with this path, which the user named, for every OSError."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error


def similar(word: str, known: Iterable[str]) -> list[str]:
    """At most three known words that begin with ``word`` or, if there are none, are spelt like it; case is ignored."""
    by_case = {name.casefold(): name for name in sorted(known)}
    longer = [folded for folded in by_case if word and folded.startswith(word.casefold())]
    return [by_case[folded] for folded in longer[:3] or difflib.get_close_matches(word.casefold(), by_case)]


def near(word: str, known: Iterable[str]) -> str:
    """`` (did you mean a or b?)`` with the known words ``similar`` to ``word``; empty if there are none."""
    return did_you_mean(similar(word, known))


def did_you_mean(names: Iterable[str]) -> str:
    """`` (did you mean a or b?)`` with these names; empty if there are none."""
    return f" (did you mean {choice}?)" if (choice := " or ".join(names)) else ""


def check_package(name: str, extra: str | None = None) -> None:
    """Raise ConfigError unless the package ``name`` is installed; the extra ``extra`` installs it, by default
    ``name``."""
    found = find_spec(name)
    if found is None or found.origin is None:  # a folder of this name, such as W&B makes, has no origin
        raise ConfigError(f'{name} is not installed: pip install "robustfl-bench[{extra or name}]"')
