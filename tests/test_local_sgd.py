"""Local SGD against PyTorch's optimiser; SAGA against a table of stored gradients; compression and RSA by hand."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from robustfl_bench.base import seeding
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch, Population, Samples
from robustfl_bench.parts.local_updates.compressed import Compressed
from robustfl_bench.parts.local_updates.fedsgd import FedSgd
from robustfl_bench.parts.local_updates.local_sgd import LocalSgd
from robustfl_bench.parts.local_updates.rsa import Rsa
from robustfl_bench.parts.local_updates.saga import Saga
from robustfl_bench.parts.models.lenet import LeNet
from robustfl_bench.parts.models.mlp import Mlp
from robustfl_bench.train.loop import run
from robustfl_bench.train.rounds import initial_state
from tests.conftest import Bench
from tests.presets import small as federation
from tests.rounds import refused
from tests.test_engine import MODELS
from tests.test_memory import through_a_file

SIZES = (7, 1, 12)
NETWORK = Network(Mlp((6,)), (4,), 3, seed=1)
START = NETWORK.initial + 0.3 * torch.randn(NETWORK.dim, generator=torch.Generator().manual_seed(3))


def population() -> Population:
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(20, 4, generator=rng), torch.randint(3, (20,), generator=rng)
    return Population(x, y, np.split(np.random.default_rng(0).permutation(20), np.cumsum(SIZES)[:-1]))


def samples(batch_size: int | None = 4, round: int = 4, clients: tuple[int, ...] = (0, 1, 2), **kept: Any) -> Samples:
    ids = [10 + client for client in clients]
    return Samples(population(), clients, ids, 0, "batches", round, batch_size, **kept)


def gradient(params: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """By autograd, in float64."""
    module = copy.deepcopy(NETWORK.module).double()
    nn.utils.vector_to_parameters(params.double(), module.parameters())
    loss = nn.functional.cross_entropy(module(x.double()), y)
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(module.parameters()))])


# --- local SGD -------------------------------------------------------------------------------------------------------


def by_optimiser(batches: list[tuple[Tensor, Tensor]], **options: float) -> tuple[Tensor, Tensor]:
    """The end, and the mean of the steps over the rate, in float64 with torch.optim.SGD."""
    module = copy.deepcopy(NETWORK.module).double()
    nn.utils.vector_to_parameters(START.double(), module.parameters())
    optimiser = torch.optim.SGD(module.parameters(), **options)  # type: ignore[arg-type]
    for x, y in batches:
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(x.double()), y).backward()
        optimiser.step()
    end = nn.utils.parameters_to_vector(module.parameters()).detach()
    return end, (START.double() - end) / (options["lr"] * len(batches))


OPTIONS = [{}, {"momentum": 0.9}, {"weight_decay": 0.1}, {"momentum": 0.5, "weight_decay": 0.2}]


@pytest.mark.parametrize("kind", [{"steps": 3}, {"steps": 1}, {"steps": None, "epochs": 2}])
@pytest.mark.parametrize("options", OPTIONS)
def test_local_sgd_is_the_optimiser_s(kind: dict[str, Any], options: dict[str, float]) -> None:
    drawn, before = samples(), START.clone()
    for upload in ("mean_gradient", "difference", "model"):
        out = torch.full((3, NETWORK.dim), float("nan"))
        train = LocalSgd(**kind, **options, upload=upload)  # type: ignore[arg-type]
        losses = train(NETWORK, START, drawn, 0.4, out)
        for position, row in enumerate(out):
            if train.epochs:
                batches = list(drawn.epochs(position, train.epochs))
            else:
                batches = [drawn.batch(step).clients()[position] for step in range(train.steps or 0)]
            end, mean = by_optimiser(batches, lr=0.4, **options)
            expected = mean if upload == "mean_gradient" else START - end
            torch.testing.assert_close(row.double(), expected, rtol=1e-4, atol=1e-5)
            loss = nn.functional.cross_entropy(NETWORK.logits(START, batches[0][0]), batches[0][1])
            assert float(losses[position]) == pytest.approx(float(loss), rel=1e-5)
    assert torch.equal(START, before)


def test_one_step_is_fedsgd_on_the_same_batch() -> None:
    ours, theirs, drawn = torch.empty(3, NETWORK.dim), torch.empty(3, NETWORK.dim), samples()
    train = LocalSgd(1)
    losses = train(NETWORK, START, drawn, 0.7, ours)
    torch.testing.assert_close(losses, FedSgd()(NETWORK, START, drawn, 0.7, theirs))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    assert train.step_size(0.7) == 0.7 and LocalSgd(1, server_lr=0.5).step_size(0.7) == 0.35
    assert LocalSgd(upload="difference").step_size(0.7) == LocalSgd(upload="model").step_size(0.7) == 1


@pytest.mark.parametrize("name", ["mlp", "linear", "cnn", "tied"])
def test_own_gradients_are_those_of_a_network_per_client(name: str) -> None:
    model, shape = MODELS[name]
    network = Network(model, shape, 3, seed=1)
    rng = torch.Generator().manual_seed(0)
    sizes = (5, 1, 5, 3, 5)
    x, y = torch.randn(sum(sizes), *shape, generator=rng), torch.randint(3, (sum(sizes),), generator=rng)
    stack = network.initial + 0.2 * torch.randn(len(sizes), network.dim, generator=rng)
    batch, out = Batch(x, y, sizes), torch.full((len(sizes), network.dim), float("nan"))
    losses = network.own_gradients(stack, batch, out)
    for params, row, loss, (xs, ys) in zip(stack, out, losses, batch.clients(), strict=True):
        alone = torch.empty(1, network.dim)
        expected = network.gradients(params, Batch(xs, ys, (len(ys),)), alone)
        torch.testing.assert_close(row, alone[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(loss, expected[0], rtol=1e-5, atol=1e-6)


# --- SAGA ------------------------------------------------------------------------------------------------------------


class Table:
    """SAGA with every block's gradient stored, for every client, one loop inside the other."""

    def __init__(self, params: Tensor, drawn: Samples, width: int) -> None:
        self.width, own = width, drawn.population
        self.blocks: list[list[np.ndarray]] = []
        for position in range(len(own)):
            size = int(own.sizes[position])
            order = seeding.generator(0, "blocks", 10 + position).permutation(size)
            self.blocks.append([int(own.starts[position]) + order[i : i + width] for i in range(0, size, width)])
        self.stored = [[gradient(params, own.x[b], own.y[b]) for b in blocks] for blocks in self.blocks]

    def update(self, params: Tensor, drawn: Samples) -> Tensor:
        rows, own = [], drawn.population
        for client, i in zip(drawn.clients, drawn.ids, strict=True):
            blocks, stored = self.blocks[client], self.stored[client]
            sizes = [len(block) for block in blocks]
            mean = sum(size * value for size, value in zip(sizes, stored, strict=True)) / sum(sizes)
            j = seeding.generator(0, "batches", drawn.round, "block", i).integers(sum(sizes)) // self.width
            new = gradient(params, own.x[blocks[j]], own.y[blocks[j]])
            rows.append(new - stored[j] + mean)
            stored[j] = new
        return torch.stack(rows)


