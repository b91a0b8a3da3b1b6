"""The models of BRACE: sizes, ResNet-20 against a plain one, and what its normalisation depends on."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.interfaces import ConfigError
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.parts.models.lenet import LeNet
from robustfl_bench.parts.models.resnet20 import ResNet20
from tests.rounds import build


def images(n: int, seed: int = 0) -> Tensor:
    return torch.randn(n, 3, 16, 16, generator=torch.Generator().manual_seed(seed))


def test_brace_cnn_has_the_printed_layers() -> None:
    module = build("model", "brace_cnn")((1, 28, 28), 10)
    assert sum(p.numel() for p in module.parameters()) == 139_960
    kinds = [type(layer).__name__ for layer in module]
    assert kinds == ["ChannelsLast", *["Conv2d", "MaxPool2d", "ReLU"] * 2, "Flatten", "Linear", "ReLU", "Linear"]
    assert [tuple(p.shape) for p in module.parameters()][::2] == [(30, 1, 3, 3), (50, 30, 3, 3), (100, 1250), (10, 100)]


@pytest.mark.parametrize("channels", [1, 3])
def test_the_layout_in_memory_changes_nothing_but_roundings(channels: int) -> None:
    """Losses, gradients of several clients, predictions, whichever way the images themselves lie in memory."""
    usual, other = (
        Network(LeNet((4, 6), (8,), 3, channels_last=last), (channels, 14, 14), 10, seed=0) for last in (False, True)
    )
    assert torch.equal(usual.initial, other.initial)
    x = torch.randn(300, channels, 14, 14, generator=torch.Generator().manual_seed(0))
    y, sizes = torch.arange(300) % 10, (100, 7, 193)
    with torch.no_grad():
        assert other.module[1](other.module[0](x)).is_contiguous(memory_format=torch.channels_last)  # type: ignore[index]
    for given in (x, x.contiguous(memory_format=torch.channels_last), x.transpose(2, 3).contiguous().transpose(2, 3)):
        rows, losses = [], []
        for network in (usual, other):
            rows.append(torch.empty(3, network.dim))
            losses.append(network.gradients(network.initial, Batch(given, y, sizes), rows[-1]))
        torch.testing.assert_close(rows[1], rows[0], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-6, atol=0)
        assert other.evaluate(other.initial, given, y)[0] == pytest.approx(usual.evaluate(usual.initial, x, y)[0])
    stack = usual.initial + torch.zeros(2, 1)
    torch.testing.assert_close(other.losses(stack, x, y), usual.losses(stack, x, y), rtol=1e-6, atol=0)


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_resnet20_is_a_plain_residual_network(norm: str) -> None:
    module = build("model", "resnet20", f"model.norm={norm}")((3, 32, 32), 10)
    assert sum(p.numel() for p in module.parameters()) == 269_722 and not list(module.buffers())
    weights = iter(module.parameters())

    def convolved(x: Tensor, stride: int = 1) -> Tensor:
        x = functional.conv2d(x, next(weights), stride=stride, padding=1)
        n, c, h, w = x.shape
        parts = x.reshape(n, 8, c // 8, h, w) if norm == "group" else x
        axes = (2, 3, 4) if norm == "group" else (0, 2, 3)
        mean, variance = parts.mean(axes, keepdim=True), parts.var(axes, unbiased=False, keepdim=True)
        normal = ((parts - mean) / (variance + 1e-5).sqrt()).reshape(n, c, h, w)
        return normal * next(weights)[:, None, None] + next(weights)[:, None, None]

    x = images(4)
    out = convolved(x).relu()
    for channels in (16, 32, 64):
        for _ in range(3):
            stride = 1 if out.shape[1] == channels else 2
            shortcut = out[:, :, ::stride, ::stride]
            zeros = out.new_zeros(len(out), channels - out.shape[1], *shortcut.shape[2:])
            inside = convolved(convolved(out, stride).relu())
            out = (inside + torch.cat([shortcut, zeros], dim=1)).relu()
    expected = out.mean(dim=(2, 3)) @ next(weights).T + next(weights)
    assert next(weights, None) is None
    torch.testing.assert_close(module.eval()(x), expected, rtol=1e-3, atol=1e-4)


def test_resnet18_is_a_residual_network_with_projections() -> None:
    module = build("model", "resnet18")((3, 16, 16), 10)
    assert sum(p.numel() for p in module.parameters()) == 11_173_962 and not list(module.buffers())
    weights = iter(module.parameters())

    def normal(x: Tensor) -> Tensor:
        x = functional.group_norm(x, 8)
        return x * next(weights)[:, None, None] + next(weights)[:, None, None]

    def convolved(x: Tensor, stride: int = 1) -> Tensor:
        kernel = next(weights)
        return normal(functional.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2))

    x = images(2)[:, :, :16, :16].contiguous()
    out = convolved(x).relu()
    for channels in (64, 128, 256, 512):
        for _ in range(2):
            stride = 1 if out.shape[1] == channels else 2
            inside = convolved(convolved(out, stride).relu())
            out = (inside + (out if stride == 1 else convolved(out, stride))).relu()
    expected = out.mean(dim=(2, 3)) @ next(weights).T + next(weights)
    assert next(weights, None) is None
    torch.testing.assert_close(module.eval()(x), expected, rtol=1e-3, atol=1e-4)


def test_what_a_prediction_depends_on() -> None:
    """Group normalisation: on the image alone. Batch normalisation: on those beside it; nothing is kept in between."""
    x = images(6)
    for norm, alone in (("group", True), ("batch", False)):
        network = Network(ResNet20(norm), (3, 16, 16), 10, seed=0)
        with torch.no_grad():
            together, apart = network.logits(network.initial, x), network.logits(network.initial, x[:3])
            assert torch.allclose(together[:3], apart, atol=1e-4) == alone
            assert torch.equal(network.logits(network.initial, x[:3]), apart)


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_a_client_s_gradient_is_of_its_own_batch(norm: str) -> None:
    network = Network(ResNet20(norm), (3, 8, 8), 10, seed=0)
    x, y, sizes = images(9)[:, :, :8, :8].contiguous(), torch.arange(9), (2, 4, 3)
    out = torch.empty(3, network.dim)
    losses = network.gradients(network.initial, Batch(x, y, sizes), out)
    for row, loss, xs, ys in zip(out, losses, x.split(sizes), y.split(sizes), strict=True):
        module = build("model", "resnet20", f"model.norm={norm}")((3, 8, 8), 10)
        nn.utils.vector_to_parameters(network.initial, module.parameters())
        expected = functional.cross_entropy(module(xs), ys)
        gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(expected, list(module.parameters()))])
        torch.testing.assert_close(row, gradient, rtol=1e-3, atol=1e-5)
        assert float(loss) == pytest.approx(expected.item(), rel=1e-5)


def test_resnet20_needs_images_and_a_known_norm() -> None:
    with pytest.raises(ConfigError, match="model resnet20 needs images"):
        ResNet20()((784,), 10)
    with pytest.raises(ConfigError, match="norm must be one of group, batch, got 'layer'"):
        ResNet20("layer")
