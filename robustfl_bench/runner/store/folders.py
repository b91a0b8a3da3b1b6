"""One run folder: written so that a kill at any moment loses at most the work since the last checkpoint."""

import csv
import hashlib
import io
import json
import math
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from robustfl_bench.base.errors import BUSY, BrokenContract, Reported
from robustfl_bench.runner.config import identity, options
from robustfl_bench.runner.store import sealed
from robustfl_bench.runner.store.lease import NAME, Lease, lease_on
from robustfl_bench.runner.store.writing import (
    CannotWrite,
    Damaged,
    append_text,
    change,
    check_plain,
    flush,
    hashed,
    named,
    read_from,
    read_regular,
    read_text,
    remove_leftovers,
    stream_atomically,
    write_atomically,
)

OWN_METRICS = "own_metrics.csv"  # the numbers of the user's metrics
TABLES = ("metrics.csv", "timings.csv", "weights.csv", OWN_METRICS)
WEIGHTS = "weights.safetensors"  # the trained weights, by save_weights=true
RECORDED = ("config.yaml", *TABLES, WEIGHTS)  # the files whose sizes and SHA-256 the summary has
RING = "ring"  # the folder in a run folder with the checkpoints of a ring's clients; all that their own hosts may have
DEATHS = ".deaths"  # how many processes in a row have died in this run, and at which checkpoint
ENDING = ("config.yaml", *TABLES, "summary.json")  # the files that another attempt replaces, in the order of writing
OWN = (*RECORDED, "summary.json", "checkpoint.pt", "error.txt", DEATHS)
MADE = (*TABLES, WEIGHTS, "summary.json", "checkpoint.pt", RING)  # files and folders that a run writes after it begins
FINISHED, DIVERGED, FAILED, INFEASIBLE = "finished", "diverged", "failed", "infeasible"
LONGEST = 32  # characters of a part of a folder's name
LAST = 10  # evaluated rounds of `last_10` in the summary
MEASURED = (FINISHED, DIVERGED)  # the states of a run with a result; a diverged model is a result
ENDED = (*MEASURED, FAILED, INFEASIBLE)


_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # five times as fast, the same text


class RunLocked(Reported, RuntimeError):
    """Another process is writing this run folder."""

    exit_code = BUSY


def runs_folder(results_dir: str | Path) -> Path:
    """Where the run folders of a results folder are."""
    return Path(results_dir).expanduser() / "runs"


def folders_of(results_dir: str | Path, run_id: str) -> list[Path]:
    """The folders of a run, several if it was copied. Reads only names, and again only after the folder has changed."""
    runs = runs_folder(results_dir)
    try:
        found = runs.stat()
        place, changed, now = (found.st_dev, found.st_ino), found.st_mtime_ns, time.time_ns()
        read_at, by_id = _listed.get(place, (None, {}))
        if read_at != changed:
            names = os.listdir(runs)
            if now - changed <= (_TICK if changed % 10**9 else _COARSE):
                return [runs / name for name in names if name.rpartition("-")[2] == run_id]
            _, by_id = _listed[place] = changed, defaultdict[str, list[str]](list)
            for name in names:
                by_id[name.rpartition("-")[2]].append(name)
    except OSError:  # none yet; a folder that cannot be read is reported when the run is written
        return []
    return [runs / name for name in by_id.get(run_id, ())]


_listed: dict[tuple[int, int], tuple[int, Mapping[str, list[str]]]] = {}
"""The names read from each folder, by its device and inode: when it had changed, and the names by the run id at
their end."""

_TICK, _COARSE = 50 * 10**6, 2 * 10**9
"""For how many ns after a change another one may leave a folder with the same time: where its file system tells
fractions of a second, and where it does not."""


def id_of(path: Path) -> str | None:
    """The run id at the end of a folder's name; None if there is none."""
    found = re.fullmatch(r"(?:.*-)?([0-9a-f]{12})", path.name)
    return found[1] if found else None


