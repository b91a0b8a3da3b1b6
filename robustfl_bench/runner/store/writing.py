"""Files that other processes see whole or not at all, and the errors of files that cannot be written or read."""

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

from robustfl_bench.base import regular
from robustfl_bench.base.errors import TRANSIENT, writable
from robustfl_bench.base.errors import Damaged as Damaged
from robustfl_bench.base.regular import LARGEST as LARGEST


class CannotWrite(OSError):
    """A file cannot be written (no space left, no permission); ``filename`` says which."""


PIECE = 1 << 20
"""The bytes of a file that are in memory at once while it is hashed."""

PAUSES = (0.1, 0.5, 2.0)
"""Seconds between the attempts to write or read a file."""

Result = TypeVar("Result")


def persistently(attempt: Callable[[], Result]) -> Result:
    """The result of ``attempt``, which is called again after each of PAUSES while it raises one of TRANSIENT."""
    for pause in PAUSES:
        try:
            return attempt()
        except OSError as error:
            if error.errno not in TRANSIENT:
                raise
            time.sleep(pause)
    return attempt()


def read_regular(path: Path) -> bytes:
    """The content of a regular file of at most LARGEST bytes, as ``read_from`` reads it."""

    return _readable(path, lambda: regular.read_bytes(path))


def read_from(path: Path, read: Callable[[BinaryIO], Result]) -> Result:
    """What ``read`` returns for a regular file, which may come from a stranger: no link is followed, no pipe waited
    for.

    Raises FileNotFoundError, and Damaged for a link, a folder, a pipe or a device, and for a file that cannot be read.
    """

    def attempt() -> Result:
        with regular.opened(path) as file:
            return read(file)

    return _readable(path, attempt)


def _readable(path: Path, attempt: Callable[[], Result]) -> Result:
    """``persistently``, with the errors of ``read_from``."""
    try:
        return persistently(attempt)
    except FileNotFoundError:
        raise
    except regular.NotRegular as error:
        raise Damaged(f"{error}; remove it") from None
    except OSError as error:
        raise Damaged(f"{path.name} cannot be read: {error.strerror}") from None


def hashed(path: Path, size: int | None = None) -> "tuple[hashlib._Hash, int]":
    """The SHA-256 of a regular file, or of its first ``size`` bytes, as ``read_from`` reads it, and the number of bytes
    that went into it. The file may be larger than LARGEST, as it is read in pieces."""

    def content(file: BinaryIO) -> "tuple[hashlib._Hash, int]":
        digest, count = hashlib.sha256(), 0
        while piece := file.read(PIECE if size is None else min(PIECE, size - count)):
            digest.update(piece)
            count += len(piece)
        return digest, count

    return read_from(path, content)


def read_text(path: Path) -> str:
    """The text of a regular file, see ``read_regular``; raises Damaged also where there is none."""
    try:
        return read_regular(path).decode("utf-8")
    except FileNotFoundError:
        raise Damaged(f"{path.name} is missing") from None
    except UnicodeDecodeError as error:
        raise Damaged(f"{path.name} cannot be read: {error}") from None


def check_plain(folder: Path, files: Collection[str] = ()) -> None:
    """Raise Damaged if a folder, or anything in it but folders, is a link or no regular file, or if one of its
    ``files`` is a folder.

    Writing to a link would change the file that it points to.
    """
    if folder.is_symlink():
        raise Damaged(f"{folder} is a link, into which no run is written; remove it")
    with os.scandir(folder) as entries:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not entry.is_file(follow_symlinks=False):
                raise Damaged(f"{folder / entry.name} is a link or no regular file; remove it")
            if is_folder and entry.name in files:
                raise Damaged(f"{folder / entry.name} is a folder in the place of a file; remove it")


def change(path: Path, action: Callable[[Path], object]) -> None:
    """Do something to a file, ``persistently``. Raises CannotWrite."""
    with named(path):
        persistently(lambda: action(path))


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Raise CannotWrite with this path for every OSError: the system does not name the file that found no space."""
    try:
        yield
    except OSError as error:
        raise CannotWrite(error.errno, error.strerror or str(error), str(path)) from error


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file that other processes see whole or not at all, also after a power cut.

    Raises CannotWrite, with the earlier content of the file intact.
    """
    piece = content.encode() if isinstance(content, str) else content
    stream_atomically(path, lambda: [piece])


def write_output(path: Path, content: str | bytes) -> None:
    """``write_atomically`` for a file that the user named, in a folder that may not be there yet. Raises
    ConfigError."""
    with writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)


def stream_atomically(path: Path, pieces: Callable[[], Iterable[bytes | memoryview]], lasting: bool = True) -> None:
    """As ``write_atomically``, for content in ``pieces``, which are asked for anew at each attempt.

    A file that is not ``lasting`` may be lost or incomplete after a power cut; nobody waits for the disk.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")

    def attempt(path: Path) -> None:
        remove_leftovers(path.parent, [path.name])
        try:
            with open(temporary, "wb") as file:
                for piece in pieces():
                    file.write(piece)
                file.flush()
                if lasting:
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    change(path, attempt)


def append_text(path: Path, text: str) -> None:
    """Add text to the end of a file. Raises CannotWrite, with no part of the text added."""

    def attempt(path: Path) -> None:
        size = None
        try:
            with open(path, "ab") as file:
                size = file.tell()
                file.write(text.encode())
        except OSError:
            if size is not None:
                os.truncate(path, size)
            raise

    change(path, attempt)


def remove_leftovers(folder: Path, names: Collection[str], leased: bool = False) -> None:
    """Remove temporary files of killed writers of these files of a folder; they end in the process id. ``leased``: only
    this process may write the files, so leftovers of processes on any host are removed.
    """
    for other in os.listdir(folder):
        start, _, process = other.rpartition(".")
        is_temporary = start[:1] == "." and start[1:] in names and process.isdecimal()
        if is_temporary and (leased or int(process) == os.getpid() or not _is_alive(int(process))):
            (folder / other).unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def flush(path: Path) -> None:
    """Make the content of a file survive a power cut."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
