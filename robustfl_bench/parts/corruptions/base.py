"""The base class of corruptions (feature skew)."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from robustfl_bench.base.abilities import Part

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


class Corruption(Part):
    """Feature skew: changes the images of one client, before the data are standardised."""

    @abstractmethod
    def __call__(self, images: Tensor, rng: np.random.Generator) -> Tensor:
        """Corrupted images (N, C, H, W) in [0, 1]; the input is not changed. ``rng`` is the client's own stream."""
