"""Reading files that a user names or that come from a stranger: regular ones only, and not more than is expected.

A pipe would never end, a device has no end, a link leads out of the folder in which it lies.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from robustfl_bench.base.public import PACKAGE

LARGEST = 1 << 28
"""The most bytes that a file is read up to, checkpoints and tables of weights apart: 256 MiB."""


class Damaged(ValueError):
    """A file is not what was written; one line says which and why."""


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
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
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
