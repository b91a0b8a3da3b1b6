"""The heap of the C library, which this package lets keep what is freed (``_keep_freed_memory``)."""

import ctypes
import sys


def give_back() -> None:
    """Return free memory of the heap to the system: for after a large work that is not repeated, such as reading
    data."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
