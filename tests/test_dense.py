"""Dense networks: gradients written out against autograd, client by client."""

import pytest
import torch
from torch import nn

from robustfl_bench.numerics.network import dense
from robustfl_bench.numerics.network.gradients import WrittenOut
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.parts.models.mlp import Mlp


@pytest.mark.parametrize("hidden", [(), (7,), (300, 100)])
@pytest.mark.parametrize("sizes", [(1, 5, 3), (700, 1, 400, 64)])
def test_gradients_are_those_of_autograd(hidden, sizes):
    network = Network(Mlp(hidden), (1, 9, 9), 4, seed=0)
    with network._copied() as way:
        assert isinstance(way, WrittenOut)
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(sum(sizes), 1, 9, 9, generator=draw)
    y = torch.randint(4, (len(x),), generator=draw)
    out = torch.full((len(sizes), network.dim), torch.nan)
    losses = network.gradients(network.initial, Batch(x, y, sizes), out)
    params = [p.detach().clone().requires_grad_() for p in network.module.parameters()]
    module = network.module
    for row, loss, own_x, own_y in zip(out, losses, x.split(sizes), y.split(sizes), strict=True):
        outputs = torch.func.functional_call(
            module, dict(zip(dict(module.named_parameters()), params, strict=True)), own_x
        )
        expected = nn.functional.cross_entropy(outputs, own_y)
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(expected, params)])
        torch.testing.assert_close(row, gradient, atol=2e-7, rtol=1e-4)
        assert float(loss) == pytest.approx(float(expected.detach()), rel=1e-5)
    own = torch.full_like(out, torch.nan)
    assert torch.allclose(network.own_gradients(network.initial.repeat(len(sizes), 1), Batch(x, y, sizes), own), losses)
    torch.testing.assert_close(own, out, atol=2e-7, rtol=1e-4)


def test_only_networks_of_that_form_are_dense():
    flat, line = nn.Flatten(), nn.Linear(4, 4)
    assert dense.is_dense(nn.Sequential(flat, line, nn.ReLU(), line))
    others = [
        line,
        nn.Sequential(flat),
        nn.Sequential(line, nn.ReLU(), line),
        nn.Sequential(flat, line, nn.ReLU()),
        nn.Sequential(flat, line, nn.Tanh(), line),
        nn.Sequential(flat, nn.Linear(4, 4, bias=False)),
        nn.Sequential(nn.Flatten(2), line),
    ]
    assert not any(dense.is_dense(module) for module in others)
