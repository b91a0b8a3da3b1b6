"""The kept runs of this package: lines of the CSV files in ``results/``, found by the id of a run.

Large files are compressed and named ``.csv.gz``.
"""

import csv
import gzip
import hashlib
import io
import json
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from robustfl_bench.base import regular, remembered
from robustfl_bench.base.code_digest import PACKAGE
from robustfl_bench.base.errors import DataError, one_line
from robustfl_bench.runner.store import evidence
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

Place = tuple[str, int, int]
"""A file in FOLDER, the number of one of its parts and of a line in that."""

_WIDTH = 16
_ENTRY = _WIDTH + 20
"""Bytes of an id and of an id with its place, in what is remembered of places."""

DAMAGES = (OSError, ValueError, IndexError, EOFError, zlib.error)
"""Errors of a file that is not what was written."""

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

    Only the file of the run is read, where an earlier process has remembered the places of all runs. A line that does
    not fit its seal counts as none, and so do the lines of a file that does not fit the index.
    """
    try:
        line = _line(place) if (place := _remembered_place(run_id)) else None
    except DAMAGES:
        line = _line(place) if (place := _places()[0].get(run_id)) else None
    if line is None:
        return None
    file, (names, values), is_sealed = line
    if not is_sealed and (names[-1] != SEAL or sealer(names[:-1])(values[:-1]) != values[-1]):
        return None  # edited, or damaged: it is not what was written
    return {**dict(zip(names, values, strict=True)), "file": file}


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
    except DAMAGES as error:
        raise DataError(f"cannot read {path}: {one_line(error)}") from error
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


def _line(place: Place) -> tuple[str, list[list[str]], bool]:
    """The part of a place, the names and values of its line, and whether the index seals it. Raises as ``content``."""
    file, part, line = place
    path, lines, is_sealed = _lines(file)[part]
    return path.relative_to(FOLDER).as_posix(), list(csv.reader([lines[0], lines[line]])), is_sealed


def _read_lines(file: str) -> list[tuple[Path, list[str], bool]]:
    """The parts of a file, which are all read, as one that is damaged may have replaced lines of others."""
    contents = [(part, *content(part)) for part in index_of(FOLDER).parts(FOLDER / file)]
    return [(part, text.decode().splitlines(), is_sealed) for part, text, is_sealed in contents]


_lines = cache(_read_lines)


def _remembered_place(run_id: str) -> Place | None:
    """The place of a run, which an earlier process has found. Raises one of DAMAGES where not all files are whole."""
    if (known := _remembered_places()) is None:
        raise Damaged("a file of kept runs is damaged")
    paths, places = known
    asked = f"{run_id:<{_WIDTH}}".encode()
    at = bisect_left(range(len(places) // _ENTRY), asked, key=lambda at: places[at * _ENTRY :][:_WIDTH].tobytes())
    entry = places[at * _ENTRY :][:_ENTRY].tobytes()
    if not entry.startswith(asked):
        return None
    file, part, line = map(int, entry[_WIDTH:].split())
    return paths[file], part, line


@cache
def _remembered_places() -> tuple[Sequence[str], memoryview] | None:
    """The files, and for every kept run its id and its place, in the order of ids; None if a file is damaged."""
    try:
        index = index_of(FOLDER)
        parts = [part for path in files() for part in index.parts(path)]
        new = {part: hashlib.sha256(regular.read_bytes(part)).digest() for part in parts if not index.lists(part)}
    except (*DAMAGES, DataError):
        return None
    code = remembered.code_of(Path(__file__), Path(evidence.__file__))
    subject = code and code + repr((str(FOLDER), *index.digests.items(), index.runs, *new.items())).encode()
    if (content := remembered.recall(subject)) is None:
        places, are_whole = _places()
        if not are_whole or not all(run_id.isascii() and len(run_id) <= _WIDTH for run_id in places):
            return None
        numbers = {file: number for number, file in enumerate(sorted({file for file, *_ in places.values()}))}
        entries = (
            f"{run_id:<{_WIDTH}}{numbers[file]:5}{part:5}{line:9}\n"
            for run_id, (file, part, line) in sorted(places.items())
        )
        content = memoryview(f"{json.dumps([*numbers])}\n{''.join(entries)}".encode())
        remembered.remember(subject, content)
    files_of, _, of_runs = bytes(content).partition(b"\n")
    return json.loads(files_of), memoryview(of_runs)


@cache
def _places() -> tuple[dict[str, Place], bool]:
    """The place of every kept run, and whether all files are whole: damaged ones hold no run.

    The first file with a run counts, and of a file the last part.
    """
    places: dict[str, Place] = {}
    are_whole = True
    try:
        paths = files()
    except DataError:
        return {}, False
    for path in reversed(paths):
        try:
            file = path.relative_to(FOLDER).as_posix()
            of_file = {
                line.split(",", 2)[1]: (file, part, number)
                for part, (_, lines, _) in enumerate(_read_lines(file))
                for number, line in enumerate(lines)
                if number
            }
        except DAMAGES:
            are_whole = False
        else:
            places |= of_file
    return places, are_whole
