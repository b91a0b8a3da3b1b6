"""Random shifts and flips of images, as in ARFL's code for CIFAR-10 (Li et al., arXiv 2101.05880)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Flag, between, one_of
from robustfl_bench.parts.augmentations.base import Augmentation


@dataclass(frozen=True)
class ShiftFlip(Augmentation):
    """Shift every image at random by up to ``shift`` of its height and width, and ``flip`` it with probability 1/2.

    Shifts are uniform and not whole pixels: values are interpolated linearly in each direction, and the border is
    repeated outwards (Keras's ImageDataGenerator). With ``per`` round, all passes of a client in a round use the same
    changed images; with ``batch``, the usual augmentation, every batch is changed anew, as are batches that a client
    draws one by one and not in passes (``local_sgd`` with ``steps``).
    """

    shift: Annotated[float, between(0, 1)] = 0.1
    """largest shift in each direction, as a share of height and width"""
    flip: Flag = True
    """true: half of the images are mirrored horizontally"""
    per: Annotated[
        str, one_of(round="one changed copy per client and round, ARFL's code", batch="anew for every batch")
    ] = "round"
    """how often images are changed"""

    def __call__(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        if x.dim() != 4:
            raise ConfigError(f"augmentation shift_flip is for images, got samples of shape {tuple(x.shape[1:])}")
        maps = np.zeros((len(x), 2, 3), dtype=np.float32)  # from positions in the new image to the old one
        maps[:, 0, 0] = np.where(rng.random(len(x)) < 0.5, -1, 1) if self.flip else 1
        maps[:, 1, 1] = 1
        maps[:, :, 2] = 2 * self.shift * rng.uniform(-1, 1, (len(x), 2))  # in grid units: an image is 2 wide
        places = functional.affine_grid(torch.from_numpy(maps).to(x.device), list(x.shape), align_corners=False)
        return functional.grid_sample(x, places, padding_mode="border", align_corners=False)
