"""The lease on a run folder, or on a file of results: one process writes it, of all that share the folder, on one host
or on many.

It is a file that ``filelock.SoftFileLease`` makes exclusively, so it needs no locks of the file system (NFS without
locks, Lustre with ``localflock``, sshfs), and holds the owner's host, process and token. A thread refreshes it.
A lease passes to another process at once when its owner is a dead process of the same host, and elsewhere when it has
not been refreshed for ``EXPIRY`` seconds on the clock of the observer: clocks of hosts need not agree.
An owner that lost its lease finds out in ``check``, before it writes.
"""

import os
import secrets
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import SoftFileLease, Timeout

from robustfl_bench.base.errors import Interrupted

NAME = ".claim"
"""The file of a lease. Processes of other versions that share the folder look for this name."""

EXPIRY = 30.0
"""Seconds without refreshment after which a lease expires. The same in all processes of a sweep."""


class LeaseLost(Interrupted):
    """Another process has taken over the run, which this one must not write any more."""


class Lease:
    """The lease of this process on one run folder, or on what another ``name`` stands for. It remembers how long the
    lease of another process has been unchanged, so all attempts must use the same object, see ``lease_on``.
    """

    def __init__(self, folder: Path, name: str = NAME) -> None:
        self._folder, self._place = folder, folder / name
        self._file = SoftFileLease(self._place, lease_duration=EXPIRY, thread_local=False)
        self._seen: tuple[tuple[int, bytes], float] | None = None  # another's lease, and the time since it is unchanged
        self.was_taken_over = False  # whether the previous owner died with the lease

    @property
    def is_held(self) -> bool:
        """Whether this process has taken the lease, and not released it."""
        return self._file.is_locked

    @property
    def owner(self) -> str | None:
        """The process and host that hold the lease, in words; None if it is free."""
        owner = self._file.owner
        return None if owner is None else f"process {owner.pid} on {owner.hostname.partition('?')[0]}"

    def take(self, patience: float = 0) -> bool:
        """Take the lease; False if another process holds it for all the seconds of ``patience``.

        Raises OSError where no file can be made.
        """
        if self.is_held:
            return True
        before = self._file.owner
        taken = self._acquired(patience) or (self._free() and self._acquired())
        self.was_taken_over = taken and before is not None and not patience
        return taken

    def _acquired(self, patience: float = 0) -> bool:
        try:
            self._file.acquire(timeout=patience)
        except Timeout:
            return False
        return True

    def _free(self) -> bool:
        """Remove the lease of an owner that is dead or has not refreshed it for ``EXPIRY``; returns whether it was
        removed.

        ``filelock`` takes such a lease over itself, but only on file systems that can exchange two files at once: not
        on NFS, SMB and FUSE. Here the lease is moved aside, which one of several processes can do, and examined there.
        A live one goes back; should another process have made one in between, its owner finds out in ``check``.
        """
        path = self._place
        try:
            now, content = path.stat(), path.read_bytes()
            seen = (now.st_mtime_ns, content)
            if self._seen is None or self._seen[0] != seen:
                self._seen = seen, time.monotonic()
            if time.monotonic() - self._seen[1] < EXPIRY and not _is_of_the_dead(content):
                return False
            aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
            path.rename(aside)
            is_the_one = (aside.stat().st_mtime_ns, aside.read_bytes()) == seen
            if not is_the_one:
                with suppress(FileExistsError):
                    os.link(aside, path)
            aside.unlink()
        except FileNotFoundError:  # another process was faster
            return False
        return is_the_one

    def check(self) -> None:
        """Raise LeaseLost unless the lease, once taken, is still that of this process."""
        for pause in (None, 0.05, 0.2):  # a contender that examines a lease moves its file aside for an instant
            if pause is not None:
                time.sleep(pause)
            token = str(self._file.token).encode()
            with suppress(OSError):
                if token in self._place.read_bytes():
                    return
        fate = f"taken over by {self.owner}" if self.owner else "removed or replaced while the run went on"
        raise LeaseLost(f"{self._folder} was {fate}; nothing more is written")

    def release(self) -> None:
        """Give the lease up."""
        self._file.release(force=True)

    def is_others(self) -> bool:
        """Whether another process holds the lease. Makes no file; one that cannot be examined counts as not held."""
        if self.is_held or not self._place.exists():
            return False
        try:
            if not self.take():
                return True
            self.release()
        except OSError:
            pass
        return False


def _is_of_the_dead(content: bytes) -> bool:
    """Whether the owner of a lease is a process of this host that has ended: ``filelock`` takes over a copy of it."""
    with TemporaryDirectory() as folder:
        copy = Path(folder) / NAME
        copy.write_bytes(content)
        file = SoftFileLease(copy, lease_duration=EXPIRY)
        try:
            file.acquire(timeout=0)
        except Timeout:
            return False
        file.release()
    return True


@cache
def lease_on(folder: Path) -> Lease:
    """The only object in this process for the lease on ``folder``."""
    return Lease(folder)