def test_saga_is_a_table_of_gradients_without_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustfl_bench.local_updates.saga.ROOM", 1)
    memory: dict[str, Tensor] = {}
    table = Table(START, samples(3), 3)
    rng, params = np.random.default_rng(0), START
    for round in range(40):
        clients = (0, 1, 2) if round % 3 else tuple(sorted(rng.choice(3, 2, replace=False).tolist()))
        drawn = samples(3, round, clients, memory=memory)
        out = torch.full((len(clients), NETWORK.dim), float("nan"))
        losses = Saga()(NETWORK, params, drawn, 0.1, out)
        torch.testing.assert_close(out.double(), table.update(params, drawn), rtol=1e-3, atol=1e-5)
        assert losses.shape == (len(clients),) and losses.isfinite().all()
        params = params - 0.3 * out.mean(dim=0)
    assert len(memory["saga_models"]) <= 3 + 1 + 4 + 1, "no more models than blocks, and one to write into"


def test_saga_without_a_memory_sends_full_gradients() -> None:
    drawn, out = samples(3), torch.empty(3, NETWORK.dim)
    Saga()(NETWORK, START, drawn, 0.1, out)
    expected = torch.stack([gradient(START, x, y) for x, y in drawn.full().clients()])
    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-6)
    assert Saga().step_size(0.2) == 0.2


