"""The gradients of clients side by side, as on a GPU, against autograd client by client; on the CPU."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.numerics.network import recorded, side_by_side
from robustfl_bench.numerics.network.flat import FlatModule
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.numerics.network.side_by_side import SideBySide
from robustfl_bench.parts.models.cnn import Cnn
from robustfl_bench.parts.models.dropout_cnn import DropoutCnn
from robustfl_bench.parts.models.femnist_cnn import FemnistCnn
from robustfl_bench.parts.models.gru import Gru, TextClassifier
from robustfl_bench.parts.models.lenet import LeNet
from robustfl_bench.parts.models.lstm import Lstm
from robustfl_bench.parts.models.mlp import Mlp
from robustfl_bench.parts.models.resnet20 import ResNet20
from robustfl_bench.parts.models.stepwise import gru_states

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


class Repeated:
    """A recording of a device that is not there: it does the same work again, with the tensors that it holds."""

    def __init__(self, work: Callable[..., Sequence[Tensor]], given: Sequence[Tensor], beside: Any) -> None:
        assert isinstance(beside, Repeated | None)
        self.given, self._work = [tensor.clone() for tensor in given], work
        self.results = [result.clone() for result in work(*self.given)]

    def replay(self) -> None:
        for result, again in zip(self.results, self._work(*self.given), strict=True):
            result.copy_(again)


class Unrecordable(Repeated):
    def __init__(self, *_: Any) -> None:
        raise RuntimeError("the host would have to wait")


class OtherBits(Repeated):
    def replay(self) -> None:
        super().replay()
        self.results[0].view(torch.int64)[0, 0] ^= 1


class Empty(Repeated):
    def replay(self) -> None:
        """As where another device was recorded."""


class Waiting(Repeated):
    """What fails within the work, as a device does that would have to wait for the host."""

    def __init__(self, work: Callable[..., Sequence[Tensor]], given: Sequence[Tensor], beside: Any) -> None:
        with patch.object(side_by_side, "functional_call", side_effect=RuntimeError("the host would have to wait")):
            super().__init__(work, given, beside)


@pytest.mark.parametrize(
    ("graph", "graphs"), [(Repeated, 2), (Unrecordable, 0), (OtherBits, 0), (Empty, 0), (Waiting, 0)],
    ids=["as ever", "cannot", "other bits", "nothing", "waits"],
)  # fmt: skip
def test_gradients_that_are_replayed_are_those_of_new_inputs(
    graph: type[Repeated], graphs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, batch, stack = problem("mlp")
    monkeypatch.setattr(side_by_side, "KINDS", {"cpu"})
    made = list[Repeated]()
    monkeypatch.setattr(recorded, "Graph", lambda *given: made.append(graph(*given)) or made[-1])
    way = SideBySide(FlatModule(network.module), network.criterion)
    for turn in range(4):
        models, others = stack + turn, Batch(batch.x.roll(turn, dims=0), batch.y.roll(turn), SIZES)
        out = torch.full_like(stack, torch.nan)
        losses = way(models, others, out)
        expected, own = one_by_one(network, models, others)
        torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(losses, own)
    assert len(way._recorded._graphs) == graphs and not way._takes_turns
    assert len(made) == graphs or graph is not Repeated


def test_what_is_drawn_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    network, batch, stack = problem("dropout_cnn")
    monkeypatch.setattr(side_by_side, "KINDS", {"cpu"})
    way = SideBySide(FlatModule(network.module), network.criterion)
    for _ in range(3):
        way(stack, batch, torch.empty_like(stack))
    assert not way._recorded._seen


def loops(projected: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
    """The states of texts, their means and the shares of each word in these, as PyTorch's operations say."""
    whole = torch.cat([torch.zeros(2 * len(bias), dtype=bias.dtype), bias])
    states = gru_states(projected[tokens.long()], weight, whole)
    present = ((tokens != 0) | (torch.arange(tokens.shape[1]) == 0))[..., None]
    return states, (states * present).sum(dim=1) / present.sum(dim=1), present


def forwards(*given: Tensor) -> tuple[Tensor, Tensor]:
    states, pooled, _ = loops(*given)
    return torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], dim=1), pooled


@torch.enable_grad()
def backwards(
    projected: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, before: Tensor, at_words: Tensor
) -> Tensor:
    """Each gate has a weight of its own here, so that autograd gives its gradient at every word."""
    own = projected[tokens.long()].detach().requires_grad_()
    states = gru_states(own, weight, torch.cat([torch.zeros(2 * len(bias), dtype=bias.dtype), bias]))
    *_, present = loops(projected, weight, bias, tokens)
    (at_gates,) = torch.autograd.grad((states * present * at_words[:, None]).sum(), own)
    to_reset = weight[: len(bias)]
    reset = (own[..., : len(bias)] + before @ to_reset.T).sigmoid()
    return torch.cat([at_gates[..., -len(bias) :] * reset, at_gates], dim=2).detach()


def test_the_kernels_of_texts_give_the_gradients_of_clients_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    network, batch, stack = problem("gru")
    kernels = SimpleNamespace(UNITS=[4], work_on=lambda *_: True, forwards=forwards, backwards=backwards)
    monkeypatch.setitem(sys.modules, "robustfl_bench.parts.models.kernels", cast(ModuleType, kernels))
    has_kernels = TextClassifier.has_kernels
    monkeypatch.setattr(TextClassifier, "has_kernels", lambda self, _: has_kernels(self, torch.device("cuda")))
    expected, losses = one_by_one(network, stack[:1].expand_as(stack), batch)
    out = torch.full_like(stack, torch.nan)
    torch.testing.assert_close(SideBySide(FlatModule(network.module), network.criterion)(stack[0], batch, out), losses)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-11)


def interpreted() -> None:
    """The kernels as Triton interprets them on a CPU, against PyTorch's operations."""
    from robustfl_bench.parts.models import kernels

    draw, (length, hidden, vocabulary) = torch.Generator().manual_seed(0), (7, 16, 30)
    tokens = torch.randint(1, vocabulary, (45, length), generator=draw, dtype=torch.int32)
    tokens[torch.arange(length) >= torch.randint(0, length + 1, (45, 1), generator=draw)] = 0
    given = [0.3 * torch.randn(*shape, generator=draw) for shape in ((vocabulary, 48), (48, hidden), (hidden,))]
    expected, found = forwards(*given, tokens), kernels.forwards(*given, tokens)
    at_words = torch.randn(45, hidden, generator=draw)
    for right, own in zip(expected, found, strict=True):
        torch.testing.assert_close(own, right, rtol=1e-5, atol=1e-6)
    right, own = (each(*given, tokens, expected[0], at_words) for each in (backwards, kernels.backwards))
    torch.testing.assert_close(own, right, rtol=1e-5, atol=1e-6)
    assert kernels.work_on(torch.device("cpu"), 16) and not kernels.work_on(torch.device("cpu"), 17)


def test_the_kernels_of_texts_are_what_pytorch_computes() -> None:
    pytest.importorskip("triton", reason="Triton comes with PyTorch for CUDA")
    command = [sys.executable, "-c", f"import {__name__} as here; here.interpreted()"]
    subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, check=True)
