"""Encodings of numbers as bytes to send: floats unchanged, whole numbers of a small range in few bits."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor


class Code(Protocol):
    """A lossless encoding of a chunk of float32 numbers (d,) as bytes."""

    def num_bytes(self, d: int) -> int:
        """Number of bytes for d numbers; the last byte is filled up."""

    def encode(self, numbers: Tensor) -> Tensor:
        """The numbers (d,) as bytes, uint8."""

    def decode(self, encoded: Tensor, d: int) -> Tensor:
        """The d numbers in these bytes, float32."""


class Floats:
    """Real numbers, four bytes each."""

    def num_bytes(self, d: int) -> int:
        return 4 * d

    def encode(self, numbers: Tensor) -> Tensor:
        return torch.from_numpy(numbers.numpy().view(np.uint8))

    def decode(self, encoded: Tensor, d: int) -> Tensor:
        return torch.from_numpy(encoded.numpy().view(np.float32))


@dataclass(frozen=True)
class Packed:
    """Numbers ``low``, ``low + step``, ``low + 2 step`` ... in ``bits`` bits each, at most 32."""

    low: int
    step: int
    bits: int

    def num_bytes(self, d: int) -> int:
        return -(-d * self.bits // 8)

    def encode(self, numbers: Tensor) -> Tensor:
        index = ((numbers.numpy() - self.low) / self.step).astype(">u4")
        digits = np.unpackbits(index.view(np.uint8).reshape(-1, 4), axis=1)[:, 32 - self.bits :]
        return torch.from_numpy(np.packbits(digits))

    def decode(self, encoded: Tensor, d: int) -> Tensor:
        digits = np.zeros((d, 32), dtype=np.uint8)
        digits[:, 32 - self.bits :] = np.unpackbits(encoded.numpy(), count=d * self.bits).reshape(d, self.bits)
        index = np.packbits(digits, axis=1).view(">u4").ravel().astype(np.float32)
        return torch.from_numpy(index * self.step + self.low)