def oddity(path: Path) -> str | None:
    """Why ``path`` is not the run folder of its name, in a few words; None if it is.

    A folder whose config.yaml cannot be read is one if it holds other files of a run.
    """
    if not path.is_dir():
        return "it is no folder"
    if id_of(path) is None:
        return "its name does not end in the id of a run"
    held = {entry.name for entry in path.iterdir() if not entry.name.startswith(".")}
    held_identity = _identity(path / "config.yaml")  # after the listing: another process may write it just now
    if held_identity is not None:
        config_id = identity.digest(held_identity)
        return None if config_id == id_of(path) else f"its config.yaml is that of run {config_id}"
    if not held or held & set(MADE) or (held == {"config.yaml"} and _is_empty(path / "config.yaml")):
        return None
    return "it holds no config of a run"


def _is_empty(path: Path) -> bool:
    """Whether a file has no content, as one that a power cut left before it was on the disk."""
    with suppress(OSError):
        return not path.stat().st_size
    return True


def _identity(path: Path) -> dict[str, Any] | None:
    """What defines the run of a ``config.yaml``; None if it cannot be read as that of a run."""
    try:
        config = options.parse(read_text(path))
    except (Damaged, yaml.YAMLError):
        return None
    if not isinstance(config, dict) or not {"dataset", "aggregator", "attack"} <= set(config):
        return None
    try:
        return identity.of(config)
    except (AttributeError, TypeError, ValueError):
        return None


def damage(path: Path, summary: Mapping[str, Any]) -> str | None:
    """The first file of a run folder that differs in size or SHA-256 from the record in its summary, in one line; None
    if all agree."""
    known = summary.get("files")
    least = {"config.yaml", "metrics.csv"} if summary.get("status") == FINISHED else {"config.yaml"}
    if not isinstance(known, Mapping) or not least <= set(known) <= set(RECORDED):
        return "summary.json does not record the files"
    for name in RECORDED:
        try:
            size = read_from(path / name, lambda file: os.fstat(file.fileno()).st_size)
            expected = known.get(name)
            if not isinstance(expected, Mapping):
                return f"{name} was not there when the run ended"
            if size != expected.get("bytes"):
                return f"{name} has {size} bytes, {expected.get('bytes')} were written"
            if hashed(path / name)[0].hexdigest() != expected.get("sha256"):
                return f"{name} is not what was written: its SHA-256 differs"
        except FileNotFoundError:
            if name in known:
                return f"{name} is missing"
        except Damaged as error:
            return str(error)
    return None


def _hashed(path: Path, size: int | None = None) -> "tuple[hashlib._Hash, int]":
    """As ``hashed``; that of nothing where there is no file."""
    return hashed(path, size) if path.exists() else (hashlib.sha256(), 0)


def _header(path: Path) -> list[str]:
    """The names of the columns of one of TABLES."""
    with path.open(newline="") as file:
        return next(csv.reader(file), [])


def plain(value: Any) -> Any:
    """A summary as JSON holds it, which has no number that is not finite: nan and infinity become None."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def summary_in(folder: Path) -> dict[str, Any] | None:
    """How the run of a folder ended, or None while it has not; raises Damaged. A number may be None: it was not
    finite."""
    try:
        summary = json.loads(read_regular(folder / "summary.json"))
    except FileNotFoundError:
        return None
    except Damaged:
        raise
    except (ValueError, RecursionError) as error:
        raise Damaged(f"summary.json is damaged: {error}") from None
    if not isinstance(summary, dict) or summary.get("status") not in ENDED:
        raise Damaged(f"summary.json is damaged: its status must be one of {', '.join(ENDED)}")
    if seal(summary)["seal"] != summary.get("seal"):
        raise Damaged("summary.json is not what was written: it does not have its SHA-256")
    return summary


def recorded(
    folder: Path, written: "Mapping[str, tuple[hashlib._Hash, int]]" = MappingProxyType({})
) -> dict[str, dict[str, Any]]:
    """The sizes and SHA-256 of the files of a run folder, as its summary records them: those ``written`` as they were
    then, the others as they are."""
    names = dict.fromkeys([*_present(folder, RECORDED), *written])
    states = {name: written.get(name) or hashed(folder / name) for name in names}
    return {name: {"bytes": size, "sha256": digest.hexdigest()} for name, (digest, size) in states.items()}


def _present(folder: Path, names: Iterable[str]) -> list[str]:
    """Those of the names that a folder has, in one look; none in a folder that is not there."""
    try:
        held = {*os.listdir(folder)}
    except FileNotFoundError:
        return []
    return [name for name in names if name in held]


def seal(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary with the SHA-256 of all its other entries."""
    entries = {name: value for name, value in summary.items() if name != "seal"}
    return entries | {"seal": hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()}


