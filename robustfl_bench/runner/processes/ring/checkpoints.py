"""The last two checkpoints of a client on disk: an interruption can leave its neighbours one checkpoint behind."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from robustfl_bench.base.console import say
from robustfl_bench.runner.store import sealed
from robustfl_bench.runner.store.writing import Damaged, named, remove_leftovers


class Checkpoints:
    """The checkpoints of client ``rank`` in ``folder``, all with one ``stamp``; the folder is created when needed."""

    def __init__(self, folder: Path, rank: int, stamp: sealed.Stamp) -> None:
        self._folder, self._prefix, self._stamp = folder, f"client_{rank}_round_", stamp

    def saved(self) -> dict[int, dict[str, Any]]:
        """The states by round; files that are damaged or have another stamp are reported and removed."""
        found = {}
        for round, path in self._paths().items():
            remove_leftovers(path)
            try:
                state = sealed.load(path, self._stamp)
            except Damaged as error:
                say(f"not used: {error}  {self._folder}")
                path.unlink(missing_ok=True)
                continue
            if state is not None:
                found[round] = state
        return found

    def save(self, round: int, state: dict[str, Any]) -> None:
        """Add the state after ``round`` and drop all but the last two; raises CannotWrite."""
        with named(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        sealed.save(self._folder / f"{self._prefix}{round}.pt", state, self._stamp)
        for old in sorted(self._paths().items())[:-2]:
            old[1].unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all checkpoints; the last client also removes the folder, and the run folder if it is then empty."""
        for path in self._paths().values():
            path.unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            for folder in (self._folder, self._folder.parent):
                folder.rmdir()

    def _paths(self) -> dict[int, Path]:
        return {int(p.stem.removeprefix(self._prefix)): p for p in self._folder.glob(f"{self._prefix}*.pt")}
