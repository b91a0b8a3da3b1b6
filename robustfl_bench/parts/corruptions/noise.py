"""Noise in every pixel and channel. Images are (N, C, H, W) in [0, 1]; results may leave [0, 1]."""

import numpy as np


def gaussian_noise(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Add N(0, c^2)."""
    c = (0.04, 0.06, 0.08, 0.09, 0.10)[severity - 1]
    noisy: np.ndarray = images + np.float32(c) * rng.standard_normal(images.shape, dtype=np.float32)
    return noisy


def shot_noise(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Poisson noise: a white pixel counts c photons on average."""
    c = (500, 250, 100, 75, 50)[severity - 1]
    return rng.poisson(images * c).astype(np.float32) / np.float32(c)


def impulse_noise(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Replace a share c of the values by 0 or 1: salt and pepper."""
    c = (0.01, 0.02, 0.03, 0.05, 0.07)[severity - 1]
    draw = rng.random(images.shape, dtype=np.float32)
    return np.where(draw < c, (draw < c / 2).astype(np.float32), images)


def speckle_noise(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Add N(0, c^2) times the image."""
    c = (0.06, 0.1, 0.12, 0.16, 0.2)[severity - 1]
    noisy: np.ndarray = images * (1 + np.float32(c) * rng.standard_normal(images.shape, dtype=np.float32))
    return noisy
