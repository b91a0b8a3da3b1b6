"""Image corruptions: promises common to all, and each against an independent version where there is one."""

import colorsys
import io
import math

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage
from sklearn.datasets import load_sample_images

from robustfl_bench.base import seeding
from robustfl_bench.parts.corruptions import blur, digital, noise, weather
from robustfl_bench.parts.corruptions.common import COMMON, CORRUPTIONS, CommonCorruption
from robustfl_bench.parts.corruptions.geometry import resize, smear, zoom
from tests.rounds import refused


def rng(seed=0):
    return seeding.generator(seed, "corruption", 0)


@pytest.fixture(scope="module")
def photos():
    """Fifteen 32 x 32 pieces of a photograph, reduced so that they hold as much detail as CIFAR's."""
    photo = Image.fromarray(load_sample_images().images[0]).resize((160, 107), Image.Resampling.BOX)
    values = np.asarray(photo, dtype=np.float32) / 255
    corners = [(row, column) for row in (5, 40, 70) for column in (0, 32, 64, 96, 128)]
    return np.stack([values[r : r + 32, c : c + 32].transpose(2, 0, 1) for r, c in corners])


def distance(images, kind, severity):
    corrupted = CommonCorruption(severity, [kind])(torch.from_numpy(images), rng())
    return float((corrupted - torch.from_numpy(images)).square().mean().sqrt())


def test_there_are_fifteen_common_ones():
    assert len(COMMON) == 15
    assert "speckle_noise" not in COMMON


@pytest.mark.parametrize("kind", CORRUPTIONS)
@pytest.mark.parametrize("shape", [(4, 3, 32, 32), (3, 1, 28, 28), (2, 1, 8, 8), (2, 3, 20, 33), (1, 1, 9, 9)])
def test_contract(kind, shape):
    images = torch.from_numpy(ndimage.gaussian_filter(rng(1).random(shape), (0, 0, 1, 1)).astype(np.float32))
    images = (images - images.min()) / (images.max() - images.min())
    before = images.clone()
    for severity in (1, 3, 5):
        corrupt = CommonCorruption(severity, [kind])
        corrupted = corrupt(images, rng())
        assert corrupted.shape == shape
        assert corrupted.dtype == torch.float32
        assert torch.isfinite(corrupted).all()
        assert 0 <= corrupted.min() <= corrupted.max() <= 1
        assert torch.equal(images, before)
        assert torch.equal(corrupted, corrupt(images, rng()))
        if severity > 1:
            assert (corrupted - images).abs().max() > 1e-3


@pytest.mark.parametrize("kind", CORRUPTIONS)
@pytest.mark.parametrize("level", [0.0, 1.0])
def test_black_and_white_images(kind, level):
    assert torch.isfinite(CommonCorruption(3, [kind])(torch.full((2, 3, 32, 32), level), rng())).all()


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_severity_increases_the_distance(kind, photos):
    distances = [distance(photos, kind, severity) for severity in range(1, 6)]
    if kind in ("glass_blur", "elastic_transform", "frost"):  # constants that CIFAR-10-C does not order by strength
        assert min(distances) > 0.05
    else:
        assert distances == sorted(distances)
        assert distances[4] > 1.4 * distances[0]


@pytest.mark.parametrize("kind", [kind for kind in CORRUPTIONS if kind not in ("brightness", "contrast", "pixelate")])
def test_images_of_a_client_are_corrupted_independently(kind, photos):
    """Deterministic kinds treat equal images equally; random ones do not."""
    twice = torch.from_numpy(photos[:1]).repeat(2, 1, 1, 1)
    first, second = CommonCorruption(3, [kind])(twice, rng())
    assert torch.equal(first, second) == (kind in ("defocus_blur", "zoom_blur", "jpeg_compression"))


def test_every_client_draws_one_kind(photos):
    """Over many clients all 15 kinds occur, and what a client gets is one of them."""
    images = torch.from_numpy(photos[:1])
    seen = set()
    for client in range(120):
        stream = seeding.generator(0, "corruption", client)
        corrupted = CommonCorruption()(images, seeding.generator(0, "corruption", client))
        kind = COMMON[int(stream.integers(15))]
        assert torch.equal(corrupted[0], torch.from_numpy(CORRUPTIONS[kind](photos[:1], 3, stream)).clamp(0, 1)[0])
        seen.add(kind)
    assert seen == set(COMMON)


