"""The kept runs of this package: lines of the CSV files in ``results/``, found by the id of a run.

Large files are compressed and named ``.csv.gz``.
"""

import csv
import gzip
import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TextIO, cast

from robustfl_bench.base.code_digest import PACKAGE

FOLDER = PACKAGE / "kept" if (PACKAGE / "kept").is_dir() else PACKAGE.parent / "results"  # inside a wheel
"""The folder of the files of kept runs."""

BEGINNING = "run,run_id,state,"
"""The start of the first line of every such file; see ``results.archive``, which writes them."""


SEAL = "seal"
"""The last column of every such file: the beginning of the SHA-256 of the other values of the line."""

ARENA = "arena"
"""The folder of the arena's runs, which tables of papers do not read: there are many and they need none."""


@cache
def files() -> tuple[Path, ...]:
    """The files of kept runs."""
    found = sorted(path for kind in ("csv", "csv.gz") for path in FOLDER.glob(f"*/**/*.{kind}"))
    return tuple(path for path in found if _first_line(path).startswith(BEGINNING))


def find(run_id: str) -> Mapping[str, str] | None:
    """The facts and settings of the kept run of this id as text, and its file under ``file``; None if there is none.

    The files are indexed once per process; only the line of the run is parsed. A line that does not fit its seal counts
    as none.
    """
    if (place := _places().get(run_id)) is None:
        return None
    path, line = place
    names, values = csv.reader([_first_line(path), line])
    if names[-1] != SEAL or seal_of(values[:-1]) != values[-1]:
        return None  # edited, or damaged: it is not what was written
    return {**dict(zip(names, values, strict=True)), "file": path.relative_to(FOLDER).as_posix()}


def seal_of(values: Iterable[str]) -> str:
    """The seal of a line with these values: eight hex digits."""
    return hashlib.sha256("\x1f".join(values).encode()).hexdigest()[:8]


def is_of_arena(path: Path) -> bool:
    """Whether a file of kept runs is of the arena."""
    return path.relative_to(FOLDER).parts[0] == ARENA


@cache
def _places() -> dict[str, tuple[Path, str]]:
    """The file and the line of every kept run; the first file with a run counts."""
    found: dict[str, tuple[Path, str]] = {}
    for path in files():
        with _opened(path) as file:
            for line in file.read().splitlines()[1:]:
                found.setdefault(line.split(",", 2)[1], (path, line))
    return found


@cache
def _first_line(path: Path) -> str:
    with _opened(path) as file:
        return file.readline().rstrip("\n")


def _opened(path: Path) -> TextIO:
    opened = gzip.open if path.suffix == ".gz" else open
    return cast(TextIO, opened(path, "rt", encoding="utf-8"))
