"""Gradients of clients that are written out, against autograd client by client; dropout on several threads."""

import copy
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.base.parallel import workers
from robustfl_bench.numerics.network import convolutional, dense, flat
from robustfl_bench.numerics.network.flat import FlatModule
from robustfl_bench.numerics.network.gradients import ByModule, Convolutional, OneByOne, WrittenOut, gradients_of
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.parts.models.cnn import Cnn
from robustfl_bench.parts.models.dropout_cnn import DropoutCnn
from robustfl_bench.parts.models.gru import Gru
from robustfl_bench.parts.models.layout import ChannelsLast, side_in_use
from robustfl_bench.parts.models.lenet import LeNet
from robustfl_bench.parts.models.lstm import Lstm
from robustfl_bench.parts.models.mlp import Mlp
from robustfl_bench.parts.models.vgg16 import Vgg16
from tests.test_side_by_side import MODELS, SIZES, WORDS, one_by_one, problem

WAYS = {
    "mlp": WrittenOut,
    "linear": WrittenOut,
    "cnn": Convolutional,
    "lenet": Convolutional,
    "femnist_cnn": Convolutional,
    "dropout_cnn": Convolutional,
    "gru": ByModule,
    "gru, max": ByModule,
}


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_autograd_to_the_last_digits_of_float64(name: str) -> None:
    """In float64 no mask and no winner of a pooling flips by rounding."""
    network, batch, stack = problem(name)
    expected, losses = one_by_one(network, stack, batch)
    shared, shared_losses = one_by_one(network, stack[:1].expand_as(stack), batch)
    way = gradients_of(FlatModule(network.module), network.criterion, regression=False)
    assert type(way) is WAYS.get(name, OneByOne)
    out = torch.full_like(stack, torch.nan)
    torch.testing.assert_close(way.each(stack, batch, out), losses.double())
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(way.together(stack[0], batch, out), shared_losses.double())
    torch.testing.assert_close(out, shared, rtol=1e-9, atol=1e-11)


@cache
def by_pytorch(model: Any, shape: tuple[int, ...]) -> tuple[Network, Batch, Tensor, Tensor]:
    """A network, a batch, and the gradients and losses of its clients one by one."""
    draw = torch.Generator().manual_seed(0)
    words = isinstance(model, Gru)
    network = Network(model, shape, 9, seed=1, vectors=torch.randn(40, 6, generator=draw) if words else None)
    x = torch.randn(sum(SIZES), *shape, generator=draw)
    if words:
        lengths = torch.randint(0, shape[0] + 1, (len(x), 1), generator=draw)
        x = torch.randint(1, 40, (len(x), *shape), generator=draw, dtype=torch.int32)
        x = x.where(torch.arange(shape[0]) < lengths, 0)
    batch = Batch(x, torch.randint(9, (len(x),), generator=draw), SIZES)
    return network, batch, *one_by_one(network, network.initial.expand(len(SIZES), -1), batch)


