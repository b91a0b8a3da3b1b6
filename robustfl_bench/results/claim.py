"""The claim on a run folder: one process writes it, of all that share the folder, on one host or on many.

It is a file that ``filelock.SoftFileLease`` makes exclusively, so it needs no locks of the file system (NFS without
locks, Lustre with ``localflock``, sshfs), and holds the owner's host, process and token. A thread refreshes it.
A claim passes to another process at once when its owner is a dead process of the same host, and elsewhere when it has
not been refreshed for ``LEASE`` seconds on the clock of the observer: clocks of hosts need not agree.
An owner that lost its claim finds out in ``check``, before it writes.
"""

import time
from functools import cache
from pathlib import Path

from filelock import SoftFileLease, Timeout

from robustfl_bench.errors import Interrupted

NAME = ".claim"
LEASE = 30.0
"""Seconds without refreshment after which a claim may be taken over. The same in all processes of a sweep."""


class ClaimLost(Interrupted):
    """Another process has taken over the run, which this one must not write any more."""


class Claim:
    """The claim of this process on one run folder.

    It remembers since when the claim of another has not changed: use the same object from try to try, see ``claim_on``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lease = SoftFileLease(folder / NAME, lease_duration=LEASE, thread_local=False)
        self.was_taken_over = False  # whether its last owner before this process died with it

    @property
    def is_held(self) -> bool:
        """Whether this process has taken the claim, and not released it."""
        return self._lease.is_locked

    @property
    def owner(self) -> str | None:
        """Process and host that hold the claim, in words; None where none does."""
        owner = self._lease.owner
        return None if owner is None else f"process {owner.pid} on {owner.hostname.partition('?')[0]}"

    def take(self, patience: float = 0) -> bool:
        """Take the claim; False if another process holds it for all the seconds of ``patience``.

        Raises OSError where no file can be made.
        """
        if self.is_held:
            return True
        before = self._lease.owner
        try:
            self._lease.acquire(timeout=patience)
        except Timeout:
            return False
        self.was_taken_over = before is not None and not patience
        return True

    def check(self) -> None:
        """Raise ClaimLost unless the claim, once taken, is still that of this process."""
        for pause in (0.0, 0.05, 0.2):  # a contender that examines a claim moves its file aside for an instant
            time.sleep(pause)
            owner = self._lease.owner
            if owner is not None and owner.token == self._lease.token:
                return
        raise ClaimLost(f"{self._folder} was taken over by {self.owner or 'another process'}; nothing more is written")

    def release(self) -> None:
        """Give the claim up."""
        self._lease.release(force=True)

    def is_others(self) -> bool:
        """Whether another process holds the claim. Makes no file; one that cannot be examined counts as not held."""
        if self.is_held or not (self._folder / NAME).exists():
            return False
        try:
            if not self.take():
                return True
            self.release()
        except OSError:
            pass
        return False


@cache
def claim_on(folder: Path) -> Claim:
    """The only object in this process for the claim on ``folder``."""
    return Claim(folder)
