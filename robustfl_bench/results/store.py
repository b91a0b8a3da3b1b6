"""One run folder: written so that a kill at any moment loses at most the work since the last checkpoint."""

import csv
import io
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

TABLES = ("metrics.csv", "timings.csv", "weights.csv")
FINISHED, DIVERGED, FAILED, INFEASIBLE = "finished", "diverged", "failed", "infeasible"


class RunLocked(RuntimeError):
    """Another process is writing this run folder."""


def runs_folder(results_dir: str | Path) -> Path:
    """Where the run folders of a results folder are."""
    return Path(results_dir).expanduser() / "runs"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file that other processes see whole or not at all, also after a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


class RunFolder:
    """``results/runs/<slug>-<hash8>`` and the files in it (see the README of the results folder).

    ``config.yaml`` what defines the run; ``metrics.csv`` one row per evaluated round, the same bytes for the same
    config; ``weights.csv`` what every client counted for in those rounds, nan for those absent, where the rule gives
    weights; ``timings.csv`` wall times; ``checkpoint.pt`` while unfinished; ``summary.json``, written last, how it
    ended; ``error.txt`` the traceback of a failure.
    """

    def __init__(self, results_dir: str | Path, slug: str, run_id: str) -> None:
        runs = runs_folder(results_dir)
        # The identity is the hash: a run made under another readable name (an alias of its rule) is the same run.
        made = sorted(runs.glob(f"*-{run_id}")) if runs.is_dir() else []
        self.path = made[0] if made else runs / f"{slug}-{run_id}"
        self.run_id = run_id
        self._lock: FileLock | None = None

    def summary(self) -> dict[str, Any] | None:
        """How the run ended, or None while it has not (an unreadable summary counts as none)."""
        try:
            summary = json.loads((self.path / "summary.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
            return None
        return summary if isinstance(summary, dict) else None

    def open(self, config: Mapping[str, Any]) -> None:
        """Create the folder, take its lock and write the config; raises RunLocked or OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.path / ".lock")
        try:
            self._lock.acquire(timeout=1)  # `robustfl-results status` holds it for an instant
        except Timeout:
            raise RunLocked(f"{self.path} is being written by another process") from None
        write_atomically(self.path / "config.yaml", yaml.safe_dump(dict(config), sort_keys=True))

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def checkpoint(self) -> dict[str, Any] | None:
        """The last checkpoint, after cutting the CSV files back to what it has seen; None when there is none."""
        import torch

        path = self.path / "checkpoint.pt"
        try:
            saved: dict[str, Any] = torch.load(path, weights_only=True)
            complete = all(os.path.getsize(self.path / name) >= size for name, size in saved["files"].items())
        except Exception:  # absent, of another version, or damaged: then the run starts again
            complete = False
        if not complete:
            for name in ("checkpoint.pt", *TABLES):
                (self.path / name).unlink(missing_ok=True)
            return None
        for name, size in saved["files"].items():
            os.truncate(self.path / name, size)
        return saved

    def save_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Store ``state`` (tensors and numbers) together with how far the CSV files have come."""
        import torch

        files = {}
        for name in TABLES:
            path = self.path / name
            if path.exists():
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
                files[name] = path.stat().st_size
        buffer = io.BytesIO()
        torch.save({**state, "files": files}, buffer)
        write_atomically(self.path / "checkpoint.pt", buffer.getvalue())

    def append(self, name: str, row: Mapping[str, float]) -> None:
        """Add a row to one of TABLES; the first one brings the header."""
        path = self.path / name
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not path.exists() or path.stat().st_size == 0:
            writer.writerow(row)
        writer.writerow([value if isinstance(value, int) else f"{value:.8g}" for value in row.values()])
        with open(path, "a") as file:
            file.write(text.getvalue())

    def cut(self, round: int) -> None:
        """Drop the rows of later rounds."""
        for name in TABLES:
            path = self.path / name
            if path.exists():
                lines = path.read_text().splitlines(keepends=True)
                kept = [row for row in lines[1:] if row.endswith("\n") and int(row.split(",")[0]) <= round]
                write_atomically(path, "".join([lines[0], *kept]) if kept else "")

    def rows(self) -> list[dict[str, float]]:
        """The rows of ``metrics.csv``."""
        with open(self.path / "metrics.csv", newline="") as file:
            return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]

    def finish(self, summary: Mapping[str, Any], traceback: str | None = None) -> None:
        """Record how the run ended. A run with a result drops its checkpoint; a failed one keeps it."""
        if traceback is not None:
            write_atomically(self.path / "error.txt", traceback)
        write_atomically(self.path / "summary.json", json.dumps(summary, indent=1) + "\n")
        if summary["status"] in (FINISHED, DIVERGED):
            self._remove(["checkpoint.pt", "error.txt"])

    def discard(self) -> None:
        """Remove the folder of a run that turned out to be impossible, unless it has results of some rounds."""
        self.close()
        if not (self.path / "metrics.csv").exists():
            shutil.rmtree(self.path)

    def reopen(self) -> None:
        """Forget how an earlier attempt ended."""
        self._remove(["summary.json", "error.txt"])

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self.path / name).unlink(missing_ok=True)


def slug(*parts: object) -> str:
    """A readable, portable folder name."""
    return "-".join(re.sub(r"[^A-Za-z0-9._]+", "_", str(part)) for part in parts)
