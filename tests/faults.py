"""Faults injected into the calls that write run folders: errors, half-written pieces, and the end of the process."""

import errno
import itertools
import os
import signal
from collections.abc import Callable
from typing import Any

from robustfl_bench.runner.store import folders, writing

Strikes = Callable[[int], str | None]
"""The fault of the call of this number, from 1: ``eio``, ``enospc``, ``short`` (half of the piece is written, then no
space is left), or ``kill`` (likewise, then SIGKILL); None for a call that works."""


class Faulty:
    """A module or a file whose calls that write can fail; everything else is as it was."""

    def __init__(self, real: Any, strikes: Strikes, numbers: "itertools.count[int]") -> None:
        self._real, self._strikes, self._numbers = real, strikes, numbers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __enter__(self) -> "Faulty":
        self._real.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._real.__exit__(*error)

    def write(self, piece: Any) -> int:
        """Write to the file."""
        if (fault := self._strikes(next(self._numbers))) in ("short", "kill"):
            self._real.write(piece[: len(piece) // 2])
            self._real.flush()
        _strike(fault)
        return int(self._real.write(piece))

    def fsync(self, *given: Any) -> None:
        """As in ``os``."""
        _strike(self._strikes(next(self._numbers)))
        self._real.fsync(*given)

    def replace(self, *given: Any) -> None:
        """As in ``os``."""
        _strike(self._strikes(next(self._numbers)))
        self._real.replace(*given)

    def truncate(self, *given: Any) -> None:
        """As in ``os``, for the cut before a resume; what takes half a row back does not fail too."""
        _strike(self._strikes(next(self._numbers)))
        self._real.truncate(*given)


def _strike(fault: str | None) -> None:
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault is not None:
        number = errno.EIO if fault == "eio" else errno.ENOSPC
        raise OSError(number, os.strerror(number))


def inject(strikes: Strikes, set_attribute: Callable[[Any, str, Any], None] = setattr) -> "itertools.count[int]":
    """From now on, let the calls strike that write run folders. The next number of what is returned counts them."""
    numbers = itertools.count(1)

    def opened(path: Any, mode: str = "r", **named: Any) -> Any:
        file = open(path, mode, **named)  # noqa: SIM115
        return file if "r" in mode else Faulty(file, strikes, numbers)

    set_attribute(writing, "open", opened)
    set_attribute(folders, "os", Faulty(os, strikes, numbers))
    faulty = Faulty(os, strikes, numbers)
    faulty.truncate = os.truncate  # type: ignore[method-assign]
    set_attribute(writing, "os", faulty)
    set_attribute(writing, "PAUSES", (0.0, 0.0, 0.0))
    return numbers


def kill_at(number: int) -> None:
    """This process is killed in the call of that number."""
    inject(lambda call: "kill" if call == number else None)
