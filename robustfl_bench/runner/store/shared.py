"""What runs have in common, within one process or among several.

Files that processes of one user on one machine share are written by the first, mapped by all, removed by the last.

A process keeps a lock of the system (``flock``) on each file that it uses. The lock ends with the process, however that
ends, so a file without one is no longer needed. What a killed process leaves is removed when the next file is written.
"""

import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from filelock import FileLock

from robustfl_bench.base.console import note_once
from robustfl_bench.runner.store import sealed
from robustfl_bench.runner.store.writing import Damaged

LEAST = 1 << 24
"""Bytes of tensors that are worth a file: 16 MiB."""

HELD = 4
"""Files that a process holds: runs of several seeds take turns."""

Content = Mapping[str, Any]
"""Tensors, numbers and words by name."""


def folder_of_user(name: str) -> Path:
    """A folder on this machine, not on a shared disk, for what processes of this user have in common.

    Raises OSError where it cannot be made, or belongs to somebody else.
    """
    user = os.getuid() if hasattr(os, "getuid") else None
    top = Path(tempfile.gettempdir()) / ("robustfl-bench" if user is None else f"robustfl-bench-{user}")
    top.mkdir(mode=0o700, exist_ok=True)
    state = top.lstat()
    if not stat.S_ISDIR(state.st_mode) or user not in (None, state.st_uid):
        raise PermissionError(errno.EPERM, "belongs to another user", str(top))
    top.chmod(0o700)
    folder = top / name
    folder.mkdir(exist_ok=True)
    return folder


class OneCopy:
    """What runs of one process have in common: in memory once, for as long as one of them holds it."""

    def __init__(self) -> None:
        self._held: WeakValueDictionary[str, _Held] = WeakValueDictionary()

    def get(self, subject: str, make: Callable[[], Content]) -> Content:
        """What ``make`` returns; what it returned before, if somebody holds that. Nobody must write into it."""
        if (held := self._held.get(subject)) is None:
            self._held[subject] = held = _Held(make())
        return held


class _Held(dict[str, Any]):
    """A content to which there can be weak references."""


class SharedFiles:
    """The files in a folder that this process shares with others.

    Raises OSError or NotImplementedError where the system or the disk has no ``flock``.
    """

    def __init__(self, folder: Path) -> None:
        try:
            import fcntl
        except ModuleNotFoundError as error:
            raise OSError(errno.ENOSYS, "no flock on this system") from error
        self._flock, self._folder, self._note = fcntl, folder, note_once()
        self._lock = FileLock(folder / "lock")  # of who looks for a file, writes it, or removes what others left
        self._held: dict[Path, tuple[int, Content]] = {}  # descriptors and contents, the last used one at the end
        with self._lock:
            self._remove_unused()

    def get(self, subject: str, make: Callable[[], Content]) -> Content:
        """What ``make`` returns, from the file of ``subject`` if there is one. Nobody must write into it.

        Without a file, one is written if the content is worth it and the disk has room for twice as much. The tensors
        of a file are mapped, so that processes share their memory.
        """
        name = hashlib.sha256(subject.encode()).hexdigest()
        path, stamp = self._folder / name, {"subject": name}
        if (held := self._held.pop(path, None)) is None:
            with self._lock:
                if (descriptor := self._hold(path)) is None:
                    self._remove_unused()
                    content = make()
                    if not self._write(path, content, stamp) or (descriptor := self._hold(path)) is None:
                        return content
                    del content
            try:
                held = descriptor, sealed.load(path, stamp) or make()
            except Damaged:
                held = descriptor, make()
        self._held[path] = held
        self.let_go(but=HELD)
        return held[1]

    def let_go(self, but: int = 0) -> None:
        """Stop holding all files ``but`` the last used ones."""
        for path in list(self._held)[: max(0, len(self._held) - but)]:
            self._remove_unless_held(path, self._held.pop(path)[0])

    def _hold(self, path: Path) -> int | None:
        """The descriptor of a file that others do not remove until it is closed; None if there is no file."""
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            self._flock.flock(descriptor, self._flock.LOCK_SH)
            if os.fstat(descriptor).st_nlink:
                return descriptor
            os.close(descriptor)  # it was removed a moment ago
        return None

    def _write(self, path: Path, content: Content, stamp: sealed.Stamp) -> bool:
        """Whether the content is worth a file, and could be written."""
        if (size := sum(getattr(value, "nbytes", 0) for value in content.values())) < LEAST:
            return False
        try:
            if shutil.disk_usage(self._folder).free < 2 * size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            sealed.save(path, content, stamp, lasting=False)
        except OSError as error:
            self._note(f"processes have copies of their samples: {self._folder}: {error.strerror}")
            return False
        return True

    def _remove_unless_held(self, path: Path, descriptor: int) -> None:
        """Remove an open file if no other process holds it, and close it."""
        try:
            self._flock.flock(descriptor, self._flock.LOCK_EX | self._flock.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.lstat()):  # no later file in its place
                path.unlink()
        except OSError:  # held, or gone
            pass
        finally:
            os.close(descriptor)

    def _remove_unused(self) -> None:
        """Remove the files that nobody holds, also those half written; called with the lock."""
        for path in self._folder.iterdir():
            if path.name.startswith("."):
                path.unlink(missing_ok=True)
            elif path.name != "lock":
                with suppress(OSError):
                    self._remove_unless_held(path, os.open(path, os.O_RDONLY | os.O_NOFOLLOW))
