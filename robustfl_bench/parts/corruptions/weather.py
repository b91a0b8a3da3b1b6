"""Snow, frost and fog. Images are (N, C, H, W) in [0, 1]; results may leave [0, 1]."""

import numpy as np

from robustfl_bench.parts.corruptions.geometry import smear, zoom


def plasma(count: int, height: int, width: int, decay: float, rng: np.random.Generator) -> np.ndarray:
    """Cloudy random textures (count, 1, height, width) from 0 to 1, by the diamond-square algorithm on a torus.

    Each doubling of the grid divides the randomness by ``decay`` squared: a large ``decay`` gives smooth textures, 1
    white noise.
    """
    grid, spread = np.zeros((count, 1, 1), dtype=np.float32), 1.0
    while grid.shape[1] < max(height, width):
        size = grid.shape[1]
        centres, across, along = spread * rng.uniform(-1, 1, size=(3, count, size, size)).astype(np.float32)
        right, below = np.roll(grid, -1, axis=2), np.roll(grid, -1, axis=1)
        centres += (grid + right + below + np.roll(right, -1, axis=1)) / 4
        across += (grid + right + centres + np.roll(centres, 1, axis=1)) / 4
        along += (grid + below + centres + np.roll(centres, 1, axis=2)) / 4
        finer = np.empty((count, 2 * size, 2 * size), dtype=np.float32)
        finer[:, ::2, ::2], finer[:, ::2, 1::2] = grid, across
        finer[:, 1::2, ::2], finer[:, 1::2, 1::2] = along, centres
        grid, spread = finer, spread / decay**2
    low, high = grid.min(axis=(1, 2), keepdims=True), grid.max(axis=(1, 2), keepdims=True)
    texture: np.ndarray = ((grid - low) / (high - low))[:, None, :height, :width]
    return texture


def fog(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Add clouds and darken the sum, so that the brightest value stays about the same."""
    amount, decay = ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))[severity - 1]
    brightest = images.max(axis=(1, 2, 3), keepdims=True)
    n, _, height, width = images.shape
    clouds = plasma(n, height, width, decay, rng)
    foggy: np.ndarray = (images + amount * clouds) * brightest / (brightest + amount)
    return foggy


def frost(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Darken the image and add ice crystals.

    The original adds random crops of five photographs of frost. Here pale blue ridges of a rough random texture replace
    the photographs, so that results resemble the original's in kind and strength but are not equal.
    """
    keep, amount = ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))[severity - 1]
    n, channels, height, width = images.shape
    ridges = (1 - np.abs(2 * plasma(n, height, width, 1.4, rng) - 1)) ** 2
    tint = np.array([0.85, 0.95, 1.0], dtype=np.float32) if channels == 3 else np.ones(1, dtype=np.float32)
    frosted: np.ndarray = keep * images + amount * ridges * tint[:, None, None]
    return frosted


def snow(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Whiten the image, and add flakes: noise, zoomed, cut off below a threshold, smeared in the direction of fall."""
    mean, spread, factor, threshold, keep = (
        (0.1, 0.2, 1, 0.6, 0.95),
        (0.1, 0.2, 1, 0.5, 0.9),
        (0.15, 0.3, 1.75, 0.55, 0.9),
        (0.25, 0.3, 2.25, 0.6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 0.8),
    )[severity - 1]
    radius, sigma = ((8, 3), (10, 4), (10, 4), (12, 6), (14, 12))[severity - 1]
    n, channels, height, width = images.shape
    flakes = zoom(rng.normal(mean, spread, size=(n, 1, height, width)).astype(np.float32), factor)
    flakes = np.where(flakes < threshold, 0, flakes.clip(0, 1))
    flakes = smear(flakes, radius, sigma, rng.uniform(-135, -45, size=(n,)))
    luma = np.array([0.299, 0.587, 0.114], dtype=np.float32) if channels == 3 else np.ones(1, dtype=np.float32)
    grey = (images * luma[:, None, None]).sum(axis=1, keepdims=True)
    whitened = keep * images + (1 - keep) * np.maximum(images, 1.5 * grey + 0.5)
    snowy: np.ndarray = whitened + flakes + flakes[:, :, ::-1, ::-1]
    return snowy
