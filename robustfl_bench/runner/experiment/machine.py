"""The machine that runs: device, threads, signals, hardware, and the memory that a run can take, below the limits of a
container or job and beside other runs."""

import ctypes
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from robustfl_bench import __version__
from robustfl_bench.base.children import terminable
from robustfl_bench.base.code_digest import PACKAGE, package_digest
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.store.shared import folder_of_user

if TYPE_CHECKING:
    import torch


SMALL = 5e7  # samples x parameters of a round up to which a second thread saves no time


def work_of_round(request: Request, samples: int) -> int:
    """Samples of a round times parameters, if there are ``samples`` in all."""
    s, dim = request.settings, request.dim
    return dim * (samples if s.batch_size is None else min(samples, s.batch_size * s.clients_per_round))


def choose_threads(request: Request, samples: int) -> int:
    """The number of threads that share the work of a run."""
    if request.settings.num_threads is not None:
        return request.settings.num_threads
    if work_of_round(request, samples) < SMALL:
        return 1
    given = os.environ.get("SLURM_CPUS_PER_TASK") or os.environ.get("OMP_NUM_THREADS")
    if given and given.isdigit():
        return int(given)
    return max(1, cores() // request.settings.processes)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # macOS has none


@contextmanager
def threads(number: int) -> Iterator[int]:
    """Threads that share a run's work; SIGTERM ends the run as Ctrl-C does, after a checkpoint."""
    from robustfl_bench.base.parallel import workers

    with workers(number), terminable():
        yield number


def choose_device(named: str) -> "torch.device":
    """The device of ``auto``, ``cpu``, ``cuda`` or ``cuda:N``; raises ConfigError where there is none."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if named == "auto":
        return torch.device("cuda" if count else "cpu")
    kind, colon, number = named.partition(":")
    if kind == "cuda" and not count:
        raise ConfigError(f"device={named} but no CUDA device is visible; use device=cpu or device=auto")
    if colon and (kind != "cuda" or not number.isdecimal()):
        raise ConfigError(f"device must be auto, cpu, cuda or cuda:N, got {named!r}")
    if colon and int(number) >= count:
        raise ConfigError(f"device={named} but the CUDA devices are cuda:0 to cuda:{count - 1}; use one of these")
    return torch.device(named)


def unused_gpu(named: str, device: "torch.device") -> str | None:
    """A line where a GPU is set aside for this process, as Slurm and Ray do, but ``auto`` took the CPU; else None."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named != "auto" or device.type != "cpu" or not given or given == "-1":
        return None
    return f"CUDA_VISIBLE_DEVICES={given} names a GPU, but PyTorch finds none: device=auto takes the CPU"


def release_gpu() -> None:
    """Give memory that past runs of this process had on its GPU, and no run uses, to other processes."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def facts(device: str | None) -> dict[str, Any]:
    """Versions, code, host, and the kind of processor behind ``device``, for the summary of a run."""
    import torch

    return {
        "versions": {
            "robustfl-bench": program(),
            "python": platform.python_version(),
            **libraries(),
            "hydra-core": _version("hydra-core"),
        },
        "commit": commit(),
        "host": platform.node(),
        "processor": torch.cuda.get_device_name(device) if device and device.startswith("cuda") else processor(),
    }


def program() -> str:
    """The version of this package; from a checkout that of its commit, as ``0.2.0.dev0+g1a2b3c4d5``."""
    head, _, changes = (_checked_out() or "").partition("+")
    return f"{__version__}.dev0+g{head[:9]}{'.changes' if changes else ''}" if head else __version__


def libraries() -> dict[str, str]:
    """The versions of the packages that can change the numbers of a run; imports none of them."""
    return {name: _version(name) for name in ("torch", "numpy")}


_version = lru_cache(version)  # which reads the files of a package


_UNITS = {"avx512": "avx512f", "amx": "amx_tile"}
"""Units of a processor that change how sums are rounded, with the flags that say so."""


@lru_cache(maxsize=1)
def processor() -> str:
    """The model of the processor if the system reports it, else its architecture.

    Hosts give one name to several generations, so that on Linux its family, its model and its wide units follow:
    "AMD EPYC (family 25, model 17, avx512)".
    """
    try:
        first, _, _ = Path("/proc/cpuinfo").read_text().partition("\n\n")
        entries = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
        units = [name for name, flag in _UNITS.items() if flag in entries["flags"].split()]
        kind = (f"family {entries['cpu family']}", f"model {entries['model']}", *units)
        return f"{entries['model name']} ({', '.join(kind)})"
    except (OSError, KeyError):
        pass
    try:
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]  # macOS
        told = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        told = ""
    return told or platform.processor() or platform.machine()


@lru_cache(maxsize=1)
def commit() -> str:
    """The commit of this code, with ``+changes`` when files differ from it; without one its version and digest."""
    return _checked_out() or _installed_from() or f"{__version__}+sha256.{package_digest()[:12]}"


@lru_cache(maxsize=1)
def _checked_out() -> str | None:
    """The commit of a source checkout; None without one."""
    if not (PACKAGE.parent / ".git").exists():
        return None
    try:
        head, changed = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "-uno")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+changes" if changed else "")


def _installed_from() -> str | None:
    """The commit that pip recorded when it installed this package from a repository."""
    try:
        note = json.loads(distribution("robustfl-bench").read_text("direct_url.json") or "{}")
        return str(note["vcs_info"]["commit_id"])
    except (PackageNotFoundError, ValueError, KeyError, TypeError):
        return None


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=PACKAGE.parent, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


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


def give_back() -> None:
    """Return free memory of the C library's heap to the system, which this package lets keep it
    (``_keep_freed_memory``): for after a large work that is not repeated, such as reading data."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
