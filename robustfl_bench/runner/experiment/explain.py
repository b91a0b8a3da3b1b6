"""Errors in words: the one line that a command prints."""

import errno

from robustfl_bench.base.console import say, unexpected
from robustfl_bench.base.errors import BrokenContract, ConfigError, DataError, Interrupted, exit_code
from robustfl_bench.runner.experiment.execute import RunFailed
from robustfl_bench.runner.store.folders import RunLocked
from robustfl_bench.runner.store.writing import TRANSIENT, Damaged

_EXPECTED = (BrokenContract, ConfigError, DataError, Interrupted, RunFailed, RunLocked, Damaged, OSError)

_REMEDIES = {
    "free space for it": (errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    "check the disk or the connection to it and repeat the command": TRANSIENT,  # after several attempts
}


def report(error: Exception) -> int:
    """Print the error as one line; returns its exit code."""
    say(f"error: {explain(error)}")
    return exit_code(error)


def explain(error: Exception) -> str:
    """One line: what was wrong, what was expected, what to do."""
    if not isinstance(error, _EXPECTED):
        return unexpected(error)
    if isinstance(error, OSError) and error.filename is not None:
        remedy = next(
            (words for words, numbers in _REMEDIES.items() if error.errno in numbers), "make its folder writable"
        )
        return f"cannot write {error.filename!s}: {error.strerror}; {remedy}, or choose another with results_dir=..."
    return " ".join(str(error).split())
