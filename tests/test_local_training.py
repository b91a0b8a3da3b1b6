"""Augmentation, dropout and clipping: what happens on a client, from streams of its own."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from robustfl_bench.interfaces import ConfigError
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch, Population, Samples
from robustfl_bench.parts.augmentations.shift_flip import ShiftFlip
from robustfl_bench.parts.local_updates.fedavg import FedAvg
from robustfl_bench.parts.models.cnn import Cnn
from robustfl_bench.parts.models.dropout_cnn import DropoutCnn
from robustfl_bench.parts.models.femnist_cnn import FemnistCnn
from robustfl_bench.parts.models.lenet import LeNet
from robustfl_bench.parts.models.lstm import Lstm
from robustfl_bench.parts.models.mlp import Mlp
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.storage import InMemory
from tests import presets
from tests.presets import small, trained

# --- augmentation ----------------------------------------------------------------------------------------------------


def images(n=6, size=10, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).random((n, 3, size, size), dtype=np.float32))


def moved(image, down, right, flip):
    """Bilinear interpolation between repeated borders, pixel by pixel."""
    height, width = image.shape[1:]
    out = np.empty_like(image)
    for i in range(height):
        for j in range(width):
            y = min(max(i + down, 0), height - 1)
            x = min(max((width - 1 - j if flip else j) + right, 0), width - 1)
            a, b = int(y), int(x)
            c, d = min(a + 1, height - 1), min(b + 1, width - 1)
            v, u = y - a, x - b
            out[:, i, j] = (1 - v) * ((1 - u) * image[:, a, b] + u * image[:, a, d])
            out[:, i, j] += v * ((1 - u) * image[:, c, b] + u * image[:, c, d])
    return out


def test_shift_and_flip_are_keras():
    x = images()
    before = x.clone()
    changed = ShiftFlip(shift=0.2)(x, np.random.default_rng(3))
    assert torch.equal(x, before) and changed.shape == x.shape
    rng = np.random.default_rng(3)
    flips, shifts = rng.random(6) < 0.5, 0.2 * 10 * rng.uniform(-1, 1, (6, 2))
    assert 0 < flips.sum() < 6
    for image, result, flip, (right, down) in zip(x.numpy(), changed.numpy(), flips, shifts, strict=True):
        np.testing.assert_allclose(result, moved(image, down, right, flip), atol=1e-4)


def test_parts_of_the_augmentation():
    x = images()
    torch.testing.assert_close(ShiftFlip(shift=0, flip=False)(x, np.random.default_rng(0)), x)
    flipped = ShiftFlip(shift=0)(x, np.random.default_rng(0))
    for image, result in zip(x, flipped, strict=True):
        assert min((result - image).abs().max(), (result - image.flip(2)).abs().max()) < 1e-5
    with pytest.raises(ConfigError, match="shift_flip is for images"):
        ShiftFlip()(torch.rand(3, 5), np.random.default_rng(0))
    with pytest.raises(ConfigError, match="per must be one of round, batch"):
        ShiftFlip(per="epoch")


class Numbered:
    """Counts its calls: adds 100 for each."""

    def __init__(self, per):
        self.per, self.calls = per, 0

    def __call__(self, x, rng):
        self.calls += 1
        return x + 100 * self.calls + rng.integers(1000) / 1e4


def samples(per, batch_size=4, clients=(0, 1)):
    population = Population(torch.arange(20.0)[:, None], torch.arange(20), [np.arange(10), np.arange(10, 20)])
    augmentation = None if per is None else Numbered(per)
    return Samples(population, list(clients), list(clients), 0, "batches", 2, batch_size, augmentation=augmentation)


@pytest.mark.parametrize("batch_size", [4, None])
def test_one_changed_copy_serves_a_round_or_every_batch_is_changed(batch_size):
    plain = list(samples(None, batch_size).epochs(1, 3))
    for per, calls in (("round", 1), ("batch", len(plain))):
        changed = samples(per, batch_size)
        batches = list(changed.epochs(1, 3))
        assert changed.augmentation.calls == calls
        for step, ((x, y), (x0, y0)) in enumerate(zip(batches, plain, strict=True)):
            assert torch.equal(y, y0)
            offset = (x - x0).unique()
            assert offset.max() - offset.min() < 1e-4 and int(offset[0]) == 100 * (1 if per == "round" else step + 1)
        assert torch.equal(changed.population.x[:, 0], torch.arange(20.0))


def test_augmentation_of_a_client_does_not_depend_on_who_else_takes_part():
    both, alone = samples("batch"), samples("batch", clients=(1,))
    together, own = both.batch(0), alone.batch(0)
    assert torch.equal(together.y[4:], own.y)
    torch.testing.assert_close(together.x[4:] - 100, own.x, rtol=0, atol=1e-5)  # the second call, not the first
    assert not torch.equal(own.x, replace(alone, round=3).batch(0).x)


def test_augmented_runs_differ_and_are_reproducible():
    base = ("rounds=2", "batch_size=16", "attack=none", "local_update=fedavg", "local_update.epochs=2")

    def final(*overrides):
        return trained(small(*base, *overrides))[0].params

    plain, each = final(), final("augmentation=shift_flip", "augmentation.per=batch")
    assert not torch.equal(plain, each) and torch.equal(
        each, final("augmentation=shift_flip", "augmentation.per=batch")
    )
    assert not torch.equal(each, final("augmentation=shift_flip"))


# --- models ----------------------------------------------------------------------------------------------------------


def test_sizes_of_the_papers_models():
    assert Network(Cnn(init="glorot"), (3, 32, 32), 10, 0).dim == 122_570
    assert Network(FemnistCnn(), (1, 28, 28), 62, 0).dim == 461_630
    assert Network(FemnistCnn(dense=126), (1, 28, 28), 62, 0).dim == 461_630 - 2 * (3136 + 1 + 62)
    assert Network(Lstm(), (80,), 80, 0).dim == 817_872
    assert Network(DropoutCnn(), (1, 28, 28), 10, 0).dim == 1_199_882
    assert Network(LeNet((20, 50), (500,)), (1, 28, 28), 10, 0).dim == 431_080


def test_glorot_is_uniform_up_to_its_bound_and_biases_are_zero():
    for layer in Network(Cnn(init="glorot"), (3, 32, 32), 10, 0).module:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            fans = [layer.weight[0].numel(), layer.weight.shape[0] * layer.weight[0, 0].numel()]
            bound = (6 / sum(fans)) ** 0.5
            assert 0.9 * bound < layer.weight.abs().max() <= bound and not layer.bias.any()
    with pytest.raises(ConfigError, match="init must be one of pytorch, glorot"):
        Cnn(init="keras")


def small_lstm(dropout=0.0, seed=1):
    return Network(Lstm(embedding=3, hidden=5, dropout=dropout), (7,), 11, seed)


def texts(n=6, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(11, size=(n, 7))).int(), torch.from_numpy(rng.integers(11, size=n))


def test_lstm_is_pytorchs_from_zero_states():
    network, (x, _) = small_lstm(), texts()
    embedding, first, _, second, _, _, output = network.module
    states = embedding(x)
    for layer in (first, second):
        theirs = nn.LSTM(states.shape[2], 5, batch_first=True)
        weights = (layer.weight_ih, layer.weight_hh, layer.bias, torch.zeros(20))
        for parameter, value in zip(theirs.parameters(), weights, strict=True):
            parameter.data = value.detach().clone()
        states = theirs(states)[0]
    torch.testing.assert_close(network.logits(network.initial, x), output(states[:, -1]))
    assert torch.equal(first.bias, torch.tensor([0.0] * 5 + [1] * 5 + [0] * 10))
    square = first.weight_hh.T @ first.weight_hh
    torch.testing.assert_close(square, torch.eye(5), rtol=0, atol=1e-5)


def test_a_text_counts_the_same_in_any_company_and_losses_of_many_models_are_theirs():
    network, (x, y) = small_lstm(dropout=0.5), texts()
    alone = torch.cat([network.logits(network.initial, row[None]) for row in x])
    torch.testing.assert_close(network.logits(network.initial, x), alone)
    stack = network.initial + 0.1 * torch.randn(3, network.dim, generator=torch.Generator().manual_seed(0))
    each = torch.tensor([network.evaluate(params, x, y)[0] for params in stack], dtype=torch.float64)
    torch.testing.assert_close(network.losses(stack, x, y), each)


def test_lstm_needs_texts():
    with pytest.raises(ConfigError, match="model lstm needs texts by character"):
        Lstm()((3, 32, 32), 10)


# --- dropout and clipping --------------------------------------------------------------------------------------------


def gradient(network, seed=None):
    x, y = texts()
    out = torch.empty(1, network.dim)
    if seed is None:
        network.gradients(network.initial, Batch(x, y, (len(y),)), out)
    else:
        with network.noise(seed):
            network.gradients(network.initial, Batch(x, y, (len(y),)), out)
    return out[0]


def test_dropout_comes_from_a_stream_and_is_off_elsewhere():
    network = small_lstm(dropout=0.5)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    assert torch.equal(gradient(network, 1), gradient(network, 1))
    assert not torch.equal(gradient(network, 1), gradient(network, 2))
    torch.testing.assert_close(gradient(network), gradient(small_lstm(), 1))
    assert torch.equal(torch.get_rng_state(), before), "the global generator is left alone"
    assert network.stochastic and not Network(Mlp(), (4,), 3, 0).stochastic


@pytest.mark.parametrize("shares", [(0.5, 0.0), (0.0, 0.5)])
def test_dropout_by_the_channel_and_by_the_unit_are_on_in_training_alone(shares):
    network = Network(DropoutCnn(4, *shares), (1, 8, 8), 3, seed=0)
    x, y, out = torch.ones(5, 1, 8, 8), torch.zeros(5, dtype=torch.int64), torch.empty(3, network.dim)
    for row, seed in zip(out, (1, 1, 2), strict=True):
        with network.noise(seed):
            network.gradients(network.initial, Batch(x, y, (5,)), row[None])
    assert torch.equal(out[0], out[1]) and not torch.equal(out[0], out[2])
    tested = network.logits(network.initial, x)
    assert torch.equal(tested, tested[:1].expand(5, -1)), "equal images have equal outputs"


def test_dropout_of_a_client_does_not_depend_on_who_else_takes_part():
    network, (x, y) = small_lstm(dropout=0.5), texts(12)
    asked = presets.planned()
    parts, storage = replace(asked.parts, local_update=FedAvg(epochs=2)), InMemory(2, network.dim, x.device)
    federation = Federation(asked.settings, parts, SimpleNamespace(network=network), storage)
    population = Population(x, y, [np.arange(6), np.arange(6, 12)])

    def updates(*clients, round=0):
        chosen = Samples(population, list(clients), list(clients), 0, "batches", round, 4)
        out = torch.empty(len(clients), network.dim)
        losses = federation._local_update(chosen, network.initial, 0.1, out)
        assert losses.shape == (len(clients),)
        return out

    assert torch.equal(updates(0, 1)[1], updates(1)[0])
    assert not torch.equal(updates(1)[0], updates(1, round=1)[0])


def test_clipping_bounds_every_entry_of_a_gradient():
    network, (x, y) = small_lstm(), texts()
    population = Population(x, y, [np.arange(6)])
    whole, clipped = torch.empty(1, network.dim), torch.empty(1, network.dim)
    for out, clip in ((whole, None), (clipped, 0.01)):
        FedAvg(epochs=1, clip=clip)(network, network.initial, Samples(population, [0], [0], 0, "b", 0), 1.0, out)
    assert whole.abs().max() > 0.02
    torch.testing.assert_close(clipped, whole.clamp(-0.01, 0.01), rtol=0, atol=1e-6)
    with pytest.raises(ConfigError, match="clip must be >= 0"):
        FedAvg(clip=-1)