class RunFolder:
    """``results/runs/<slug>-<hash>`` and the files in it (see the README of the results folder).

    ``config.yaml`` what defines the run; ``metrics.csv`` one row per evaluated round, the same bytes for the same
    config; ``weights.csv`` what every client counted for in those rounds, nan for those absent, where the rule gives
    weights; ``own_metrics.csv`` the numbers of the user's metrics, if there are any; ``timings.csv`` wall times;
    ``checkpoint.pt`` while unfinished; ``summary.json``, written last, how it ended; ``error.txt`` the traceback of a
    failure; ``weights.safetensors`` the trained weights, if they are kept; ``.claim`` while a process writes it.

    Between ``open`` and ``close`` every method that writes raises LeaseLost when another process has taken it over.
    """

    def __init__(self, results_dir: str | Path, names: Sequence[object], run_id: str) -> None:
        runs, readable = runs_folder(results_dir), slug(*names)
        usual = runs / f"{readable}-{run_id}"
        # The identity is the hash: a run made under another readable name (an alias of its rule) is the same run.
        found = sorted(folders_of(results_dir, run_id), key=lambda path: (path != usual, path))
        made = [path for path in found if oddity(path) is None]
        self.path, number = made[0] if made else usual, 2
        while not made and self.path in found:  # something else has its name
            self.path, number = runs / f"{readable}-{number}-{run_id}", number + 1
        self.copies = made[1:]
        self.run_id = run_id
        self._written: dict[str, tuple[hashlib._Hash, int]] = {}  # of RECORDED, as this process has left them
        self._headers: dict[str, list[str]] = {}  # of TABLES with rows
        self._adding: dict[str, bytes] = {}  # rows on their way into TABLES: a signal can end the process in between

    @cached_property
    def lease(self) -> Lease:
        """The lease on it."""
        return lease_on(self.path.absolute())

    def summary(self) -> dict[str, Any] | None:
        """How the run ended, or None while it has not; raises Damaged. A number may be None: it was not finite."""
        return summary_in(self.path)

    def identity(self) -> dict[str, Any] | None:
        """What defines the run of its ``config.yaml``; None if that cannot be read as the config of a run."""
        return _identity(self.path / "config.yaml")

    @property
    def ended_at(self) -> int | None:
        """When the end of the run was recorded, in the file system's time; None if it was not."""
        with suppress(OSError):
            return (self.path / "summary.json").stat().st_mtime_ns
        return None

    def open(self) -> None:
        """Create the folder and take the lease on it; raises RunLocked, CannotWrite, or Damaged if it holds links."""
        with named(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            check_plain(self.path, (*OWN, NAME))
            if not self.lease.take(patience=1):  # `robustfl-results status` holds it for an instant
                raise RunLocked(f"{self.path} is being written by another process ({self.lease.owner})")
            remove_leftovers(self.path, OWN, leased=True)
        self._written.clear()
        self._adding.clear()

    def close(self) -> None:
        """Release the lease."""
        self.lease.release()

    @property
    def deaths(self) -> int:
        """How many processes in a row have died while writing this run, without a new checkpoint, as recorded; 0 where
        that cannot be read."""
        try:
            count, before = map(int, read_text(self.path / DEATHS).split())
        except ValueError:  # Damaged is one
            return 0
        return count if before == self._checkpoint_time else 0

    @property
    def _checkpoint_time(self) -> int:
        """When the last checkpoint was written, in the file system's time; 0 if there is none."""
        checkpoint = self.path / "checkpoint.pt"
        return checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0

    def count_death(self) -> int:
        """Record that a process died while writing this run; returns how many did in a row without a new checkpoint."""
        number, reached = self.deaths + 1, self._checkpoint_time
        write_atomically(self.path / DEATHS, f"{number} {reached}")
        return number

    def _check_lease(self) -> None:
        """Raise LeaseLost if another process has taken the run over since ``open``."""
        if self.lease.is_held:
            self.lease.check()

    def checkpoint(self, stamp: sealed.Stamp) -> dict[str, Any] | None:
        """The last checkpoint with this stamp, after cutting the CSV files back to what it has seen.

        Without one the CSV files are removed, as the run starts again: returns None where there is no checkpoint, and
        raises Damaged where it, or what it has seen of the CSV files, is not what was written.
        """
        try:
            saved = sealed.load(self.path / "checkpoint.pt", stamp)
            if saved is not None:
                self._cut_back(saved.get("files"))
                return saved
        except Damaged:
            self.forget_rows()
            raise
        self.forget_rows()
        return None

    def _cut_back(self, files: Any) -> None:
        """Cut TABLES back to the recorded sizes; raises Damaged, with all as it was, unless they have the SHA-256."""
        if not isinstance(files, dict) or not set(files) <= set(TABLES):
            raise Damaged("checkpoint.pt does not record the CSV files")
        hashes = {}
        for name, entry in files.items():
            size, expected = entry if isinstance(entry, tuple) and len(entry) == 2 else (None, None)
            if not isinstance(size, int) or size < 0:
                raise Damaged(f"checkpoint.pt does not record the size of {name}")
            hashes[name], held = _hashed(self.path / name, size)
            if held < size:
                raise Damaged(f"{name} does not hold what was written before the checkpoint")
            if hashes[name].hexdigest() != expected:
                raise Damaged(f"{name} is not what was written before the checkpoint")
        self._remove(name for name in TABLES if name not in files)  # from a later round
        for name, (size, _) in files.items():
            change(self.path / name, partial(os.truncate, length=size))
        self._written |= {name: (hashes[name], size) for name, (size, _) in files.items()}

    def forget_rows(self) -> None:
        """Remove the checkpoint and all rows."""
        if names := _present(self.path, ("checkpoint.pt", *TABLES)):
            self._check_lease()
            self._remove(names)
        for name in TABLES:
            self._written.pop(name, None)

    def save_checkpoint(self, state: Mapping[str, Any], stamp: sealed.Stamp) -> None:
        """Store ``state`` (tensors and numbers) together with what the CSV files hold; raises CannotWrite."""
        self._check_lease()
        files = {}
        for name in _present(self.path, ("config.yaml", *TABLES)):
            change(self.path / name, flush)
            if name in TABLES:
                digest, size = self._state(name)
                files[name] = (size, digest.hexdigest())
        sealed.save(self.path / "checkpoint.pt", {**state, "files": files}, stamp)

    def append(self, name: str, row: Mapping[str, float]) -> None:
        """Add a row to one of TABLES; the first one brings the header. Raises CannotWrite, with no part of it added,
        and BrokenContract for a row with other columns than that."""
        self._check_lease()
        path, (digest, size) = self.path / name, self._state(name)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        header = self._headers[name] = (self._headers.get(name) or _header(path)) if size else list(row)
        if list(row) != header:
            other = ", ".join(sorted({*row} ^ {*header})) or "the same in another order"
            raise BrokenContract(f"round {row['round']:g} has other columns in {name} than the first round: {other}; "
                                 "rules and metrics must report the same in each of their rounds")  # fmt: skip
        if not size:
            writer.writerow(row)
        writer.writerow([value if isinstance(value, int) else f"{value:.8g}" for value in row.values()])
        added = self._adding[name] = text.getvalue().encode()
        append_text(path, text.getvalue())
        (digest := digest.copy()).update(added)
        self._written[name] = digest, size + len(added)
        del self._adding[name]

    def _state(self, name: str) -> "tuple[hashlib._Hash, int]":
        """The hash and the size of one of TABLES as this process has left it, kept from row to row."""
        if name not in self._written:
            self._written[name] = _hashed(self.path / name)
        return self._written[name]

    def changed(self) -> str | None:
        """The first file that is not as this process has left it, in one line: somebody else has written into it. None
        if all are."""
        for name, (digest, size) in self._written.items():
            with suppress(FileNotFoundError, Damaged):
                now, length = hashed(self.path / name)
                if (now.digest(), length) == (digest.digest(), size) or self._was_adding(name):
                    continue
            return f"{name} was changed by somebody else while the run went on"
        return None

    def _was_adding(self, name: str) -> bool:
        """Whether a file is as this process has left it, but for a row that it was adding when a signal came."""
        (digest, size), row = self._written[name], self._adding.get(name)
        if row is None:
            return False
        whole = read_regular(self.path / name)
        return hashlib.sha256(whole[:size]).digest() == digest.digest() and row.startswith(whole[size:])

    def _note(self, name: str, content: str) -> None:
        """Write a file of the run, and remember it. The next checkpoint makes it survive a power cut."""
        written = content.encode()
        stream_atomically(self.path / name, lambda: [written], lasting=False)
        self._written[name] = hashlib.sha256(written), len(written)
        self._adding.pop(name, None)

    def cut(self, round: int) -> None:
        """Drop the rows of later rounds."""
        self._check_lease()
        for name in _present(self.path, TABLES):
            lines = (self.path / name).read_text().splitlines(keepends=True)
            kept = [row for row in lines[1:] if row.endswith("\n") and int(row.split(",")[0]) <= round]
            self._note(name, "".join([lines[0], *kept]) if kept else "")

    def rows(self) -> list[dict[str, float]]:
        """The rows of ``metrics.csv``; raises Damaged."""
        try:
            lines = csv.reader(io.StringIO(read_text(self.path / "metrics.csv"), newline=""))
            names = next(lines, [])
            return [dict(zip(names, map(float, row), strict=True)) for row in lines if row]
        except (TypeError, ValueError, csv.Error) as error:
            raise error if isinstance(error, Damaged) else Damaged(f"metrics.csv cannot be read: {error}") from None

    def finish(self, summary: Mapping[str, Any], traceback: str | None = None) -> None:
        """Record how the run ended, with the sizes and SHA-256 of its files as they were written; raises CannotWrite.

        A run with a result drops its checkpoint; a failed one keeps it.
        """
        self._check_lease()
        if traceback is not None:
            write_atomically(self.path / "error.txt", traceback)
        text = json.dumps(
            seal(plain({**summary, "files": recorded(self.path, self._written)})), indent=1, allow_nan=False
        )
        write_atomically(self.path / "summary.json", text + "\n")
        self._remove([DEATHS, *(["checkpoint.pt", "error.txt"] if summary["status"] in MEASURED else [])])

    def held(self) -> dict[str, bytes]:
        """The files of a run that has ended, as they are; ``restore`` writes them again."""
        return {name: read_regular(self.path / name) for name in _present(self.path, ENDING)}

    def restore(self, files: Mapping[str, bytes]) -> None:
        """Give the folder back what it held before this attempt, the end of the run last."""
        self._check_lease()
        self._remove(["checkpoint.pt", DEATHS, *ENDING])
        for name, content in files.items():
            write_atomically(self.path / name, content)

    def tidy(self) -> None:
        """Remove the remains of a process that was killed after it recorded the result, unless one holds the lease."""
        if self.lease.owner is not None or any((self.path / name).exists() for name in ("checkpoint.pt", DEATHS)):
            with suppress(OSError, RunLocked):
                self.open()
                self._remove(["checkpoint.pt", "error.txt", DEATHS])
                self.close()

    def discard(self) -> None:
        """Remove the folder of a run that could not begin, unless it holds work of an earlier attempt or other
        files."""
        self.close()
        if not any((self.path / name).exists() for name in MADE):
            self._remove(OWN)
            with suppress(OSError):  # not empty
                for folder in (self.path, self.path.parent, self.path.parent.parent):
                    folder.rmdir()

    def begin(self, config: Mapping[str, Any], keeps_weights: bool = False) -> None:
        """Remove the end of an earlier attempt, and its weights unless they are those of the same run, and write the
        config. Raises CannotWrite, and then leaves no empty folder."""
        self._check_lease()
        self._remove(["summary.json", "error.txt", *(() if keeps_weights else (WEIGHTS,))])
        try:
            self._note("config.yaml", yaml.dump(dict(config), Dumper=_Dumper, sort_keys=True))
        except CannotWrite:
            self.discard()
            raise

    def _remove(self, names: Iterable[str]) -> None:
        for name in _present(self.path, names):
            change(self.path / name, partial(Path.unlink, missing_ok=True))


def slug(*parts: object) -> str:
    """A readable, portable folder name. Long parts are cut: a file system has names of 255 bytes at most."""
    return "-".join(re.sub(r"[^A-Za-z0-9._]+", "_", str(part))[:LONGEST] for part in parts)
