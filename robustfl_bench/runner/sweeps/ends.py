"""Ends of cells, and of a whole sweep."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from robustfl_bench.base.errors import GENERAL

OTHERS, MISSING = "others", "missing"
"""Ends of a cell in an outcome, besides those of a run folder: another process runs it, or none does."""


@dataclass(frozen=True)
class End:
    """How a cell ended: a status of a run folder, OTHERS or MISSING; the number that sweeps tune by; why it failed.

    ``code`` is the exit code that its failure has as a single run.
    """

    status: str
    value: float = float("nan")
    reason: str = ""
    was_stored: bool = False
    code: int = GENERAL


class Incomplete(RuntimeError):
    """A sweep that ended without all its results; what is missing has been printed."""

    def __init__(self, message: str, exit_code: int = GENERAL) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Outcome:
    """The ends of the cells of a sweep, in the order of the cells."""

    ends: Sequence[End] = field(default_factory=tuple)

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of cells by status."""
        return Counter(end.status for end in self.ends)