def test_noise_statistics():
    grey = np.full((2, 3, 100, 100), 0.5, dtype=np.float32)
    assert (noise.gaussian_noise(grey, 3, rng()) - 0.5).std() == pytest.approx(0.08, rel=0.02)
    assert (noise.shot_noise(grey, 3, rng()) - 0.5).std() == pytest.approx(math.sqrt(0.5 / 100), rel=0.02)
    assert (noise.speckle_noise(grey, 3, rng()) - 0.5).std() == pytest.approx(0.06, rel=0.02)
    salted = noise.impulse_noise(grey, 3, rng())
    assert (salted == 1).mean() == pytest.approx(0.015, abs=0.002)
    assert (salted == 0).mean() == pytest.approx(0.015, abs=0.002)
    assert ((salted == 0.5) | (salted == 1) | (salted == 0)).all()


@pytest.mark.parametrize(("height", "width"), [(27, 27), (30, 20), (32, 32), (24, 28)])
def test_resize_is_pillow_s_box_filter(photos, height, width):
    for image in photos[:3, 0]:
        there = Image.fromarray(image).resize((width, height), Image.Resampling.BOX)
        np.testing.assert_allclose(resize(image, height, width), np.asarray(there), atol=1e-5)
        back = there.resize((32, 32), Image.Resampling.BOX)
        np.testing.assert_allclose(resize(resize(image, height, width), 32, 32), np.asarray(back), atol=1e-5)


@pytest.mark.parametrize("factor", [1, 1.01, 1.07, 1.25, 1.75, 2.25])
def test_zoom_is_scipy_s(photos, factor):
    image = photos[3, 0]
    size = math.ceil(32 / factor)
    first = (32 - size) // 2
    zoomed = ndimage.zoom(image[first : first + size, first : first + size], factor, order=1)
    trim = (len(zoomed) - 32) // 2
    np.testing.assert_allclose(zoom(image, factor), zoomed[trim : trim + 32, trim : trim + 32], atol=1e-5)


@pytest.mark.parametrize("angle", [0, 30, -45, -90, -120])
def test_smear_against_loops(photos, angle):
    images, radius, sigma = photos[:2, :, :12, :10], 3, 1.5
    kernel = [math.exp(-(i**2) / (2 * sigma**2)) for i in range(7)]
    expected = np.zeros_like(images)
    for row in range(12):
        for column in range(10):
            for i, weight in enumerate(kernel):
                there = math.ceil(i * math.sin(math.radians(angle)) - 0.5)
                across = math.ceil(i * math.cos(math.radians(angle)) - 0.5)
                pixel = images[:, :, min(max(row + there, 0), 11), min(max(column + across, 0), 9)]
                expected[:, :, row, column] += weight / sum(kernel) * pixel
    both = smear(images, radius, sigma, np.array([angle, angle]))
    np.testing.assert_allclose(both, expected, atol=1e-5)
    one = smear(images, radius, sigma, np.array([angle, angle + 60]))[0]
    np.testing.assert_allclose(one, expected[0], atol=1e-5)


@pytest.mark.parametrize("at_centres", [True, False])
def test_sampling_is_scipy_s(photos, at_centres):
    y, x = np.mgrid[:32, :32] + rng().uniform(-6, 6, size=(2, 32, 32))
    sampled = digital._sample(photos[:1], x[None], y[None], at_centres)
    for channel in range(3):
        mode = "mirror" if at_centres else "reflect"
        expected = ndimage.map_coordinates(photos[0, channel], [y, x], order=1, mode=mode)
        np.testing.assert_allclose(sampled[0, channel], expected, atol=1e-4)


def test_affine_maps_bring_the_points_back():
    corners = np.array([[26, 26], [26, 6], [6, 6]])
    moved = corners + rng().uniform(-2, 2, size=(4, 3, 2))
    for back, points in zip(digital._affine(corners, moved), moved, strict=True):
        np.testing.assert_allclose(np.column_stack([points, np.ones(3)]) @ back.T, corners)


