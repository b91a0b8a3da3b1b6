"""robustfl_bench: experiments in Byzantine-robust federated learning, from a composed config to a paper's table."""

import ctypes
import os
import sys

# Idle OpenMP threads that spin steal the cores from the BLAS of NumPy and from neighbouring runs: one Gram matrix
# took five times as long. The libraries read this once, when they are loaded, so it has to be here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _keep_freed_memory() -> None:
    """Let the C library keep what a batch frees for the next one: up to a quarter of a convolutional network's time."""
    given = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if sys.platform == "linux" and not given and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(-3, 1 << 28)  # M_MMAP_THRESHOLD: blocks up to this size come from the heap
        libc.mallopt(-1, (1 << 31) - 1)  # M_TRIM_THRESHOLD: which keeps this much for later


_keep_freed_memory()

__version__ = "0.1.0"
