"""Random shifts and flips of images, as in ARFL's code for CIFAR-10 (Li et al., arXiv 2101.05880)."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from robustfl_bench.interfaces import Augmentation, ConfigError, check_choice, check_fields, check_flags

PER = ("round", "batch")


@dataclass(frozen=True)
class ShiftFlip(Augmentation):
    """Move every image by a random part of up to ``shift`` of its height and its width, and ``flip`` every second one.

    Shifts are uniform and not whole pixels: values in between are interpolated, linearly in each direction, and the
    border is repeated outwards (Keras's ImageDataGenerator). ``per`` round is what the authors' code does for all of a
    client's passes in a round, ``batch`` what augmentation usually means.
    """

    shift: float = 0.1
    flip: bool = True
    per: str = "round"

    def __post_init__(self) -> None:
        check_fields(self, shift=(0, 1))
        check_flags(self, "flip")
        check_choice("per", self.per, PER)

    def __call__(self, x: Tensor, rng: np.random.Generator) -> Tensor:
        if x.dim() != 4:
            raise ConfigError(f"augmentation shift_flip is for images, got samples of shape {tuple(x.shape[1:])}")
        maps = np.zeros((len(x), 2, 3), dtype=np.float32)  # from places in the new image to places in the old one
        maps[:, 0, 0] = np.where(rng.random(len(x)) < 0.5, -1, 1) if self.flip else 1
        maps[:, 1, 1] = 1
        maps[:, :, 2] = 2 * self.shift * rng.uniform(-1, 1, (len(x), 2))  # an image is 2 wide there
        places = functional.affine_grid(torch.from_numpy(maps).to(x.device), list(x.shape), align_corners=False)
        return functional.grid_sample(x, places, padding_mode="border", align_corners=False)