def test_brightness_raises_the_value_in_hsv(photos):
    pixels = np.concatenate([photos[0].reshape(3, -1)[:, :200], [[0, 1, 0.2], [0, 1, 0.9], [0, 1, 0.2]]], axis=1)
    result = digital.brightness(pixels.astype(np.float32)[None, :, None], 3, rng())[0, :, 0].T
    for before, after in zip(pixels.T, result, strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*before)
        np.testing.assert_allclose(after, colorsys.hsv_to_rgb(hue, saturation, min(value + 0.15, 1)), atol=1e-5)


def test_contrast_keeps_the_mean_and_scales_the_spread(photos):
    result = digital.contrast(photos, 3, rng())
    np.testing.assert_allclose(result.mean(axis=(2, 3)), photos.mean(axis=(2, 3)), atol=1e-5)
    np.testing.assert_allclose(result.std(axis=(2, 3)), 0.4 * photos.std(axis=(2, 3)), atol=1e-5)


def test_jpeg_is_pillow_s(photos):
    file = io.BytesIO()
    Image.fromarray((photos[4] * 255).round().astype(np.uint8).transpose(1, 2, 0)).save(file, "JPEG", quality=58)
    expected = np.asarray(Image.open(file)).transpose(2, 0, 1) / 255
    np.testing.assert_allclose(digital.jpeg_compression(photos, 3, rng())[4], expected, atol=1e-6)


def test_blurs_keep_constant_images_and_the_mean_of_others(photos):
    flat = np.full((2, 3, 32, 32), 0.3, dtype=np.float32)
    for kind in (blur.defocus_blur, blur.glass_blur, blur.motion_blur, blur.zoom_blur):
        for severity in range(1, 6):
            np.testing.assert_allclose(kind(flat, severity, rng()), flat, atol=1e-5)
            assert abs(kind(photos, severity, rng()).mean() - photos.mean()) < 0.01


def test_glass_blur_moves_pixels_and_loses_none():
    """With severity 1 the Gaussians do nothing, so only the swaps are left."""
    images = rng().permutation(1024).reshape(1, 1, 32, 32).astype(np.float32) / 1024
    result = blur.glass_blur(images, 1, rng())
    np.testing.assert_allclose(np.sort(result, axis=None), np.sort(images, axis=None), atol=1e-5)
    assert (np.abs(result - images) > 1e-4).mean() > 0.5


@pytest.mark.parametrize("decay", [1.4, 2.5])
def test_plasma_is_a_cloud_from_0_to_1(decay):
    clouds = weather.plasma(50, 32, 32, decay, rng())
    assert clouds.shape == (50, 1, 32, 32)
    assert (clouds.min(axis=(1, 2, 3)) == 0).all()
    assert (clouds.max(axis=(1, 2, 3)) == 1).all()
    steps = np.abs(np.diff(clouds, axis=3)).mean()
    assert steps < 0.5 * np.abs(clouds - clouds[:, :, :, ::-1]).mean()  # near pixels agree more than far ones
    assert steps > np.abs(np.diff(weather.plasma(50, 32, 32, 3, rng()), axis=3)).mean()  # a larger decay is smoother


def test_fog_keeps_the_brightest_value_at_most(photos):
    foggy = weather.fog(photos, 3, rng())
    assert (foggy.max(axis=(1, 2, 3)) <= photos.max(axis=(1, 2, 3)) + 1e-5).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CommonCorruption(0), r"severity must be in \[1, 5\], got 0"),
        (lambda: CommonCorruption(2.5), "severity must be a whole number, got 2.5"),
        (lambda: CommonCorruption(kinds="fog"), "kinds must be null or a list of corruptions, got 'fog'"),
        (lambda: CommonCorruption(kinds=[]), "kinds must be null or a list"),
        (lambda: CommonCorruption(kinds=["fog", "rain"]), "kinds must be one of gaussian_noise, .* got 'rain'"),
        (lambda: CommonCorruption()(torch.zeros(4, 784), rng()), r"need images .* got shape \(4, 784\)"),
        (
            lambda: CommonCorruption()(torch.zeros(4, 1, 4, 4), rng()),
            r"at least 8 x 8 pixels, got shape \(4, 1, 4, 4\)",
        ),
    ],
)
def test_bad_input_is_one_clear_line(make, message):
    refused(make, message)
