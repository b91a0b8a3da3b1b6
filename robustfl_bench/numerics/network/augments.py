"""What client batches need of an augmentation: structural, so that this room knows no option group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


class Augments(Protocol):
    """Changes samples during training, once a round or once a batch; see ``Augmentation`` in ``parts``."""

    per: str

    def __call__(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        """The changed samples, of the same shape as ``x`` (N, ...)."""
