"""What a client keeps on disk: its last two checkpoints, as neighbours may be one behind when they are cut off."""

import io
from pathlib import Path
from typing import Any

import torch

from robustfl_bench.results.store import write_atomically


class Checkpoints:
    """The checkpoints of client ``rank`` in ``folder``; none while a run has no need of them."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._prefix = folder, f"client_{rank}_round_"

    def saved(self) -> dict[int, dict[str, Any]]:
        """The states by round; damaged files count as absent."""
        found = {}
        for round, path in self._paths().items():
            try:
                found[round] = torch.load(path, weights_only=True)
            except Exception:
                path.unlink(missing_ok=True)
        return found

    def save(self, round: int, state: dict[str, Any]) -> None:
        """Add the state after ``round`` and drop all but the last two."""
        self._folder.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        torch.save(state, buffer)
        write_atomically(self._folder / f"{self._prefix}{round}.pt", buffer.getvalue())
        for old in sorted(self._paths().items())[:-2]:
            old[1].unlink(missing_ok=True)

    def clear(self) -> None:
        """Drop all; the last client takes the folder away."""
        for path in self._paths().values():
            path.unlink(missing_ok=True)
        try:
            self._folder.rmdir()
        except OSError:  # others have theirs there
            return

    def _paths(self) -> dict[int, Path]:
        return {int(p.stem.removeprefix(self._prefix)): p for p in self._folder.glob(f"{self._prefix}*.pt")}
