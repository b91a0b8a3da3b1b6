"""Data sets that are drawn or dealt to clients, and the models of them: their statistics, and what they promise."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from robustfl_bench.base import seeding
from robustfl_bench.interfaces import ConfigError, Data, Dataset
from robustfl_bench.numerics.bernoulli import bernoulli_vectors
from robustfl_bench.numerics.network import least_squares
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch, Population
from robustfl_bench.parts.datasets.digits import Digits
from robustfl_bench.parts.datasets.linear_mixture import LinearMixture
from robustfl_bench.parts.datasets.mean_mixture import MeanMixture
from robustfl_bench.parts.datasets.mixtures import clusters_of
from robustfl_bench.parts.datasets.rotated import Rotated
from robustfl_bench.parts.models.linear_regression import LinearRegression
from robustfl_bench.parts.models.mean import Mean
from robustfl_bench.parts.models.mlp import Mlp
from robustfl_bench.parts.partitions.natural import Natural
from tests.rounds import refused

NOWHERE = Path("/nonexistent")
DRAWN = [
    LinearMixture(num_clients=12, seed=3, num_clusters=3, dim=6),
    MeanMixture(num_clients=12, seed=3, num_clusters=3, dim=6),
    MeanMixture(num_clients=12, seed=3, num_clusters=3, dim=6, family="poisson"),
]


def tensors(data: Data) -> dict[str, torch.Tensor]:
    return {name: value for name, value in vars(data).items() if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize("dataset", [*DRAWN, Rotated(Digits(), num_clients=12, seed=3)], ids=str)
def test_the_same_seed_gives_the_same_data_and_another_seed_others(dataset: Dataset) -> None:
    first, again = tensors(dataset.load(NOWHERE)), tensors(dataset.load(NOWHERE))
    assert isinstance(dataset, Dataset)
    assert hash(dataset) == hash(type(dataset)(**vars(dataset)))
    assert first.keys() == again.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)
    other = type(dataset)(**{**vars(dataset), "seed": 4}).load(NOWHERE)
    assert not torch.equal(first["train_x"], other.train_x)


@pytest.mark.parametrize("dataset", DRAWN, ids=str)
def test_drawn_data_have_the_stated_shapes(dataset: LinearMixture | MeanMixture) -> None:
    data = dataset.load(NOWHERE)
    assert data.train_x.shape == (12 * 100, 6) and data.test_x.shape == (3 * 100, 6)
    assert data.train_x.dtype == data.train_y.dtype == torch.float32
    assert data.owners is not None and data.clusters is not None and data.test_clusters is not None
    assert data.owners.bincount().tolist() == [100] * 12
    assert data.clusters.bincount().tolist() == [400] * 3
    assert data.test_clusters.bincount().tolist() == [100] * 3
    assert data.truth is not None and data.truth.shape == (3, 6) and data.truth.dtype == torch.float64


@pytest.mark.parametrize(("clients", "clusters", "sizes"), [(80, 2, [40, 40]), (7, 3, [3, 2, 2]), (3, 3, [1, 1, 1])])
def test_clusters_are_even(clients: int, clusters: int, sizes: list[int]) -> None:
    assert np.bincount(clusters_of(clients, clusters)).tolist() == sizes


def test_linear_mixture_has_the_statistics_of_the_paper() -> None:
    data = LinearMixture(num_clients=4, seed=0, num_clusters=2, dim=20, points=5000).load(NOWHERE)
    assert data.truth is not None and data.clusters is not None
    truth = data.truth.float()
    torch.testing.assert_close(truth.norm(dim=1), torch.ones(2))
    assert all(len(row[row > 0].unique()) == 1 for row in truth)
    assert data.train_x.mean().abs() < 0.01 and (data.train_x.var() - 1).abs() < 0.01
    noise = data.train_y - (data.train_x * truth[data.clusters]).sum(dim=1)
    assert noise.mean().abs() < 0.01 and noise.var().item() == pytest.approx(0.2, rel=0.03)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_mean_mixture_has_the_stated_means_and_variances(family: str) -> None:
    data = MeanMixture(4, 0, num_clusters=2, dim=15, points=5000, family=family, noise_variance=0.5).load(NOWHERE)
    assert data.truth is not None and data.clusters is not None
    assert torch.equal(data.train_x, data.train_y)
    assert set(data.truth.unique().tolist()) == {1.0, 3.0}
    for cluster, mean in enumerate(data.truth):
        own = data.train_x[data.clusters == cluster].double()
        torch.testing.assert_close(own.mean(dim=0), mean, atol=0.08, rtol=0)
        variance = mean if family == "poisson" else torch.full_like(mean, 0.5)
        torch.testing.assert_close(own.var(dim=0), variance, atol=0, rtol=0.08)
    whole = bool((data.train_x == data.train_x.round()).all())
    assert whole == (family == "poisson")


def test_rotated_images_are_those_of_the_base_turned_by_the_clients_cluster() -> None:
    base = Digits().load(NOWHERE)
    data = Rotated(Digits(), num_clients=8, seed=1).load(NOWHERE)
    assert data.clusters is not None and data.owners is not None and data.test_clusters is not None
    for i in range(0, len(base.train_y), 97):
        turned = base.train_x[i].rot90(int(data.clusters[i]), (1, 2))
        assert torch.equal(data.train_x[i], turned)
    assert torch.equal(data.train_y, base.train_y)
    pairs = {(int(owner), int(cluster)) for owner, cluster in zip(data.owners, data.clusters, strict=True)}
    assert pairs == {(i, i // 2) for i in range(8)}
    assert np.ptp(data.owners.bincount().numpy()) <= 1
    assert data.test_clusters.bincount().tolist() == [len(base.test_y)] * 4
    assert torch.equal(data.test_x[data.test_clusters == 3], base.test_x.rot90(3, (2, 3)))
    assert torch.equal(data.test_y[data.test_clusters == 3], base.test_y)
    two = Rotated(Digits(), num_clients=8, seed=1, num_clusters=2).load(NOWHERE)
    assert torch.equal(two.test_x[len(base.test_y) :], base.test_x.rot90(2, (2, 3)))


def test_bernoulli_vectors_have_one_length_and_are_never_zero() -> None:
    vectors = bernoulli_vectors(200, 2, 3.0, seeding.generator(0, "test"))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 3)
    assert len({tuple(np.sign(vector)) for vector in vectors}) == 3  # all but (0, 0)
    many = bernoulli_vectors(50, 400, 1.0, seeding.generator(1, "test"))
    assert np.mean(many > 0) == pytest.approx(0.5, abs=0.01)


def test_the_natural_partition_gives_every_client_its_own() -> None:
    owners = np.array([7, 3, 3, 9, 7, 7])
    parts = Natural()(owners, 3, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == [[1, 2], [0, 4, 5], [3]]
    with pytest.raises(ConfigError, match="has 3 clients of its own; set num_clients=3"):
        Natural()(owners, 4, np.random.default_rng(0))


SQUARED = {
    "linear regression": (LinearRegression(), (5,), 1),
    "mean": (Mean(), (5,), 5),
    "network": (Mlp((4,)), (5,), 1),
    "network of two outputs": (Mlp((4,)), (5,), 2),
}


@pytest.mark.parametrize("name", SQUARED)
@pytest.mark.parametrize("sizes", [(4, 4, 4), (5, 1, 8)])
def test_squared_error_and_its_gradients_are_those_of_autograd(name: str, sizes: tuple[int, ...]) -> None:
    model, shape, outputs = SQUARED[name]
    network = Network(model, shape, outputs, seed=0, regression=True)
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(sum(sizes), 5, generator=rng), torch.randn(sum(sizes), outputs, generator=rng)
    y = y[:, 0] if outputs == 1 else y
    stack = network.initial + torch.randn(3, network.dim, generator=rng)
    batch, out = Batch(x, y, sizes), torch.full((len(sizes), network.dim), float("nan"))
    many = network.client_losses(stack, batch)
    for j, params in enumerate(stack):
        losses = network.gradients(params, batch, out)
        for i, (own_x, own_y) in enumerate(batch.clients()):
            leaf = params.double().requires_grad_()
            predicted = functional_call(network.module, network.views(leaf), (own_x.double(),))
            expected = (predicted - own_y.double().view_as(predicted)).square().sum(dim=1).mean()
            (gradient,) = torch.autograd.grad(expected, leaf)
            torch.testing.assert_close(out[i].double(), gradient, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(losses[i], expected.detach(), rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(many[i, j], expected.detach(), rtol=1e-5, atol=1e-6)
    assert network.evaluate(stack[0], x, y)[1] is None


@pytest.mark.parametrize("cached", [1, 700, 1 << 18])
@pytest.mark.parametrize("clients", [list(range(7)), [1, 2, 4, 5, 6], [6, 0, 1, 3]])
def test_gradients_of_neighbours_in_one_call_are_those_of_each_alone_to_the_byte(
    clients: list[int], cached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(least_squares, "CACHED", cached)
    rng = torch.Generator().manual_seed(0)
    ends = np.cumsum([0, 30, 30, 30, 17, 30, 30, 11])
    x, y, params = (torch.randn(*shape, generator=rng) for shape in ((178, 9), (178,), (9,)))
    population = Population(x, y, [np.arange(a, b) for a, b in pairwise(ends)])
    together = torch.empty(len(clients), 9)
    losses = least_squares.gradients(params, population.batch(clients), together)
    for i, (own_x, own_y) in enumerate(population.batch(clients).clients()):
        error = own_x.numpy() @ params.numpy() - own_y.numpy()
        assert losses[i] == error @ error / len(error)
        assert np.array_equal(together[i].numpy(), (error * np.float32(2 / len(error))) @ own_x.numpy())


def test_who_lies_side_by_side() -> None:
    population = Population(torch.zeros(12, 1), torch.zeros(12), np.split(np.arange(12), [2, 4, 6, 7, 8]))
    runs = {(0, 1, 2, 3, 4, 5): [3, 5, 6], (0, 1): [2], (0, 2): [1, 2], (3, 4, 1, 2): [2, 4], (5,): [1]}
    for clients, ends in runs.items():
        expected = [slice(a, b) for a, b in pairwise([0, *ends])]
        assert population.batch(clients).runs() == expected


def test_losses_of_every_client_under_several_classifiers() -> None:
    network = Network(Mlp((4,)), (5,), 3, seed=0)
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(9, 5, generator=rng), torch.randint(3, (9,), generator=rng)
    stack = network.initial + torch.randn(2, network.dim, generator=rng)
    losses = network.client_losses(stack, Batch(x, y, (4, 5)))
    for j, params in enumerate(stack):
        expected = [network.evaluate(params, x[rows], y[rows])[0] for rows in (slice(0, 4), slice(4, 9))]
        torch.testing.assert_close(losses[:, j], torch.tensor(expected, dtype=torch.float64))


def test_a_batch_of_some_clients_is_gathered_only_when_read() -> None:
    owned = [np.array([4, 5]), np.arange(3), np.array([9])]
    population = Population(torch.arange(10.0)[:, None], torch.arange(10), owned)
    batch = population.batch([2, 0])
    assert [own.squeeze(1).tolist() for own, _ in batch.clients()] == [[9], [4, 5]]
    assert "x" not in vars(batch)
    assert batch.x.squeeze(1).tolist() == batch.y.tolist() == [9, 4, 5]
    assert population.batch(range(3)).x.data_ptr() == population.x.data_ptr(), "all clients: no copy"


def test_which_modules_are_linear_regressions() -> None:
    assert least_squares.is_linear_regression(nn.Linear(4, 1, bias=False))
    assert not least_squares.is_linear_regression(nn.Linear(4, 1))
    assert not least_squares.is_linear_regression(nn.Linear(4, 2, bias=False))
    assert not least_squares.is_linear_regression(nn.Sequential(nn.Linear(4, 1, bias=False)))


def test_initial_models_are_independent_and_the_first_is_that_of_one_model() -> None:
    network = Network(Mlp((4,)), (5,), 3, seed=0)
    assert torch.equal(network.another_initial(0), network.initial)
    draws = [network.another_initial(number) for number in (0, 1, 2, 1)]
    assert torch.equal(draws[1], draws[3])
    assert not torch.equal(draws[0], draws[1]) and not torch.equal(draws[1], draws[2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearMixture(3, 0), "num_clusters=5 needs as many clients, got num_clients=3"),
        (lambda: LinearMixture(10, 0, dim=0), "dim must be >= 1"),
        (lambda: LinearMixture(10, 0, noise_variance=-1), "noise_variance must be >= 0"),
        (lambda: MeanMixture(10, 0, family="cauchy"), "family must be one of gaussian, poisson"),
        (lambda: MeanMixture(10, 0, family="poisson", low=-1), "low must be >= 0"),
        (lambda: MeanMixture(10, 0, low=4), "high must be >= low, got low=4, high=3"),
        (lambda: Rotated(Digits(), 8, 0, num_clusters=3), "must be 1, 2 or 4"),
        (lambda: Rotated(DRAWN[0], 8, 0), "only square images can be turned"),
        (lambda: LinearRegression()((5,), 2), "needs vectors and one number to predict"),
        (lambda: LinearRegression()((1, 5), 1), "needs vectors and one number to predict"),
        (lambda: Mean()((5,), 1), "needs vectors that are their own targets"),
    ],
)  # fmt: skip
def test_impossible_data_are_refused(make, message: str) -> None:  # type: ignore[no-untyped-def]
    refused(make, message)
