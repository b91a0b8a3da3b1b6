"""Blurs. Images are (N, C, H, W) in [0, 1]; rounding may move results outside [0, 1]."""

import numpy as np
from scipy import ndimage

from robustfl_bench.parts.corruptions.geometry import smear, zoom


def defocus_blur(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Convolve with a disk, blurred by a 3 x 3 Gaussian against aliasing."""
    radius, alias_blur = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))[severity - 1]
    line = np.arange(-3, 4)
    disk = (line[:, None] ** 2 + line**2 <= radius**2).astype(np.float32)
    antialias = np.exp(-(np.arange(-1, 2) ** 2) / (2 * alias_blur**2))
    antialias /= antialias.sum()
    kernel = ndimage.convolve(disk / disk.sum(), np.outer(antialias, antialias), mode="constant")
    blurred: np.ndarray = ndimage.convolve(images, kernel[None, None], mode="mirror")
    return blurred


def _gaussian(images: np.ndarray, sigma: float) -> np.ndarray:
    blurred: np.ndarray = ndimage.gaussian_filter(images, (0, 0, sigma, sigma), mode="nearest")
    return blurred


def glass_blur(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Blur by a Gaussian, swap pixels with nearby ones, starting at the lower right, and blur again.

    The original code intends to swap, but its overlapping views copy one pixel over the other; here the pixels swap.
    """
    sigma, reach, iterations = ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2))[severity - 1]
    images = _gaussian(images, sigma)
    n, _, height, width = images.shape
    each = np.arange(n)
    for _ in range(iterations):
        for row in range(height - reach, reach, -1):
            for column in range(width - reach, reach, -1):
                right, down = rng.integers(-reach, reach, size=(2, n))
                here, there = images[:, :, row, column].copy(), images[each, :, row + down, column + right]
                images[:, :, row, column], images[each, :, row + down, column + right] = there, here
    return _gaussian(images, sigma)


def motion_blur(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Smear along a line within 45 degrees of the horizontal."""
    radius, sigma = ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))[severity - 1]
    return smear(images, radius, sigma, rng.uniform(-45, 45, size=len(images)))


def zoom_blur(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Mean of the image and of zooms into the image, by factors from 1 upwards in steps of 0.01.

    Code: at severities 1, 2 and 5 the original has one more factor, by rounding: ``len(arange(1, 1.06, 0.01))`` is 7.
    """
    factors = 1 + 0.01 * np.arange((6, 11, 16, 21, 26)[severity - 1])
    total = images + sum(zoom(images, factor) for factor in factors)
    blurred: np.ndarray = total / np.float32(len(factors) + 1)
    return blurred
