"""The 15 common image corruptions (Hendrycks and Dietterich, ICLR 2019, https://arxiv.org/abs/1903.12261)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import between, check_choice
from robustfl_bench.parts.corruptions import blur, digital, noise, weather
from robustfl_bench.parts.corruptions.base import Corruption

CORRUPTIONS: dict[str, Callable[[np.ndarray, int, np.random.Generator], np.ndarray]] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blur.defocus_blur,
    "glass_blur": blur.glass_blur,
    "motion_blur": blur.motion_blur,
    "zoom_blur": blur.zoom_blur,
    "snow": weather.snow,
    "frost": weather.frost,
    "fog": weather.fog,
    "brightness": digital.brightness,
    "contrast": digital.contrast,
    "elastic_transform": digital.elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg_compression": digital.jpeg_compression,
    "speckle_noise": noise.speckle_noise,  # not one of the 15; BOBA's study of noisy server data uses it
}
COMMON = tuple(CORRUPTIONS)[:15]


@dataclass(frozen=True)
class CommonCorruption(Corruption):
    """Draw one kind of corruption and apply it to all images of a client (BOBA, appendices C.1 and C.6).

    The constants are those of CIFAR-10-C. They are meant for 32 x 32 images. Lengths in pixels stay the same for other
    image sizes, except that those of elastic_transform scale with the size. Frost uses a procedural texture, because
    the original's photographs are not distributed with this package. Results are not rounded to 8 bits.
    """

    severity: Annotated[int, between(1, 5)] = 3
    """strength of the corruption, 1 is mild"""
    kinds: Sequence[str] | None = None
    """corruptions of which each client gets one, such as [fog, snow]; null: the 15 common ones"""

    def __post_init__(self) -> None:
        if self.kinds is not None:
            if isinstance(self.kinds, str) or not len(self.kinds):
                raise ConfigError(f"kinds must be null or a list of corruptions, got {self.kinds!r}")
            for kind in self.kinds:
                check_choice("kinds", kind, tuple(CORRUPTIONS))

    def __call__(self, images: Tensor, rng: np.random.Generator) -> Tensor:
        """Corrupted copies, clipped to [0, 1], of ``images`` (N, C, H, W) float32 in [0, 1]."""
        if images.ndim != 4 or images.shape[1] not in (1, 3) or min(images.shape[2:]) < 8:
            raise ConfigError(
                "image corruptions need images (N, 1 or 3, H, W) of at least 8 x 8 pixels,"
                f" got shape {tuple(images.shape)}; use corruption=none"
            )
        kinds = COMMON if self.kinds is None else self.kinds
        corrupt = CORRUPTIONS[kinds[int(rng.integers(len(kinds)))]]
        result = corrupt(images.cpu().numpy(), self.severity, rng).astype(np.float32, copy=False)
        return torch.from_numpy(result.clip(0, 1)).to(images.device)
