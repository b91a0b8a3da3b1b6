"""Operations that several corruptions share: resize images, zoom in, and smear along a line."""

import math

import numpy as np


def _along_both_axes(rows: np.ndarray, images: np.ndarray, columns: np.ndarray) -> np.ndarray:
    result: np.ndarray = rows @ images @ columns.T
    return result


def _resize_matrix(size: int, new_size: int) -> np.ndarray:
    """Matrix (new_size, size): a new pixel is the mean of the old ones centred in it, or copies the one around it."""
    scale = size / new_size
    centre = (np.arange(new_size)[:, None] + 0.5) * scale
    distance = (np.arange(size) + 0.5 - centre) / max(scale, 1)
    inside = ((distance > -0.5) & (distance <= 0.5)).astype(np.float32)
    result: np.ndarray = inside / inside.sum(axis=1, keepdims=True)
    return result


def resize(images: np.ndarray, height: int, width: int) -> np.ndarray:
    """Images (..., height, width) resized by a box filter, as in Pillow but without rounding."""
    return _along_both_axes(_resize_matrix(images.shape[-2], height), images, _resize_matrix(images.shape[-1], width))


def _zoom_matrix(size: int, factor: float) -> np.ndarray:
    """Matrix (size, size): crop the middle of a line of pixels, stretch it by linear interpolation, crop again."""
    cropped = math.ceil(size / factor)
    zoomed = round(cropped * factor)
    position = np.linspace(0, cropped - 1, zoomed)[(zoomed - size) // 2 :][:size] + (size - cropped) // 2
    nearness = 1 - np.abs(position[:, None] - np.arange(size))
    return nearness.clip(0).astype(np.float32)


def zoom(images: np.ndarray, factor: float) -> np.ndarray:
    """The middle of images (..., H, W), ``factor`` times larger, in the same number of pixels."""
    return _along_both_axes(_zoom_matrix(images.shape[-2], factor), images, _zoom_matrix(images.shape[-1], factor))


def smear(images: np.ndarray, radius: int, sigma: float, angles: np.ndarray) -> np.ndarray:
    """Motion blur of images (N, C, H, W), image i at ``angles[i]`` degrees.

    As in ImageMagick: a half Gaussian of width ``sigma`` on 2 radius + 1 pixels, from the pixel itself in one
    direction, at positions rounded to whole pixels; border pixels are repeated beyond the border.
    """
    n, channels, height, width = images.shape
    steps = np.arange(2 * radius + 1)
    kernel = np.exp(-(steps**2) / (2 * sigma**2)).astype(np.float32)
    kernel /= kernel.sum()
    radians = np.deg2rad(angles)
    flat, blurred = images.reshape(n, channels, -1), np.zeros_like(images).reshape(n, channels, -1)
    for step, weight in zip(steps, kernel, strict=True):
        down = np.ceil(step * np.sin(radians) - 0.5).astype(np.int64)
        right = np.ceil(step * np.cos(radians) - 0.5).astype(np.int64)
        rows = (np.arange(height) + down[:, None]).clip(0, height - 1)
        columns = (np.arange(width) + right[:, None]).clip(0, width - 1)
        index = (rows[:, :, None] * width + columns[:, None, :]).reshape(n, 1, -1)
        blurred += weight * np.take_along_axis(flat, index, axis=2)
    return blurred.reshape(images.shape)
