"""The machine under a run: its threads, its signals, and what it is."""

import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from robustfl_bench import __version__
from robustfl_bench.experiment.plan import Plan, num_params

PACKAGE = Path(__file__).resolve().parent.parent
SMALL = 2e9  # samples x parameters of a round up to which a second thread costs more than it brings


def choose_threads(planned: Plan, samples: int) -> int:
    s = planned.settings
    if s.num_threads is not None:
        return s.num_threads
    dim = num_params(planned.parts.model, planned.parts.dataset)
    per_round = samples if s.batch_size is None else min(samples, s.batch_size * s.clients_per_round)
    if per_round * dim < SMALL:
        return 1
    given = os.environ.get("SLURM_CPUS_PER_TASK") or os.environ.get("OMP_NUM_THREADS")
    if given and given.isdigit():
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # macOS has none


@contextmanager
def threads(number: int) -> Iterator[int]:
    """Threads of PyTorch and of NumPy's BLAS; SIGTERM ends the run as Ctrl-C does, after a checkpoint."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)) if main else None
    try:
        with threadpool_limits(number, user_api="blas"):
            yield number
    finally:
        torch.set_num_threads(before)
        if main:
            signal.signal(signal.SIGTERM, handler)


def facts() -> dict[str, Any]:
    """Versions, commit, host and processor, for the summary of a run."""
    import torch

    return {
        "versions": {
            "robustfl-bench": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "hydra-core": version("hydra-core"),
        },
        "commit": _commit(),
        "host": platform.node(),
        "processor": platform.processor() or platform.machine(),
    }


@lru_cache(maxsize=1)
def _commit() -> str | None:
    """The commit of a source checkout, with ``+changes`` when files differ from it."""
    if not (PACKAGE.parent / ".git").exists():
        return None
    try:
        commit, changed = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "-uno")
    except (OSError, subprocess.TimeoutExpired):
        return None
    return commit + ("+changes" if changed else "") or None


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=PACKAGE.parent, capture_output=True, text=True, timeout=10)
    return done.stdout.strip()
