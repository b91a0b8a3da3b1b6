"""The base class of augmentations."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from robustfl_bench.base.abilities import Part

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


class Augmentation(Part):
    """Augments a client's samples during training; reported losses are those of the unchanged samples.

    ``per`` is ``round`` (one augmented copy of the samples for all passes of a round) or ``batch`` (every batch is
    augmented anew).
    """

    per: str = "round"

    @abstractmethod
    def __call__(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        """The augmented samples, of the same shape as ``x`` (N, ...), which is not changed."""