def test_saga_reduces_variance() -> None:
    """At a model that hardly moves, what a client sends hardly differs from its full gradient; a batch's does."""
    memory: dict[str, Tensor] = {}
    full = gradient(START, *samples().full().clients()[2])
    saga, plain = [], []
    for round in range(60):
        drawn = samples(3, round, (2,), memory=memory)
        out = torch.empty(1, NETWORK.dim)
        Saga()(NETWORK, START + 1e-4 * round, drawn, 0.1, out)
        saga.append(float((out[0] - full).norm()))
        FedSgd()(NETWORK, START, drawn, 0.1, out)
        plain.append(float((out[0] - full).norm()))
    assert np.mean(saga[5:]) < 0.1 * np.mean(plain)


def test_saga_that_needs_too_much_is_refused_before_the_run(bench: Bench) -> None:
    outcome = bench("local_update=saga", "batch_size=8", "local_update.memory_gib=1e-4", "rounds=2", "attack=none")
    assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert "saga could need" in outcome.err and "memory_gib=0.0001; raise that" in outcome.err


# --- compression and RSA ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compressor", ["random", "top"])
def test_compressed_differences_by_hand(compressor: str) -> None:
    train, memory = Compressed(FedSgd(), compressor, share=0.25), {}
    beta = 0.25 if compressor == "random" else 1.0
    known = torch.zeros(3, NETWORK.dim)
    for round in range(3):
        drawn, out, inner = samples(4, round, memory=memory), torch.empty(3, NETWORK.dim), torch.empty(3, NETWORK.dim)
        losses = train(NETWORK, START, drawn, 0.1, out)
        torch.testing.assert_close(losses, FedSgd()(NETWORK, START, drawn, 0.1, inner))
        for i in range(3):
            difference, sent = inner[i] - known[i], torch.zeros(NETWORK.dim)
            if compressor == "top":
                kept = difference.abs().argsort(descending=True)[: round_half(0.25 * NETWORK.dim)]
                sent[kept] = difference[kept]
            else:
                draws = seeding.generator(0, "batches", round, "kept", 10 + i).random(NETWORK.dim, dtype=np.float32)
                kept = torch.from_numpy(draws < 0.25)
                sent[kept] = difference[kept] / 0.25
            torch.testing.assert_close(out[i], known[i] + sent, rtol=1e-4, atol=1e-6)
            known[i] += beta * sent
    assert train.step_size(0.3) == 0.3


def round_half(value: float) -> int:
    return max(1, round(value))


def test_compressed_uploads_come_near_where_the_gradient_stays() -> None:
    memory: dict[str, Tensor] = {}
    full = torch.stack([gradient(START, x, y) for x, y in samples().full().clients()])
    for share, compressor in ((0.3, "top"), (0.5, "random")):
        memory.clear()
        for round in range(60):
            out = torch.empty(3, NETWORK.dim)
            Compressed(FedSgd(), compressor, share)(NETWORK, START, samples(None, round, memory=memory), 0.1, out)
        assert (out - full).norm() < 1e-3 * full.norm()


