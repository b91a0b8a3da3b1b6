"""Local updates against PyTorch's own optimiser, one client at a time, and what they must agree on."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from robustfl_bench.interfaces import ConfigError
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Population, Samples
from robustfl_bench.parts.local_updates.fedavg import FedAvg
from robustfl_bench.parts.local_updates.fedsgd import FedSgd
from robustfl_bench.parts.models.mlp import Mlp

SIZES = (7, 1, 12)
NETWORK = Network(Mlp((6,)), (4,), 3, seed=1)


def population(seed: int = 0) -> Population:
    rng = torch.Generator().manual_seed(seed)
    x, y = torch.randn(20, 4, generator=rng), torch.randint(3, (20,), generator=rng)
    return Population(x, y, np.split(np.random.default_rng(seed).permutation(20), np.cumsum(SIZES)[:-1]))


def samples(batch_size: int | None, clients: tuple[int, ...] = (0, 1, 2), round: int = 4) -> Samples:
    return Samples(population(), clients, [10 + client for client in clients], 0, "batches", round, batch_size)


def by_optimiser(drawn: Samples, position: int, epochs: int, mu: float, lr: float) -> tuple[Tensor, float]:
    """Start minus end of one client in float64 with torch.optim.SGD, and its first loss."""
    module = copy.deepcopy(NETWORK.module).double()
    nn.utils.vector_to_parameters(NETWORK.initial.double(), module.parameters())
    optimiser = torch.optim.SGD(module.parameters(), lr=lr)
    losses = []
    for x, y in drawn.epochs(position, epochs):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(module(x.double()), y)
        losses.append(float(loss.detach()))
        distance = (nn.utils.parameters_to_vector(module.parameters()) - NETWORK.initial.double()).square().sum()
        (loss + mu / 2 * distance).backward()
        optimiser.step()
    return NETWORK.initial.double() - nn.utils.parameters_to_vector(module.parameters()).detach(), losses[0]


@pytest.mark.parametrize("batch_size", [None, 3, 7])
@pytest.mark.parametrize(("epochs", "mu"), [(1, 0.0), (5, 0.0), (5, 0.8)])
def test_fedavg_and_fedprox_are_sgd(batch_size: int | None, epochs: int, mu: float) -> None:
    drawn, start = samples(batch_size), NETWORK.initial.clone()
    out = torch.full((3, NETWORK.dim), float("nan"))
    losses = FedAvg(epochs, mu)(NETWORK, start, drawn, 0.5, out)
    assert torch.equal(start, NETWORK.initial)
    for position in range(3):
        update, loss = by_optimiser(drawn, position, epochs, mu, 0.5)
        torch.testing.assert_close(out[position].double(), update, rtol=1e-4, atol=1e-6)
        assert float(losses[position]) == pytest.approx(loss, rel=1e-5)


def test_mu_pulls_towards_the_start() -> None:
    near, far = torch.empty(3, NETWORK.dim), torch.empty(3, NETWORK.dim)
    FedAvg(5, 0.8)(NETWORK, NETWORK.initial, samples(None), 0.5, near)
    FedAvg(5, 0.0)(NETWORK, NETWORK.initial, samples(None), 0.5, far)
    assert (near.norm(dim=1) < 0.9 * far.norm(dim=1)).all()


def test_one_full_epoch_is_fedsgd() -> None:
    drawn, lr = samples(None), 0.3
    local, gradient = torch.empty(3, NETWORK.dim), torch.empty(3, NETWORK.dim)
    ours, theirs = FedAvg(epochs=1), FedSgd()
    losses = ours(NETWORK, NETWORK.initial, drawn, lr, local)
    expected = theirs(NETWORK, NETWORK.initial, drawn, lr, gradient)
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(ours.step_size(lr) * local, theirs.step_size(lr) * gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batch_size", [None, 3, 7, 50])
def test_an_epoch_takes_every_sample_once(batch_size: int | None) -> None:
    drawn = samples(batch_size)
    for position, size in enumerate(SIZES):
        whole = drawn.population.x[drawn.population.slice(position)]
        batches = [x for x, _ in drawn.epochs(position, 2)]
        lengths = [len(x) for x in batches]
        step = min(batch_size or size, size)
        assert lengths == 2 * ([step] * (size // step) + ([size % step] if size % step else []))
        for epoch in torch.cat(batches).split(size):
            assert sorted(map(tuple, epoch.tolist())) == sorted(map(tuple, whole.tolist()))


def test_orders_depend_on_client_epoch_and_round_but_not_on_company() -> None:
    def order(drawn: Samples, position: int) -> list[list[float]]:
        return torch.cat([x for x, _ in drawn.epochs(position, 1)]).tolist()  # type: ignore[no-any-return]

    assert order(samples(3), 2) == order(samples(3, clients=(2,)), 0)
    assert order(samples(3), 2) != order(samples(3, round=5), 2)
    first, second = torch.cat([x for x, _ in samples(3).epochs(2, 2)]).split(12)
    assert not torch.equal(first, second)


@pytest.mark.parametrize(("field", "value"), [("epochs", 0), ("mu", -1), ("server_lr", -1), ("epochs", 1.5)])
def test_bad_options(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{field} must be"):
        FedAvg(**{field: value})  # type: ignore[arg-type]
