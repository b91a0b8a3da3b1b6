"""What earlier processes of this user have computed on this machine, so that later ones need not compute it again.

It lies in ``remembered`` below the folder that the environment variable ROBUSTFL_CACHE names, by default the user's
cache folder; ``off`` remembers nothing. A subject holds all that a content depends on, so no file is ever out of date:
the content of another subject is another file. A file that is damaged or that somebody else could have written counts
as none, and so does a folder that cannot be made or written.
"""

import hashlib
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from robustfl_bench.base import regular

VARIABLE = "ROBUSTFL_CACHE"

OFF = "off"
"""The value of VARIABLE with which nothing is remembered."""

ROOM = 1 << 29
"""The most bytes that the folder keeps. Of more, those files go that were not used for longest."""

STARTED = time.time() - 1
"""A second before this module was imported, since when code may be other than that in the files."""

_DAY = 24 * 60 * 60
_SEAL = hashlib.sha256().digest_size


@cache
def code_of(*files: Path) -> bytes | None:
    """The digest of the source files of a computation, for its subject; None if one was written since this process
    began, which may then compute with other code than it says."""
    total = hashlib.sha256()
    for file in files:
        if file.stat().st_mtime > STARTED:
            return None
        total.update(hashlib.sha256(f"{file}\n".encode() + file.read_bytes()).digest())
    return total.digest()


def recall(subject: bytes | None) -> memoryview | None:
    """What ``remember`` was given for this subject; None if there is nothing."""
    if subject is None or (folder := _folder(os.environ.get(VARIABLE, ""))) is None:
        return None
    path = folder / _name(subject)
    try:
        with regular.opened(path) as file:
            state = os.fstat(file.fileno())
            content = memoryview(file.read()) if _is_private(state) else memoryview(b"")
        if content[:_SEAL] != _seal(path.name, [content[_SEAL:]]):
            return None
        if state.st_mtime < time.time() - _DAY:
            os.utime(path)
    except (OSError, ValueError):
        return None
    return content[_SEAL:]


def remember(subject: bytes | None, *pieces: bytes | memoryview) -> None:
    """Keep the content of a subject for later processes, which see it whole or not at all. Where it cannot be written,
    nothing happens."""
    if subject is None or (folder := _folder(os.environ.get(VARIABLE, ""))) is None:
        return
    name = _name(subject)
    with suppress(OSError):
        descriptor, temporary = tempfile.mkstemp(prefix=".", dir=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines([_seal(name, pieces), *pieces])
            os.replace(temporary, folder / name)
        except BaseException:
            os.unlink(temporary)
            raise
        _make_room(folder)


@cache
def _folder(named: str) -> Path | None:
    """The folder, made if it is not there; None where there is none that this user alone can write."""
    if named == OFF:
        return None
    from platformdirs import user_cache_path

    folder = (Path(named).expanduser() if named else user_cache_path("robustfl_bench")) / "remembered"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.lstat()
    except (OSError, RuntimeError):
        return None
    return folder if stat.S_ISDIR(state.st_mode) and _is_private(state) else None


def _is_private(state: os.stat_result) -> bool:
    """Whether a file or a folder is this user's, and closed to all others."""
    return not hasattr(os, "getuid") or (state.st_uid == os.getuid() and not state.st_mode & 0o077)


def _name(subject: bytes) -> str:
    return hashlib.sha256(f"{sys.version} {sys.byteorder}\n".encode() + subject).hexdigest()


def _seal(name: str, pieces: Iterable[bytes | memoryview]) -> bytes:
    """SHA-256 over the subject and the content."""
    total = hashlib.sha256(name.encode())
    for piece in pieces:
        total.update(piece)
    return total.digest()


@cache
def _make_room(folder: Path) -> None:
    """Remove the files that were not used for longest until the others fit into ROOM; once a process."""
    with suppress(FileNotFoundError):  # another process removes them
        states = {path: path.stat() for path in folder.iterdir()}
        total = sum(state.st_size for state in states.values())
        for path in sorted(states, key=lambda path: states[path].st_mtime):
            if total <= ROOM:
                break
            total -= states[path].st_size
            path.unlink(missing_ok=True)
