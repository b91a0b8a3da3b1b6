"""The memory that a run can take on this machine: below the limits of its container or job, and beside other runs."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from filelock import FileLock

from robustfl_bench.runner.store.shared import folder_of_user

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
NO_LIMIT = 1 << 60  # bytes; groups without a limit report more, or "max"
MIB = 1 << 20


def free_bytes() -> int:
    """Bytes that this process can take now."""
    return max(0, min([_of_the_machine(), *_below_limits_of_groups(), *_below_limit_of_job()]))


class Reservations:
    """The bytes that runs on this machine, each a process, announced that they need and have not all taken yet.

    A file for each process in a folder of the machine. Those of processes that have ended do not count.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or folder_of_user("memory")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._own = self.folder / str(os.getpid())

    def lock(self) -> FileLock:
        """Held while a process compares what is free with what it needs, and announces that."""
        return FileLock(self.folder / "lock")

    def drop(self) -> None:
        """Remove the announcement of this process."""
        self._own.unlink(missing_ok=True)

    def announce(self, needed: int) -> None:
        """Announce that this process will take ``needed`` more bytes."""
        if (life := _life(os.getpid())) is not None:
            self._own.write_text(f"{life} {needed} {_held(os.getpid())}")

    def of_others(self) -> int:
        """Bytes that other processes announced and have not taken."""
        return sum(self._of_others())

    @property
    def are_others(self) -> bool:
        """Whether other processes have announced anything."""
        return any(True for _ in self._of_others())

    def _of_others(self) -> Iterator[int]:
        """The bytes that each other process announced and has not taken."""
        for path in self.folder.iterdir():
            if path.name.isdigit() and path != self._own and (left := self._left(path)) is not None:
                yield left

    @staticmethod
    def _left(path: Path) -> int | None:
        try:
            life, needed, before = path.read_text().split()
        except (OSError, ValueError):  # gone, or half written
            return None
        if life != _life(int(path.name)):
            path.unlink(missing_ok=True)
            return None
        return max(0, int(needed) - max(0, _held(int(path.name)) - int(before)))


def _of_the_machine() -> int:
    """Bytes available to programs; all memory of the machine if the system does not report them."""
    try:
        lines = (PROC / "meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _below_limits_of_groups() -> Iterator[int]:
    """Bytes free below the limit of each control group of this process, of version 1 or 2; the outer ones as well.

    In a container the path of its group may be one of the host; the root of its file system is then its own group.
    """
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        inside = PurePosixPath(path.lstrip("/"))
        for folder in (inside, *inside.parents):
            if not controllers:
                yield from _below(GROUPS / folder, "memory.max", "memory.current", "")
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
                yield from _below(GROUPS / "memory" / folder, *names)


def _below(folder: Path, limit: str, used: str, prefix: str) -> Iterator[int]:
    """The limit of a group less what it uses, if it has one; the system can take back its cache of files."""
    try:
        most = (folder / limit).read_text().strip()
        if most == "max" or int(most) >= NO_LIMIT:
            return
        pairs = [line.split() for line in (folder / "memory.stat").read_text().splitlines()]
        kinds = {f"{prefix}inactive_file", f"{prefix}active_file"}
        cache = sum(int(number) for name, number in pairs if name in kinds)
        yield int(most) - int((folder / used).read_text()) + cache
    except (OSError, ValueError):
        return


def _below_limit_of_job() -> Iterator[int]:
    """Bytes free below what a Slurm job asked for, which not every cluster enforces by a control group."""
    given = os.environ
    if (per_node := given.get("SLURM_MEM_PER_NODE", "")).isdigit():
        most = int(per_node)
    else:
        per_core, number = given.get("SLURM_MEM_PER_CPU", ""), given.get("SLURM_CPUS_ON_NODE", "")
        most = int(per_core) * int(number) if per_core.isdigit() and number.isdigit() else 0
    if most:
        yield most * MIB - sum(map(_held, _processes_of_job(given.get("SLURM_JOB_ID", ""))))


def _processes_of_job(job: str) -> Iterator[int]:
    """The processes of this user that belong to a Slurm job."""
    named = f"SLURM_JOB_ID={job}".encode()
    for path in PROC.glob("[0-9]*/environ"):
        try:
            if named in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)
        except OSError:
            continue


def _held(process: int) -> int:
    """Bytes that a process has in memory, without files that it maps and others can share; 0 if it has ended."""
    try:
        _, resident, of_files, *_ = map(int, (PROC / str(process) / "statm").read_text().split())
        return (resident - of_files) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _life(process: int) -> str | None:
    """When a process began, which tells it from a later one of the same number; None if it has ended."""
    try:
        return (PROC / str(process) / "stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