@pytest.mark.parametrize("chunk", [1, 9, 1000])
@pytest.mark.parametrize(
    ("model", "shape"),
    [(Cnn(), (3, 32, 32)), (Cnn((3, 4), dense=6), (2, 11, 13)), (LeNet(), (1, 28, 28)),
     (LeNet((3, 4), (6,), 3), (2, 15, 12)), (Vgg16((20, 10)), (3, 32, 32)), (Gru(), (30,)),
     (Gru(pooling="max"), (30,)), (Mlp(()), (1, 9, 9))],
)  # fmt: skip
def test_gradients_in_float32(model: Any, shape: tuple[int, ...], chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 1e-5 of the length of autograd's; a mask that flips at a value near 0 changes it by no more."""
    monkeypatch.setattr(flat, "CHUNK", chunk)
    monkeypatch.setattr(flat, "CONVOLUTIONS_CHUNK", chunk)
    network, batch, expected, by_autograd = by_pytorch(model, shape)
    out, stack = torch.full((len(SIZES), network.dim), torch.nan), network.initial.expand(len(SIZES), -1)
    losses = network.gradients(network.initial, batch, out)
    torch.testing.assert_close(losses.float(), by_autograd)
    assert ((out - expected).norm(dim=1) <= 1e-5 * expected.norm(dim=1)).all()
    assert ((network.own_gradients(stack, batch, out) - losses).abs() <= 1e-6).all()
    assert ((out - expected).norm(dim=1) <= 1e-5 * expected.norm(dim=1)).all()


def test_rows_of_layers_that_are_written_out() -> None:
    conv, line, flatten = nn.Conv2d(1, 2, 3), nn.Linear(8, 4), nn.Flatten()
    fits = nn.Sequential(nn.Sequential(ChannelsLast(), conv, nn.ReLU()), nn.Identity(), flatten, line)
    assert convolutional.row_of_layers(fits) == [fits[0][0], conv, fits[0][2], flatten, line]
    others = [
        conv,
        nn.Sequential(conv, nn.ReLU()),
        nn.Sequential(flatten, line),
        nn.Sequential(line, conv, flatten),
        nn.Sequential(conv, conv, flatten, line),
        nn.Sequential(conv, nn.Tanh(), flatten, line),
        nn.Sequential(conv, nn.AvgPool2d(2), flatten, line),
        nn.Sequential(conv, nn.GroupNorm(1, 2), flatten, line),
        nn.Sequential(conv, nn.BatchNorm2d(2), flatten, line),
        nn.Sequential(conv, nn.Flatten(2), line),
        nn.Sequential(nn.Conv2d(1, 2, 3, bias=False), flatten, line),
        nn.Sequential(nn.Conv2d(1, 2, 3, padding="same"), flatten, line),
        nn.Sequential(nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), flatten, line),
        nn.Sequential(conv, flatten, nn.Linear(8, 4, bias=False)),
    ]
    assert not any(convolutional.row_of_layers(module) for module in others)


