"""Corruption of clients' data: labels, pixels, characters; and the lie about losses."""

import numpy as np
import pytest
import torch

from robustfl_bench.base import seeding
from robustfl_bench.interfaces import ConfigError, Scaling, Shard
from robustfl_bench.numerics.characters import ALPHABET
from robustfl_bench.parts.attacks.fake_loss import FakeLoss
from robustfl_bench.parts.attacks.label_flip_one import LabelFlipOne
from robustfl_bench.parts.attacks.label_shuffle import LabelShuffle
from robustfl_bench.parts.attacks.noisy import Noisy
from tests.rounds import build, refused

UNIT = Scaling(torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
STANDARD = Scaling(torch.tensor([0.4, 0.5]).view(2, 1, 1), torch.tensor([0.2, 0.3]).view(2, 1, 1))


def shard(client=0, n=200, classes=10, scaling=UNIT):
    rng = np.random.default_rng(client)
    pixels = torch.from_numpy(rng.random((n, 2, 6, 6), dtype=np.float32))
    labels = torch.from_numpy(rng.integers(classes, size=n))
    return Shard(scaling.inputs(pixels), labels, classes, scaling, seeding.generator(0, "poison", client))


def text(client=0, n=60, classes=80):
    rng = np.random.default_rng(client)
    x = torch.from_numpy(rng.integers(classes, size=(n, 80))).int()
    return Shard(x, x[:, 0].long(), classes, None, seeding.generator(0, "poison", client))


def test_shuffled_labels_are_the_same_labels():
    given = shard()
    x, y = LabelShuffle().poison(given)
    assert x is given.x and torch.equal(y.bincount(), given.y.bincount())
    assert 0.05 < (y == given.y).float().mean() < 0.2  # one in ten stays by chance
    assert not torch.equal(y, LabelShuffle().poison(shard(1))[1])
    half = LabelShuffle(0.5).poison(shard())[1]
    assert 0.4 < (half != given.y).float().mean() < 0.5 and torch.equal(half.bincount(), given.y.bincount())
    assert torch.equal(LabelShuffle(0).poison(shard())[1], given.y)


def test_flipped_labels_are_one_class_for_each_client():
    targets = []
    for client in range(300):
        given = shard(client, n=20)
        before = given.y.clone()
        x, y = LabelFlipOne().poison(given)
        assert x is given.x and torch.equal(given.y, before) and len(y.unique()) == 1
        targets.append(int(y[0]))
    assert np.bincount(targets, minlength=10).min() > 10, "all classes, drawn for each client"
    y, given = LabelFlipOne(0.25).poison(shard())[1], shard()
    assert 0.18 < (y != given.y).float().mean() <= 0.25


def test_first_digits_as_in_the_code():
    given = [LabelFlipOne(first_digit=True).poison(text(i, 2))[1] for i in range(400)]
    labels = [ALPHABET[int(y[0])] for y in given]
    counts = {digit: labels.count(digit) for digit in "0123456789"}
    assert sum(counts.values()) == 400
    assert all(counts[digit] > 30 for digit in "1234567") and all(counts[digit] < 20 for digit in "089")
    with pytest.raises(ConfigError, match="take dataset=shakespeare"):
        LabelFlipOne(first_digit=True).poison(shard())


@pytest.mark.parametrize("scaling", [UNIT, STANDARD])
def test_noise_on_images(scaling):
    given = shard(scaling=scaling)
    before = given.x.clone()
    x, y = Noisy().poison(given)
    assert y is given.y and torch.equal(given.x, before)
    pixels = scaling.pixels(x)
    assert pixels.min() == pytest.approx(0, abs=1e-6) and pixels.max() == pytest.approx(1, abs=1e-6)
    noise = seeding.generator(0, "poison", 0).standard_normal((200, 2, 6, 6), dtype="float32")
    noisy = scaling.pixels(before).double().numpy() + 0.7 * noise
    np.testing.assert_allclose(pixels.numpy(), (noisy - noisy.min()) / (noisy.max() - noisy.min()), atol=1e-5)
    assert 0.65 < (noisy - scaling.pixels(before).double().numpy()).std() < 0.75


def test_noise_by_image_and_none():
    pixels = Noisy(rescale="image").poison(shard())[0]
    assert (pixels.flatten(1).amin(1) == 0).all() and (pixels.flatten(1).amax(1) == 1).all()
    together = Noisy().poison(shard())[0]
    assert (together.flatten(1).amin(1) > 0).sum() > 190
    given = shard()
    assert Noisy(images="unchanged").poison(given)[0] is given.x
    torch.testing.assert_close(
        Noisy(std=0).poison(shard())[0], (given.x - given.x.min()) / (given.x.max() - given.x.min())
    )


def test_half_of_the_characters():
    given = text()
    before = given.x.clone()
    x, y = Noisy().poison(given)
    assert y is given.y and torch.equal(given.x, before) and x.dtype == before.dtype
    changed = (x != before).sum(dim=1)
    assert changed.max() <= 40 and 36 < changed.float().mean() <= 40, "one in eighty is replaced by itself"
    assert len((x != before).float().mean(dim=0).nonzero()) == 80, "positions are drawn for every sample"
    shuffled = Noisy(text="shuffle").poison(text())[0]
    assert torch.equal(shuffled.sort(dim=1).values, before.sort(dim=1).values)
    changed = (shuffled != before).sum(dim=1)
    assert 35 < changed.float().mean() <= 40


def test_noise_needs_images_or_characters():
    for x in (torch.rand(5, 8), torch.randint(1000, (5, 30)) + 10):
        with pytest.raises(ConfigError, match="attack noisy is for images and for texts by character"):
            Noisy().poison(Shard(x, torch.arange(5), 5, None, seeding.generator(0)))


def test_liars_train_on_bad_data_and_claim_a_perfect_loss():
    attack = build("attack", "fake_loss")
    assert attack == FakeLoss(LabelShuffle(), 0.0) and attack.present and attack.needs_honest and not attack.crafts
    assert torch.equal(attack.poison(shard())[1], LabelShuffle().poison(shard())[1])
    losses = torch.tensor([2.0, 3.0], dtype=torch.float64)
    assert attack.report(losses, losses).tolist() == [0, 0] and losses.tolist() == [2, 3]
    assert FakeLoss(LabelFlipOne(), 0.1).report(losses, losses).tolist() == [0.1, 0.1]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: LabelShuffle(1.5), r"fraction must be in \[0, 1\]"),
        (lambda: LabelFlipOne(first_digit=3), "first_digit must be true or false"),
        (lambda: Noisy(std=-1), "std must be >= 0"),
        (lambda: Noisy(images="some"), "images must be one of noise, unchanged"),
        (lambda: Noisy(rescale="set"), "rescale must be one of client, image"),
        (lambda: Noisy(text="reverse"), "text must be one of replace, shuffle"),
        (lambda: FakeLoss(LabelShuffle(), -1), "loss must be >= 0"),
    ],
)
def test_bad_settings_are_told(make, told):
    refused(make, told)
