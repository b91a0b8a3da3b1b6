"""Reading files that a user names or that come from a stranger: regular ones only, and not more than is expected.

A pipe would never end, a device has no end, a link leads out of the folder in which it lies.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from robustfl_bench.base.errors import Damaged
from robustfl_bench.base.public import PACKAGE

LARGEST = 1 << 28
"""The most bytes that a file is read up to, checkpoints and tables of weights apart: 256 MiB."""


class NotRegular(Damaged):
    """Something else is in the place of a file."""


@contextmanager
def opened(path: str | Path, follow: bool = False) -> Iterator[BinaryIO]:
    """A regular file, opened without waiting for anybody. A link is followed only if it is to ``follow``, and within
    this package, whose files some installers link.

    Raises NotRegular, and OSError if the file cannot be opened.
    """
    path = Path(path)
    follow = follow or PACKAGE in path.parents
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotRegular(f"{path.name} is a link, which is not followed") from None
        raise
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(kind):  # for which fdopen would leave the descriptor open
        os.close(descriptor)
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(kind):
            raise NotRegular(f"{path.name} is no regular file")
        yield file


def read_bytes(path: str | Path, largest: int = LARGEST, follow: bool = False) -> bytes:
    """The content of a regular file of at most ``largest`` bytes; raises as ``opened`` does, and Damaged."""
    with opened(path, follow) as file:
        if (size := os.fstat(file.fileno()).st_size) > largest:
            raise Damaged(f"{Path(path).name} has {size} bytes; at most {largest} are read")
        return file.read(largest)


def read_text(path: str | Path, largest: int = LARGEST, follow: bool = False) -> str:
    """The same as text; raises UnicodeDecodeError for bytes that are none."""
    return read_bytes(path, largest, follow).decode("utf-8")


State = tuple[tuple[str, int, int], ...]
"""Name, size and time of change of files."""


def state_of(place: Path) -> State:
    """The state of a file, or of the files in a folder, at any depth; empty if there is none that can be read."""
    try:
        files = (
            sorted(path for path in place.rglob("*") if path.is_file())
            if place.is_dir()
            else [place][: place.is_file()]
        )
        stats = [(path.relative_to(place).as_posix(), path.stat()) for path in files]
        return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
    except (OSError, ValueError):
        return ()


def digest_of(place: Path) -> str | None:
    """The SHA-256 of a file, or of the names and contents of the files in a folder; None if it cannot be read."""
    state = state_of(place)
    try:
        return _digest(place.resolve(), state) if state else None
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=64)
def _digest(place: Path, state: State) -> str:
    if not place.is_dir():
        return _content(place)
    return hashlib.sha256("".join(f"{name} {_content(place / name)}\n" for name, _, _ in state).encode()).hexdigest()


def _content(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
