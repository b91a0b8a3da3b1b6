"""Noisy features: ARFL's noisy clients (Li et al., arXiv 2101.05880, section 5.1)."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.parts.attacks.base import Attack, Shard


@dataclass(frozen=True)
class Noisy(Attack):
    """Every Byzantine client adds noise to its inputs once, and then trains honestly.

    Every pixel of images in [0, 1] gets independent noise N(0, ``std``^2). Noisy images are rescaled to [0, 1] by their
    smallest and largest value. In texts by character, a random half of the positions of every sample gets other
    characters.

    Code: the 0.7 in the paper's N(0, 0.7) is a standard deviation in ARFL's, which adds noise to FEMNIST but not to
    CIFAR-10 (``images=unchanged``).
    """

    std: Annotated[float, at_least(0)] = 0.7
    """standard deviation of the noise on pixels in [0, 1]"""
    images: Annotated[str, one_of("noise", unchanged="ARFL's code on CIFAR-10")] = "noise"
    """pixels of images"""
    rescale: Annotated[str, one_of(client="over all images of a client, authors' code", image="each")] = "client"
    """rescaling of noisy images to [0, 1]"""
    text: Annotated[str, one_of(replace="drawn uniformly from all, ARFL's code", shuffle="reordered, ARFL's text")] = (
        "replace"
    )
    """new characters at half of the positions"""

    crafts = False

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        if shard.scaling is not None:
            return (shard.x if self.images == "unchanged" else self._noisy(shard)), shard.y
        if shard.x.is_floating_point() or shard.x.dim() != 2 or int(shard.x.max()) >= shard.num_classes:
            raise ConfigError("attack noisy is for images and for texts by character (dataset=shakespeare)")
        return self._garbled(shard), shard.y

    def _noisy(self, shard: Shard) -> Tensor:
        assert shard.scaling is not None
        pixels = shard.scaling.pixels(shard.x)
        noise = self.std * shard.rng.standard_normal(tuple(pixels.shape), dtype="float32")
        pixels = pixels + torch.from_numpy(noise).to(pixels)
        together = [1, 2, 3] if self.rescale == "image" else [0, 1, 2, 3]
        low, high = pixels.amin(together, keepdim=True), pixels.amax(together, keepdim=True)
        return shard.scaling.inputs((pixels - low) / (high - low).clamp(min=1e-12))

    def _garbled(self, shard: Shard) -> Tensor:
        rows, length = shard.x.shape
        half = torch.from_numpy(shard.rng.random((rows, length)).argsort(axis=1)[:, : length // 2]).to(shard.x.device)
        if self.text == "replace":
            other = torch.from_numpy(shard.rng.integers(shard.num_classes, size=half.shape)).to(shard.x)
        else:
            order = torch.from_numpy(shard.rng.random(half.shape).argsort(axis=1)).to(half)
            other = shard.x.gather(1, half.gather(1, order))
        return shard.x.scatter(1, half, other)
