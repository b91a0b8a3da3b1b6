"""Matrices in files, for updates that are larger than the memory: tensors (n, d) like others, to the same bytes.

Blocks of columns, by which rules read the updates, are read from the file into memory. All else sees the file mapped
into memory, where a thread keeps few of its pages; the kernel alone would keep them as long as any memory is free.
"""

import mmap
import os
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustfl_bench.base.errors import ConfigError

Array = NDArray[np.float32]

BLOCK = 1 << 28  # bytes of the largest block of columns that is read at once; wider ones are mapped
APART = 1 << 10  # columns; of those that are farther apart, numbers are read one by one
RESIDENT = 1 << 28  # bytes of mapped files that stay in memory
PAUSE = 0.002  # seconds between two looks at them
STATM = Path("/proc/self/statm")


def empty(n: int, d: int, folder: Path) -> Tensor:
    """An uninitialised float32 matrix (n, d) in a file in ``folder``, which ends with the tensor or the process.

    The room is taken at once, as a full disk would end the process later. Raises ConfigError if there is too little.
    """
    if n * d == 0:
        return torch.empty(n, d)
    size, file = 4 * n * d, tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (it is closed with the tensor)
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        file.close()
        wanted = f"{n} updates of {d} parameters need a file of {size / 1e9:.3g} GB in {folder}"
        raise ConfigError(f"{wanted}: {error.strerror}; free some room or choose another results_dir") from error
    pages = mmap.mmap(file.fileno(), size)
    _watch(pages)
    return _in_file(torch.from_numpy(np.frombuffer(pages, dtype=np.float32).reshape(n, d)), file)


class InFile(Tensor):
    """A matrix (n, d) in a ``file``, or some rows or columns of it. Blocks of columns are copies, for reading only."""

    file: IO[bytes]
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment] # results are plain tensors

    def __getitem__(self, index: Any) -> Tensor:
        if (columns := _columns(index, self.shape)) is not None:
            return torch.from_numpy(self._read(columns))
        part = super().__getitem__(index)
        view = isinstance(index, slice) or (isinstance(index, tuple) and all(isinstance(each, slice) for each in index))
        return _in_file(part, self.file) if view else part

    def detach(self) -> Tensor:
        """The matrix itself."""
        return self

    def cpu(self, *_: Any, **__: Any) -> Tensor:
        """The matrix itself."""
        return self

    def numpy(self, **_: Any) -> Any:
        """The matrix as an array, of which blocks of columns are read from the file as well."""
        array = super().numpy().view(_Array)
        array.matrix = self
        return array

    def _read(self, columns: range) -> Array:
        """The chosen columns (n, k), from the file."""
        start, stride = int(self.storage_offset()), int(self.stride(0))
        found = np.empty((len(self), len(columns)), dtype=np.float32)
        together = columns.step == 1
        for row, values in enumerate(found):
            first = 4 * (start + row * stride + columns.start)
            pieces = [values] if together else values[:, None]
            for i, piece in enumerate(pieces):
                os.preadv(self.file.fileno(), [piece], first + 4 * i * columns.step)
        return found


class _Array(np.ndarray):
    """The array of a matrix in a file."""

    matrix: InFile | None = None

    def __getitem__(self, index: Any) -> Any:
        if self.matrix is not None and (columns := _columns(index, self.shape)) is not None:
            return self.matrix._read(columns)
        return super().__getitem__(index).view(np.ndarray)


def _in_file(matrix: Tensor, file: IO[bytes]) -> InFile:
    stored = matrix.as_subclass(InFile)
    stored.file = file
    return stored


def _columns(index: Any, shape: tuple[int, ...]) -> range | None:
    """The columns to read for an ``index`` of a matrix; None to map them."""
    if not (isinstance(index, tuple) and len(index) == 2 and index[0] == slice(None) and isinstance(index[1], slice)):
        return None
    columns = range(shape[1])[index[1]]
    few = 4 * shape[0] * len(columns) <= BLOCK
    return columns if few and (columns.step == 1 or columns.step >= APART) else None


_mapped: "weakref.WeakSet[mmap.mmap]" = weakref.WeakSet()
_starting = threading.Lock()
_watcher: threading.Thread | None = None


def _watch(pages: mmap.mmap) -> None:
    """From now on, keep few of these pages in memory."""
    global _watcher
    with _starting:
        _mapped.add(pages)
        if _watcher is None and STATM.exists():
            _watcher = threading.Thread(target=_release_in_turn, name="pages of files", daemon=True)
            _watcher.start()


def _release_in_turn() -> None:
    """Release the pages of all mapped files whenever they are many, until no file is left."""
    global _watcher
    least = _resident()
    while True:
        with _starting:
            if not (files := list(_mapped)):
                _watcher = None
                return
        if _resident() > least + RESIDENT:
            for pages in files:
                pages.madvise(mmap.MADV_DONTNEED)  # of a shared mapping: what was written stays in the file
            least = min(least, _resident())  # other threads map pages meanwhile
        del files
        time.sleep(PAUSE)


def _resident() -> int:
    """The bytes of files, libraries included, that are in the memory of this process."""
    return int(STATM.read_text().split()[2]) * mmap.PAGESIZE
