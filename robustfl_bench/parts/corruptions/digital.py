"""Brightness, contrast, elastic distortion, pixelation, JPEG. Images are (N, C, H, W) in [0, 1]."""

import io

import numpy as np
import torch
from PIL import Image
from scipy import ndimage
from torch.nn.functional import grid_sample

from robustfl_bench.parts.corruptions.geometry import resize


def brightness(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Raise the value (the largest channel) by c, at most to 1, and keep hue and saturation; black becomes grey."""
    c = (0.05, 0.1, 0.15, 0.2, 0.3)[severity - 1]
    value: np.ndarray = images.max(axis=1, keepdims=True)
    brighter = np.minimum(value + np.float32(c), 1)
    result: np.ndarray = np.where(value > 1e-6, images * (brighter / np.maximum(value, 1e-6)), brighter)
    return result


def contrast(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Pull every channel towards its mean over the image."""
    c = (0.75, 0.5, 0.4, 0.3, 0.15)[severity - 1]
    mean = images.mean(axis=(2, 3), keepdims=True)
    flat: np.ndarray = (images - mean) * np.float32(c) + mean
    return flat


def _affine(corners: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """The affine maps (N, 2, 3) from the ``moved`` points (N, 3, 2) back to ``corners`` (3, 2)."""
    solution = np.linalg.solve(np.concatenate([moved, np.ones((len(moved), 3, 1))], axis=2), corners[None])
    back: np.ndarray = solution.transpose(0, 2, 1)
    return back


def _sample(images: np.ndarray, x: np.ndarray, y: np.ndarray, at_centres: bool) -> np.ndarray:
    """Images interpolated at pixel positions (N, H, W), and reflected beyond the centres or edges of border pixels."""
    height, width = images.shape[2:]
    if at_centres:
        grid = np.stack([2 * x / (width - 1) - 1, 2 * y / (height - 1) - 1], axis=3)
    else:
        grid = np.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], axis=3)
    positions = torch.from_numpy(grid.astype(np.float32))
    sampled = grid_sample(torch.from_numpy(images), positions, padding_mode="reflection", align_corners=at_centres)
    return sampled.numpy()


def elastic_transform(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Apply a random affine map, which moves three corners of a square, then small smooth random displacements.

    The constants are shares of the shorter side: amplitude and smoothness of the displacements, shift of the corners.
    """
    n, _, height, width = images.shape
    side = min(height, width)
    constants = ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03))
    amplitude, smoothness, jump = (side * constant for constant in constants[severity - 1])

    middle = np.array([width // 2, height // 2])
    corners = middle + side // 3 * np.array([[1, 1], [1, -1], [-1, -1]])
    back = _affine(corners, corners + rng.uniform(-jump, jump, size=(n, 3, 2)))
    y, x = np.mgrid[:height, :width]
    moved = np.einsum("nij,jhw->inhw", back, np.stack([x, y, np.ones_like(x)]))
    images = _sample(images, moved[0], moved[1], at_centres=True)

    noise = rng.uniform(-1, 1, size=(2, n, height, width))
    smooth = ndimage.gaussian_filter(noise, (0, 0, smoothness, smoothness), mode="reflect", truncate=3)
    return _sample(images, x + amplitude * smooth[0], y + amplitude * smooth[1], at_centres=False)


def pixelate(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Resize each side by a factor c < 1, and back to the original size, with box filters."""
    c = (0.95, 0.9, 0.85, 0.75, 0.65)[severity - 1]
    height, width = images.shape[2:]
    return resize(resize(images, int(height * c), int(width * c)), height, width)


def jpeg_compression(images: np.ndarray, severity: int, rng: np.random.Generator) -> np.ndarray:
    """Encode as JPEG of low quality, and decode."""
    quality = (80, 65, 58, 50, 40)[severity - 1]
    result = np.empty_like(images)
    for image, out in zip((images * 255 + 0.5).astype(np.uint8).transpose(0, 2, 3, 1), result, strict=True):
        file = io.BytesIO()
        Image.fromarray(image.squeeze()).save(file, "JPEG", quality=quality)
        decoded = np.asarray(Image.open(file), dtype=np.float32) / 255
        out[:] = decoded if decoded.ndim == 2 else decoded.transpose(2, 0, 1)
    return result
