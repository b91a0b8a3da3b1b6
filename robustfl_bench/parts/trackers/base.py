"""The base class of experiment trackers, and what a tracker receives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from robustfl_bench.base.abilities import Part


@dataclass(frozen=True)
class Tracked:
    """The description of a run for a tracker: its id, readable ``name``, resolved ``config`` and ``folder``.

    ``done`` is the number of rounds already done: 0 for a new run, else that of the checkpoint that it resumes from.
    """

    run_id: str
    name: str
    config: Mapping[str, Any]
    folder: Path
    done: int


class Tracking(Protocol):
    """A tracker that follows one run."""

    def record(self, round: int, numbers: Mapping[str, float]) -> None:
        """Called with the numbers of a row of ``metrics.csv`` right after it is written, in ascending order of rounds,
        which are at least ``done`` + 1."""

    def end(self, summary: Mapping[str, Any] | None) -> None:
        """Called at the end with the content of ``summary.json``; None if the run was interrupted and can be
        resumed."""


class Tracker(Part):
    """Copies the records of a run to an experiment tracker. It changes no result and is not part of a run's identity.

    A tracker that raises an Exception is not used for the rest of the run, with a note. A resumed run records the
    rounds after its checkpoint again, of which the interrupted attempt may have recorded some.
    """

    def check(self) -> None:
        """Raise ConfigError if the tracker cannot work, as without its package; called before any data are loaded."""

    @abstractmethod
    def begin(self, run: Tracked) -> Tracking:
        """Start to follow a run; the tracker's package is imported here."""
