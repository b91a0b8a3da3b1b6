"""The idx format of MNIST and its relatives (http://yann.lecun.com/exdb/mnist/): a small header, then one array."""

import math
import struct

import numpy as np

from robustfl_bench.base.errors import DataError
from robustfl_bench.parts.datasets.download import Download
from robustfl_bench.parts.datasets.files import File, Layout, Source

DTYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
PARTS = (  # in this order everywhere: name, size in bytes
    ("train-images-idx3-ubyte", 47_040_016),
    ("train-labels-idx1-ubyte", 60_008),
    ("t10k-images-idx3-ubyte", 7_840_016),
    ("t10k-labels-idx1-ubyte", 10_008),
)


def parse(content: bytes, path: str) -> np.ndarray:
    """The array in an unpacked idx file; raises DataError, beginning with ``path``, for all else.

    Header: two zero bytes, one byte for the type, one for the number of dimensions, then the dimensions as
    big-endian 32-bit integers; the values follow, row-major and big-endian, to the last byte of the file.
    """
    if len(content) < 4:
        raise DataError(f"{path}: {len(content)} bytes are too few for an idx file")
    zeros, code, ndim = struct.unpack_from(">HBB", content)
    if zeros != 0 or code not in DTYPES or ndim == 0:
        raise DataError(f"{path}: not an idx file, begins with {content[:4].hex()}, expected 0000, a type and a rank")
    start = 4 + 4 * ndim
    if len(content) < start:
        raise DataError(f"{path}: ends inside its idx header, at byte {len(content)} of {start}")
    shape = struct.unpack_from(f">{ndim}I", content, 4)
    dtype = np.dtype(DTYPES[code])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise DataError(f"{path}: holds {len(content)} bytes, its idx header of shape {shape} asks for {expected}")
    return np.frombuffer(content, dtype, offset=start).reshape(shape)


def source(
    name: str,
    folders: tuple[str, ...],
    unpacked: tuple[str, ...],
    published: tuple[str, ...],
    mirrors: tuple[str, ...],
    licence: str,
) -> Source:
    """The source of a data set in MNIST's four files, kept in any of ``folders`` and published as ``.gz``.

    ``unpacked`` and ``published`` are the SHA-256 checksums of the files without and with ``.gz``, in PARTS' order.
    """
    files = tuple(
        File(part, {f"sha256:{digest}": "official"}, size) for (part, size), digest in zip(PARTS, unpacked, strict=True)
    )
    names = [f"{part}.gz" for part, _ in PARTS]
    downloads = tuple(Download(name, digest, mirrors) for name, digest in zip(names, published, strict=True))
    layouts = tuple(Layout(folder, files) for folder in folders)
    return Source(name, layouts, licence, downloads, sizes={"official": (60_000, 10_000)})
