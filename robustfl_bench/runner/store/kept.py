"""The kept runs of this package: lines of the CSV files in ``results/``, found by the id of a run.

Large files are compressed and named ``.csv.gz``.
"""

import csv
import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from robustfl_bench.base import regular
from robustfl_bench.base.code_digest import PACKAGE
from robustfl_bench.base.errors import DataError
from robustfl_bench.runner.store.evidence import INDEX, holds_runs, index_of, is_part
from robustfl_bench.runner.store.writing import Damaged

FOLDER = PACKAGE / "kept" if (PACKAGE / "kept").is_dir() else PACKAGE.parent / "results"  # inside a wheel
"""The folder of the files of kept runs."""

SEAL = "seal"
"""The last column of every such file: see ``sealer``."""

SUPERSEDES = "supersedes"
"""The column of a part with the seal of the earlier line that a line replaces, if it replaces one."""

ARENA = "arena"
"""The folder of the arena's runs, which tables of papers do not read: there are many and they need none."""

LARGEST = 1 << 30
"""The most bytes that a file of runs is read up to, unpacked: a small compressed file can hold any number."""


@cache
def files() -> tuple[Path, ...]:
    """The files of kept runs, in the index or not, without parts that were added to them. Raises DataError for an index
    that is not what was written."""
    try:
        index = index_of(FOLDER)
    except Damaged as error:
        raise DataError(f"cannot read {FOLDER / INDEX}: {error}") from error
    others = {path for kind in ("csv", "csv.gz") for path in FOLDER.glob(f"*/**/*.{kind}") if not index.lists(path)}
    paths = {*(FOLDER / name for name in index.runs), *filter(holds_runs, others)}
    return tuple(sorted(path for path in paths if not is_part(path)))


def find(run_id: str) -> Mapping[str, str] | None:
    """The facts and settings of the kept run of this id as text, and its file under ``file``; None if there is none.

    The files are indexed once per process; only the line of the run is parsed. A line that does not fit its seal counts
    as none, and so do the lines of a file that does not fit the index.
    """
    if (place := _places().get(run_id)) is None:
        return None
    path, header, line, is_sealed = place
    names, values = csv.reader([header, line])
    if not is_sealed and (names[-1] != SEAL or sealer(names[:-1])(values[:-1]) != values[-1]):
        return None  # edited, or damaged: it is not what was written
    return {**dict(zip(names, values, strict=True)), "file": path.relative_to(FOLDER).as_posix()}


def content(path: Path) -> tuple[bytes, bool]:
    """The bytes of a file, unpacked, and whether the index of the package seals them.

    Raises FileNotFoundError, and ValueError, OSError, EOFError or zlib.error for a file that is not what the index
    says, cannot be unpacked, or holds more than LARGEST.
    """
    packed = regular.read_bytes(path)
    is_sealed = index_of(FOLDER).seals(path, packed)
    if path.suffix != ".gz":
        return packed, is_sealed
    with gzip.open(io.BytesIO(packed)) as file:
        unpacked: bytes = file.read(LARGEST + 1)
    if len(unpacked) > LARGEST:
        raise ValueError(f"it holds more than {LARGEST >> 20} MiB, more than any file of runs")
    return unpacked, is_sealed


def sealed_content(path: Path) -> bytes:
    """The bytes of a file of measurements, unpacked. Raises DataError unless it is what the index of the package
    says."""
    try:
        measurements, is_sealed = content(path)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {' '.join(str(error).split())}") from error
    if not is_sealed:
        raise DataError(f"{path} is not in {FOLDER / INDEX}, so nobody can tell whether its numbers were changed")
    return measurements


def sealer(names: Iterable[str]) -> Callable[[Iterable[str]], str]:
    """What makes the seal of a line of values below these names of columns: the beginning of the SHA-256 of both, eight
    hex digits. Without names, the seals of older files, which leave the names open."""
    start = hashlib.sha256("".join(f"{name}\x1e" for name in names).encode())

    def seal(values: Iterable[str]) -> str:
        digest = start.copy()
        digest.update("\x1f".join(values).encode())
        return digest.hexdigest()[:8]

    return seal


def is_of_arena(path: Path) -> bool:
    """Whether a file of kept runs is of the arena."""
    return path.relative_to(FOLDER).parts[0] == ARENA


@cache
def _places() -> dict[str, tuple[Path, str, str, bool]]:
    """The file, its header, the line, and whether the index seals it, of every kept run.

    The first file with a run counts, and of a file the last part.
    """
    places: dict[str, tuple[Path, str, str, bool]] = {}
    try:
        paths = files()
    except DataError:
        return {}
    for path in reversed(paths):
        of_file: dict[str, tuple[Path, str, str, bool]] = {}
        with suppress(OSError, ValueError, IndexError, EOFError, zlib.error):  # damaged: it holds no run
            for part in index_of(FOLDER).parts(path):
                text, is_sealed = content(part)
                header, *lines = text.decode().splitlines()
                of_file |= {line.split(",", 2)[1]: (part, header, line, is_sealed) for line in lines}
            places |= of_file
    return places