@pytest.mark.parametrize(("chunk", "cached"), [(3, 1 << 20), (1000, 1 << 20), (1000, 1), (1000, 9 * 400)])
def test_convolutions_of_all_kinds(chunk: int, cached: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strides, padding, dilation and groups; poolings that overlap, with ties; several clients at a time, all of them,
    one, or as many as have nine samples of 400 numbers together."""
    monkeypatch.setattr(flat, "CONVOLUTIONS_CHUNK", chunk)
    monkeypatch.setattr(convolutional, "CACHED", cached)
    module = nn.Sequential(
        *(nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(3, stride=1, padding=1)),
        *(nn.Conv2d(4, 6, 2, dilation=2, groups=2), nn.MaxPool2d(2, ceil_mode=True), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(24, 5), nn.ReLU(), nn.Linear(5, 9)),
    )
    network = Network(lambda *_: copy.deepcopy(module), (2, 10, 10), 9, seed=0)  # type: ignore[arg-type]
    x = torch.randn(sum(SIZES), 2, 10, 10, generator=torch.Generator().manual_seed(0)).round()
    batch, out = Batch(x, torch.arange(len(x)) % 9, SIZES), torch.empty(len(SIZES), network.dim)
    losses = network.gradients(network.initial, batch, out)
    expected, by_autograd = one_by_one(network, network.initial.expand_as(out), batch)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(losses.float(), by_autograd)
    assert torch.equal(batch.x, x), "the samples are left as they are"


def test_packed_texts_are_those_with_padding() -> None:
    for pooling in ("mean", "max"):
        module = Gru(4, pooling)((7,), 3, WORDS)
        tokens = torch.randint(1, 11, (20, 7)).where(torch.arange(7) < torch.arange(20)[:, None] % 8, 0)
        with torch.no_grad():
            packed = module(tokens)
        torch.testing.assert_close(packed, module(tokens).detach())


# --- pixels that no output depends on --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "shape", "used"),
    [(Cnn(), (3, 32, 32), (30, 30)), (Cnn((3, 4), dense=6), (2, 11, 13), (10, 12)), (Cnn((3,)), (1, 9, 9), (9, 9))],
)
def test_pixels_without_effect_are_left_out(model: Any, shape: tuple[int, ...], used: tuple[int, int]) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module, x, noise = model(shape, 5), torch.randn(8, *shape), torch.randn(8, shape[0])
    assert (module[0].height, module[0].width) == used
    found = module(x)
    changed = x.clone()
    changed[:, :, used[0] :], changed[:, :, :, used[1] :] = torch.nan, torch.nan
    assert torch.equal(module(changed), found)
    changed = x.clone()
    changed[:, :, used[0] - 1, used[1] - 1] += 30 * noise  # the last pixel in use
    assert not torch.equal(module(changed), found)
    module[0] = ChannelsLast()
    torch.testing.assert_close(module(x), found)


def test_side_in_use() -> None:
    assert side_in_use(32, [(3, 2), (3, 2), (3, 1)]) == 30
    assert side_in_use(28, [(5, 2), (5, 2)]) == 28
    assert side_in_use(9, [(2, 3)]) == 7


# --- dropout ---------------------------------------------------------------------------------------------------------


def noisy() -> list[Network]:
    return [
        Network(DropoutCnn(dense=5), (1, 8, 8), 9, seed=1),
        Network(DropoutCnn(dense=5, channel_dropout=1, dropout=0), (1, 8, 8), 9, seed=1),
        Network(Lstm(embedding=3, hidden=4, dropout=0.5), (7,), 9, seed=1),
    ]


def draw(network: Network, number: int) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(0)
    x = torch.randint(9, (number, 7), generator=rng) if isinstance(network.module[0], nn.Embedding) else None
    x = torch.randn(number, 1, 8, 8, generator=rng) if x is None else x
    return x, torch.randint(9, (number,), generator=rng)


@pytest.mark.parametrize("network", noisy(), ids=lambda network: network._name)
def test_draws_are_those_of_pytorchs_generator(network: Network) -> None:
    x, y = draw(network, 6)
    out = torch.empty(1, network.dim)
    with network.noise(3):
        network.gradients(network.initial, Batch(x, y, (6,)), out)
        first = out.clone()
        network.gradients(network.initial, Batch(x, y, (6,)), out)  # the next draws of the stream
    module = copy.deepcopy(network.module).train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        for found in (first, out):
            loss = functional.cross_entropy(module(x), y)
            expected = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(module.parameters()))])
            torch.testing.assert_close(found[0], expected, rtol=1e-4, atol=1e-6)


def test_other_kinds_of_dropout_take_the_global_generator() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(4, 6), nn.SELU(), nn.AlphaDropout(0.5), nn.Linear(6, 3))
    network = Network(lambda *_: copy.deepcopy(module), (4,), 3, seed=0)  # type: ignore[arg-type]
    x, y, out = torch.randn(6, 4), torch.arange(6) % 3, torch.empty(3, network.dim)
    for row, seed in zip(out, (1, 1, 2), strict=True):
        with network.noise(seed):
            network.gradients(network.initial, Batch(x, y, (6,)), row[None])
    assert torch.equal(out[0], out[1]) and not torch.equal(out[0], out[2])


@pytest.mark.parametrize("name", ["cnn", "gru", "linear"])
def test_the_number_of_threads_changes_no_byte(name: str) -> None:
    model, shape = MODELS[name]
    network = Network(model, shape, 9, seed=1, vectors=WORDS if name == "gru" else None)
    rng = torch.Generator().manual_seed(0)
    x = torch.randint(1, 9, (600, *shape), generator=rng) if name == "gru" else torch.randn(600, *shape, generator=rng)
    batch, found = Batch(x, torch.randint(9, (600,), generator=rng), (60,) * 10), []
    for number in (1, 3):
        out = torch.empty(2, 10, network.dim)
        with workers(number):
            network.gradients(network.initial, batch, out[0])
            network.own_gradients(network.initial.repeat(10, 1), batch, out[1])
        found.append(out)
    assert torch.equal(*found)


def test_clients_of_one_layer_are_split_by_the_cache_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    network, (x, y) = Network(Mlp(()), (1, 8, 8), 9, seed=1), draw(noisy()[0], 40)
    batch, found = Batch(x, y, (5, 5, 5, 3, 1, 1, 10, 10)), []
    stack = network.initial + torch.randn(8, network.dim, generator=torch.Generator().manual_seed(1))
    for cached in (1, 2000, 1 << 30):
        monkeypatch.setattr(dense, "CACHED", cached)
        out = torch.empty(2, 8, network.dim)
        network.gradients(network.initial, batch, out[0])
        network.own_gradients(stack, batch, out[1])
        found.append(out)
    assert torch.equal(found[0], found[1]) and torch.equal(found[1], found[2])
    assert np.isfinite(found[0].numpy()).all()
