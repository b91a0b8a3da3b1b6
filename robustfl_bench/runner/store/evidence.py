"""Files of evidence that are written once, and the index that seals them.

The index of a folder, ``index.sha256``, is a text that ``sha256sum --check`` reads too: a line for each file with its
SHA-256, those of kept runs first. Its last line is a comment with the SHA-256 of the lines above. A file of kept runs
in the index is never written again. What is added to it later is a part beside it: ``runs.0001.csv.gz`` is the first
part that was added to ``runs.csv.gz``.
"""

import gzip
import hashlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from robustfl_bench.base import regular
from robustfl_bench.base.errors import writable
from robustfl_bench.runner.store.lease import Lease
from robustfl_bench.runner.store.writing import Damaged, read_regular, write_atomically

INDEX = "index.sha256"
"""The name of the index in its folder."""

RESTORE = "restore it, as by git checkout"
"""What to do about a file that is not what was written."""

BEGINNING = b"run,run_id,state,"
"""The start of every file of kept runs; see ``archive``, which writes them."""

_RUNS, _OTHERS = "# kept runs", "# other measurements"
_SEAL = "# SHA-256 of the lines above: "
_LINE = re.compile(r"^([0-9a-f]{64})  (\S.*)$", re.MULTILINE)
_PART = re.compile(r".+\.\d{4}\.csv(\.gz)?")


@dataclass(frozen=True)
class EvidenceIndex:
    """The SHA-256 of each file in an index by its path from ``folder``, none where there is no index, and the paths of
    those with kept ``runs``."""

    folder: Path
    digests: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[str, ...] = ()

    def name_of(self, path: Path) -> str | None:
        """The path of a file from the folder; None for a file elsewhere."""
        place = Path(os.path.abspath(path))
        return place.relative_to(self.folder).as_posix() if place.is_relative_to(self.folder) else None

    def lists(self, path: Path) -> bool:
        """Whether a file is in the index."""
        return self.name_of(path) in self.digests

    def seals(self, path: Path, content: bytes) -> bool:
        """Whether a file has the content that the index gives to it, or is elsewhere and a copy of a file in the index.

        Raises Damaged for a file in the index that has another content.
        """
        digest = hashlib.sha256(content).hexdigest()
        if self.lists(path) and self.digests[str(self.name_of(path))] != digest:
            raise Damaged(f"{path.name} is not what was written: it does not fit {INDEX}; {RESTORE}")
        return digest in self.digests.values()

    def parts(self, path: Path) -> list[Path]:
        """A file in the index and the parts that were added to it, in their order; any other file alone.

        A part counts that is not in the index yet: its writer ended a moment too early. Raises Damaged if one of them
        is missing.
        """
        parts = [path]
        while self.lists(path) and ((later := part(path, len(parts))).exists() or self.lists(later)):
            parts.append(later)
        for each in parts:
            if self.lists(path) and not each.exists():
                raise Damaged(f"{each.name} is missing; {RESTORE}")
        return parts


def index_of(folder: Path) -> EvidenceIndex:
    """The index of a folder. Raises Damaged if it is not what was written."""
    try:
        state = (folder / INDEX).lstat()
    except FileNotFoundError:
        return EvidenceIndex(folder)
    return _read(folder, state.st_mtime_ns, state.st_size, state.st_ino)


@lru_cache(maxsize=4)
def _read(folder: Path, *state: int) -> EvidenceIndex:
    lines, seal, digest = read_regular(folder / INDEX).rpartition(_SEAL.encode())
    if not seal or digest != hashlib.sha256(lines).hexdigest().encode() + b"\n":
        raise Damaged(f"{INDEX} is not what was written: it does not fit its last line; {RESTORE}")
    sections = lines.decode().split(_OTHERS)
    runs, others = ({name: digest for digest, name in _LINE.findall(section)} for section in sections)
    return EvidenceIndex(folder, runs | others, tuple(runs))


def add(folder: Path, paths: Iterable[Path], without: Iterable[Path] = ()) -> None:
    """Put files of a folder into its index with the content that they have now, and take out ``without``.

    Only for the holder of ``lock``: the index is written anew.
    """
    index = index_of(folder)
    digests, runs = dict(index.digests), {*index.runs}
    for path in without:
        digests.pop(str(index.name_of(path)), None)
    for path in paths:
        name = str(index.name_of(path))
        digests[name] = hashlib.sha256(read_regular(path)).hexdigest()
        if path.parent != folder and holds_runs(path):
            runs.add(name)
    sections = ((_RUNS, runs & {*digests}), (_OTHERS, {*digests} - runs))
    entries = ((title, *(f"{digests[name]}  {name}" for name in sorted(names))) for title, names in sections)
    lines = "".join(f"{line}\n" for section in entries for line in section)
    write_atomically(folder / INDEX, f"{lines}{_SEAL}{hashlib.sha256(lines.encode()).hexdigest()}\n")


def holds_runs(path: Path) -> bool:
    """Whether a file begins as one of kept runs; not one that cannot be read."""
    try:
        with regular.opened(path) as packed:
            file = gzip.GzipFile(fileobj=packed) if path.suffix == ".gz" else packed
            return bool(file.read(len(BEGINNING)) == BEGINNING)
    except (OSError, ValueError, EOFError, zlib.error):
        return False


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Within this context no other process that shares the disk, on any host, adds to this folder or writes this file.

    Raises ConfigError where the lock's file, which lies there until then, cannot be written.
    """
    place = path.resolve()
    lease = Lease(place, ".lock") if place.is_dir() else Lease(place.parent, f".{place.name}.lock")
    with writable(path):
        place.parent.mkdir(parents=True, exist_ok=True)
        while not lease.take(patience=1):
            pass
    try:
        yield
    finally:
        lease.release()


def is_part(path: Path) -> bool:
    """Whether a file, by its name, was added to another one."""
    return _PART.fullmatch(path.name) is not None


def part(path: Path, number: int) -> Path:
    """The file of a part of ``path``, from 1."""
    stem, dot, kind = path.name.partition(".csv")
    return path.with_name(f"{stem}.{number:04d}{dot}{kind}")
