"""The gradients of clients side by side, as on a GPU, against autograd client by client; on the CPU."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.numerics.network import side_by_side
from robustfl_bench.numerics.network.flat import FlatModule
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.numerics.network.side_by_side import SideBySide
from robustfl_bench.parts.models.cnn import Cnn
from robustfl_bench.parts.models.dropout_cnn import DropoutCnn
from robustfl_bench.parts.models.femnist_cnn import FemnistCnn
from robustfl_bench.parts.models.gru import Gru
from robustfl_bench.parts.models.lenet import LeNet
from robustfl_bench.parts.models.lstm import Lstm
from robustfl_bench.parts.models.mlp import Mlp
from robustfl_bench.parts.models.resnet20 import ResNet20

SIZES = (5, 2, 8, 3, 5)
WORDS = torch.randn(11, 6, generator=torch.Generator().manual_seed(1)).index_fill(0, torch.tensor([0]), 0)
MODELS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "mlp": (Mlp((7, 5)), (1, 4, 4)),
    "linear": (Mlp(()), (5,)),
    "cnn": (Cnn((3, 4), dense=6), (2, 10, 10)),
    "lenet": (LeNet((3, 4), (6,)), (1, 16, 16)),
    "femnist_cnn": (FemnistCnn(dense=5), (1, 12, 12)),
    "dropout_cnn": (DropoutCnn(dense=5), (1, 8, 8)),
    "resnet20": (ResNet20(), (3, 8, 8)),
    "resnet20, batch": (ResNet20("batch"), (3, 8, 8)),
    "gru": (Gru(hidden=4), (7,)),
    "gru, max": (Gru(hidden=4, pooling="max", embedding="trained"), (7,)),
    "lstm": (Lstm(embedding=3, hidden=4), (7,)),
}


def problem(name: str) -> tuple[Network, Batch, Tensor]:
    """A network in float64, samples of clients, and models near the network's first."""
    model, shape = MODELS[name]
    draw = torch.Generator().manual_seed(0)
    words = WORDS if name.startswith("gru") else None
    network = Network(model, shape, 9, seed=1, vectors=words)
    x = torch.randn(sum(SIZES), *shape, generator=draw, dtype=torch.float64)
    if len(shape) == 1 and name != "linear":
        x = torch.randint(1, 9, (len(x), *shape), generator=draw)
        if words is not None:
            lengths = torch.randint(0, 8, (len(x), 1), generator=draw)
            x = x.where(torch.arange(7) < lengths, 0)
    network.module.double()
    stack = network.initial.double() + 0.05 * torch.randn(len(SIZES), network.dim, generator=draw).double()
    return network, Batch(x, torch.randint(9, (len(x),), generator=draw), SIZES), stack


def one_by_one(network: Network, stack: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The obvious: backward passes of PyTorch's own."""
    rows, losses = [], []
    for params, (x, y) in zip(stack, batch.clients(), strict=True):
        nn.utils.vector_to_parameters(params, network.module.parameters())
        loss = functional.cross_entropy(network.module(x), y)
        rows.append(torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(network.module.parameters()))]))
        losses.append(loss.detach())
    return torch.stack(rows), torch.stack(losses)


@pytest.mark.parametrize("room", [1 << 29, 2000])
@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_the_gradients_of_clients_one_by_one(
    name: str, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, batch, stack = problem(name)
    expected, losses = one_by_one(network, stack, batch)
    shared, _ = one_by_one(network, stack[:1].expand_as(stack), batch)
    for forced in (nn.Module, *map(type, network.module.modules())):  # some layers choose by device
        for before, after in (("_packed", "_padded"), ("forward", "_stepwise"), ("forward", "_by_group")):
            if hasattr(forced, after):
                monkeypatch.setattr(forced, before, getattr(forced, after))
    monkeypatch.setattr(side_by_side, "ROOM", room)
    monkeypatch.setattr(FlatModule, "chunk", lambda *_: room)
    way = SideBySide(FlatModule(network.module), network.criterion)
    out = torch.full_like(stack, torch.nan)
    torch.testing.assert_close(way(stack, batch, out), losses)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-11)
    way(stack[0], batch, out)
    torch.testing.assert_close(out, shared, rtol=1e-9, atol=1e-11)
    assert not way._takes_turns
