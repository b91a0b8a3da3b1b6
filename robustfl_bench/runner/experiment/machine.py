"""The machine that runs: device, threads, signals, hardware, and the version of this package."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench import __version__
from robustfl_bench.base.children import terminable
from robustfl_bench.base.code_digest import PACKAGE, package_digest
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.experiment.plan import Request

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
            "hydra-core": version("hydra-core"),
        },
        "commit": commit(),
        "host": platform.node(),
        "processor": torch.cuda.get_device_name(device) if device and device.startswith("cuda") else processor(),
    }


def program() -> str:
    """The version of this package; from a checkout that of its commit, as ``0.2.0.dev0+g1a2b3c4d5``."""
    head, _, changes = (_checked_out() or "").partition("+")
    return f"{__version__}.dev0+g{head[:9]}{'.changes' if changes else ''}" if head else __version__


@lru_cache(maxsize=1)
def libraries() -> dict[str, str]:
    """The versions of the packages that can change the numbers of a run; imports none of them."""
    return {name: version(name) for name in ("torch", "numpy")}


@lru_cache(maxsize=1)
def processor() -> str:
    """The model of the processor if the system reports it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
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