def test_rsa_by_hand() -> None:
    memory: dict[str, Tensor] = {}
    own, server = START.repeat(3, 1).double(), START.clone()
    for round in range(4):
        clients = (0, 2) if round == 2 else (0, 1, 2)
        drawn, out = samples(4, round, clients, memory=memory), torch.empty(len(clients), NETWORK.dim)
        Rsa(0.05)(NETWORK, server, drawn, 0.2, out)
        for row, client, (x, y) in zip(out, clients, drawn.batch(0).clients(), strict=True):
            torch.testing.assert_close(row.double(), server.double() - own[client], rtol=1e-3, atol=1e-5)
            step = gradient(own[client], x, y) + 0.05 * torch.sign(own[client] - server.double())
            own[client] -= 0.2 * step
        server = server - 0.1 * out.sign().sum(dim=0)


MEMORIES = {
    "saga": ("local_update=saga", "aggregator=byrd_saga"),
    "broadcast": ("local_update=broadcast", "aggregator=byrd_saga"),
    "rsa": ("local_update=rsa", "aggregator=rsa"),
    "momentum": ("local_update=momentum", "server_optimizer=adam"),
}


@pytest.mark.parametrize("name", MEMORIES)
def test_schemes_that_remember_go_on_from_a_checkpoint(name: str) -> None:
    asked = ("attack=sign_flip", "byzantine_placement=replace", "num_byzantine=4", "rounds=6", "batch_size=8",
             "participation=0.8", "lr=0.05", *MEMORIES[name])  # fmt: skip
    first, again = federation(*asked), federation(*asked)
    whole = [through_a_file(state) for state, _ in run(first, initial_state(first))]
    for (state, _), expected in zip(run(again, through_a_file(whole[2])), whole[3:], strict=True):
        assert torch.equal(state.params, expected.params)
    assert whole[-1].memory[0].local["honest"] and whole[-1].memory[0].local["byzantine"]
    assert not torch.equal(whole[-1].params, whole[2].params)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LocalSgd(steps=0), "steps must be >= 1"),
        (lambda: LocalSgd(steps=2, epochs=1), "takes steps or epochs, got steps=2, epochs=1"),
        (lambda: LocalSgd(steps=None), "takes steps or epochs, got steps=None, epochs=None"),
        (lambda: LocalSgd(upload="gradient"), "upload must be one of mean_gradient, difference, model"),
        (lambda: LocalSgd(momentum=1.5), "momentum must be in"),
        (lambda: LocalSgd(weight_decay=-1), "weight_decay must be >= 0"),
        (lambda: Saga(memory_gib=-1), "memory_gib must be >= 0"),
        (lambda: Compressed(FedSgd(), "sign"), "compressor must be one of random, top"),
        (lambda: Compressed(FedSgd(), share=0), "share must be in"),
        (lambda: Compressed(FedSgd(), beta=2), "beta must be in"),
        (lambda: Rsa(-1), "penalty must be >= 0"),
        (lambda: Compressed(Rsa()), "inner must send updates, and Rsa sends models"),
        (lambda: LeNet(channels=()), "channels must not be empty"),
        (lambda: LeNet()((784,), 10), "model lenet needs images"),
        (lambda: LeNet()((1, 8, 8), 10), "needs larger images than"),
    ],
)
def test_bad_options_are_one_clear_line(make: Any, message: str) -> None:
    refused(make, message)


def test_lenet_has_the_papers_sizes() -> None:
    mnist, cifar10 = LeNet(), LeNet((64, 64), (384, 192))
    assert Network(mnist, (1, 28, 28), 10, 0).dim == 41_282
    assert Network(cifar10, (3, 32, 32), 10, 0).dim == 797_962
    assert Network(Mlp((200, 100)), (1, 28, 28), 10, 0).dim == 178_110
    assert Network(Mlp((200, 200)), (3, 32, 32), 10, 0).dim == 656_810
    assert [tuple(p.shape) for p in mnist((1, 28, 28), 10).parameters()][::2] == [
        (6, 1, 5, 5), (16, 6, 5, 5), (120, 256), (60, 120), (10, 60)]  # fmt: skip
