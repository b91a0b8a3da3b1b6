"""The errors of a run and the exit code of each; imports nothing heavy."""

import difflib
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

GENERAL, CONFIGURATION, DATA = 1, 2, 3
"""Exit codes of the commands: of a failure without a code of its own, an invalid configuration, missing or damaged
data."""

BUSY = 75
"""Exit code of ``sysexits.h``: other processes run all that is left of a sweep."""

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""Exit codes after Ctrl-C and after SIGTERM."""


class ConfigError(ValueError):
    """The configuration is invalid. The message, one line, says what is wrong and what to do."""

    exit_code = CONFIGURATION


class NotReady(ConfigError):
    """Another command has to be run first. It ends a whole sweep, because it applies to all of its runs."""


class DataError(RuntimeError):
    """Data are missing or damaged. The message, one line, says which and what to do."""

    exit_code = DATA


class BrokenContract(TypeError):
    """A part returned something that its base class does not allow. The message, one line, names the part."""


class FailedClosed(RuntimeError):
    """More clients look hostile than the rule can bear, which is to end the run. The message is one line."""


class Diverged(Exception):
    """A model diverged in round ``round`` (from 1). This is a result and is recorded as one."""

    def __init__(self, round: int, reason: str) -> None:
        super().__init__(f"diverged in round {round}: {reason}")
        self.round = round


class Interrupted(RuntimeError):
    """A run was interrupted from outside. Its checkpoints are intact and the same command resumes it."""


class Terminated(SystemExit):
    """SIGTERM ends this process. It is raised wherever the process is, also in code that is not ours."""

    def __init__(self) -> None:
        super().__init__(TERMINATED)


def exit_code(error: Exception) -> int:
    """The exit code of a command that ends with this error: the one that the error carries, else GENERAL."""
    code: int = getattr(error, "exit_code", GENERAL)
    return code


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
