"""Tensors and numbers in a file with its SHA-256 and what it belongs to: checkpoints, and samples of several processes.

A file is a line with the format and the length of the structure; the structure, in which tensors are places; the bytes
of the tensors, one after the other; and the SHA-256 of all before it. It is written tensor by tensor, and read by
mapping it, so neither needs memory for a second copy.
"""

import hashlib
import io
import math
import mmap
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from robustfl_bench.runner.store.writing import Damaged, read_from, stream_atomically

if TYPE_CHECKING:  # importing torch takes over a second
    import numpy as np
    from torch import Tensor

FORMAT = b"robustfl-bench checkpoint 2"  # raise the number when what is stored changes

ALIGNED = 64
"""Tensors begin at multiples of this number of bytes."""

DIGITS = 64
"""The length of a SHA-256 in hexadecimal, which ends a file."""

CHUNK = 1 << 20
"""Bytes read at a time to compare the SHA-256, and the most that are written at once unless a tensor has more."""

Stamp = Mapping[str, str]
"""The identity of a state by subject (``run``, ``code``, ``data``). A state can only continue under the same
identity."""


def save(path: Path, content: Mapping[str, Any], stamp: Stamp, lasting: bool = True) -> None:
    """Write plain containers of tensors and numbers; raises CannotWrite. ``lasting``: to survive a power cut."""
    structure = io.BytesIO()
    packer = _Packer(structure)
    packer.dump({"stamp": dict(stamp), "content": dict(content)})
    packer.clear_memo()
    tensors, packer.tensors = packer.tensors, []  # a pickler refers to itself, and lives until the next collection
    head = b"%s %d\n%s" % (FORMAT, structure.tell(), structure.getbuffer())

    def pieces() -> Iterator[bytes | memoryview]:
        total = hashlib.sha256()
        for piece in chain([memoryview(head)], map(_bytes_of, tensors)):
            for part in (piece, memoryview(bytes(-len(piece) % ALIGNED))):
                total.update(part)
                yield part
        yield total.hexdigest().encode()

    stream_atomically(path, lambda: _gathered(pieces()), lasting)


def load(path: Path, stamp: Stamp) -> dict[str, Any] | None:
    """What ``save`` wrote with the same stamp, on the CPU; None if there is no file. Raises Damaged for another file.

    Nothing is unpacked before its SHA-256 is checked, and no code is ever taken from the file. The tensors are mapped:
    they are read when they are used, and changes to them stay in this process.
    """
    try:
        structure, tensors = read_from(path, lambda file: _mapped(file, path.name))
    except FileNotFoundError:
        return None
    try:
        loaded = _Unpacker(structure, tensors).load()
        found, content = loaded["stamp"], loaded["content"]
        other = [subject for subject, value in stamp.items() if found[subject] != value]
    except Exception as error:  # unpickling raises almost anything
        raise Damaged(f"{path.name} cannot be unpacked: {type(error).__name__}") from None
    if other or not isinstance(content, dict):
        raise Damaged(f"{path.name} belongs to other {' and '.join(other) or 'content'}")
    return content


def _gathered(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The same bytes, with small pieces put together, so that a small state is written at once."""
    small = bytearray()
    for piece in pieces:
        if small and len(small) + len(piece) > CHUNK:
            yield bytes(small)
            small.clear()
        if len(piece) > CHUNK:
            yield piece
        else:
            small += piece
    yield bytes(small)


def _mapped(file: BinaryIO, name: str) -> tuple[bytes, memoryview]:
    """The structure and the bytes of the tensors in a file whose SHA-256 is right, and whose format is known."""
    size, known = os.fstat(file.fileno()).st_size, FORMAT.rpartition(b" ")
    words, _, length = file.readline(len(FORMAT) + 100).rpartition(b" ")
    if words != FORMAT:
        if words.startswith(known[0] + known[1]) and (number := words[len(known[0]) + 1 :]).isdigit():
            raise Damaged(f"{name} is of format {number.decode()}, this version reads {known[2].decode()}")
        raise Damaged(f"{name} is damaged, or of another version")
    file.seek(0)
    total, left = hashlib.sha256(), max(0, size - DIGITS)
    while chunk := file.read(min(CHUNK, left)):
        total.update(chunk)
        left -= len(chunk)
    if file.read(DIGITS + 1) != total.hexdigest().encode():
        raise Damaged(f"{name} is damaged: its content does not have its SHA-256")
    everything = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY))
    first = len(words) + 1 + len(length)
    last = first + int(length)
    return bytes(everything[first:last]), everything[last + -last % ALIGNED : size - DIGITS]


class _Packer(pickle.Pickler):
    """Pickles a structure with places, and collects the ``tensors`` that belong there."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.tensors: list[Tensor] = []
        self._places: dict[object, int] = {}
        self._size = 0

    def persistent_id(self, value: object) -> tuple[str, tuple[int, ...], int] | None:
        """Type, shape and place of a tensor. A tensor that occurs twice is stored once."""
        import torch

        if not isinstance(value, torch.Tensor):
            return None
        key = (value.data_ptr(), value.shape, value.stride(), value.dtype, value.device)
        if key not in self._places:
            self._places[key] = self._size
            self.tensors.append(value)
            self._size += (size := value.numel() * value.element_size()) + -size % ALIGNED
        return str(value.dtype).removeprefix("torch."), tuple(value.shape), self._places[key]


class _Unpacker(pickle.Unpickler):
    """A pickle is a program. Here it can make containers, strings and numbers, and take tensors from their places."""

    def __init__(self, structure: bytes, tensors: memoryview) -> None:
        super().__init__(io.BytesIO(structure))
        self._tensors = tensors

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    def persistent_load(self, place: Any) -> "Tensor":
        """The tensor at a place."""
        import torch

        name, shape, first = place
        dtype = getattr(torch, name)
        if not isinstance(dtype, torch.dtype) or not all(isinstance(length, int) and length >= 0 for length in shape):
            raise pickle.UnpicklingError(f"no tensor of type {name} and shape {shape}")
        if not (count := math.prod(shape)):
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(self._tensors, dtype=dtype, count=count, offset=first).reshape(shape)


def _bytes_of(tensor: "Tensor") -> memoryview:
    """The bytes of a tensor, row by row."""
    import torch

    plain: np.ndarray = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return plain.data
