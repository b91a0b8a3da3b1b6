"""Choices of a model by asking few clients: the same as by asking everybody, whatever the models do."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from robustfl_bench.numerics.network import least_squares
from robustfl_bench.numerics.network.samples import Batch, Population
from robustfl_bench.train.loop import run
from robustfl_bench.train.model_choice import Choice, ModelChoice
from robustfl_bench.train.rounds import initial_state
from tests.presets import federation
from tests.test_clustering import LINEAR

Asked = list[list[int]]
SIZES = (12, 12, 5, 12, 1, 12, 30, 12)


def clients(d: int, seed: int = 0) -> tuple[Population, Tensor]:
    """Eight clients with samples from one of three true models (3, d), which are returned too."""
    rng = torch.Generator().manual_seed(seed)
    truth = torch.randn(3, d, generator=rng)
    x, noise = torch.randn(sum(SIZES), d, generator=rng), torch.randn(sum(SIZES), generator=rng)
    owners = np.repeat(np.arange(len(SIZES)), SIZES)
    y = (x * truth[owners % 3]).sum(dim=1) + 0.5 * noise
    return Population(x, y, [np.flatnonzero(owners == i) for i in range(len(SIZES))]), truth


def losses_of(population: Population, asked: Asked) -> Callable[[Tensor, Sequence[int]], Tensor]:
    def losses(params: Tensor, who: Sequence[int]) -> Tensor:
        asked.append(list(who))
        return least_squares.client_losses(params, population.batch(who)).nan_to_num(nan=math.inf, posinf=math.inf)

    return losses


def choices(population: Population, asked: Asked) -> ModelChoice:
    batch = population.batch(range(len(population)))
    sizes = torch.stack([y.double().square().mean().sqrt() for _, y in batch.clients()])
    return ModelChoice(losses_of(population, asked), least_squares.slopes(batch), sizes)


@pytest.mark.parametrize("shape", [(1, 4), (12, 4), (4, 12), (30, 30), (100, 20)])
def test_slopes_bound_the_spectral_norm_closely_from_above(shape: tuple[int, int]) -> None:
    x = torch.randn(3 * shape[0], shape[1], generator=torch.Generator().manual_seed(0))
    slopes = least_squares.slopes(Batch(x, x[:, 0], (shape[0],) * 3))
    exact = torch.stack([torch.linalg.matrix_norm(part.double(), 2) for part in x.split(shape[0])]) / shape[0] ** 0.5
    assert (slopes >= exact * (1 - 1e-6)).all() and (slopes <= exact * 1.25).all()


@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("present", [list(range(8)), [1, 2, 5, 7], None])
def test_choices_are_those_of_asking_everybody_every_time(present: list[int] | None, seed: int, d: int) -> None:
    population, truth = clients(d, seed)
    asked: Asked = []
    best, everybody = choices(population, asked), losses_of(population, [])
    rng = np.random.default_rng(seed)
    params, rounds = torch.randn(3, d, generator=torch.Generator().manual_seed(seed)), 80
    for _ in range(rounds):  # towards the truth, with jumps that keep no order
        params = params + 0.1 * (truth - params)
        if rng.random() < 0.1:
            params = params[torch.from_numpy(rng.permutation(3))]
        who = sorted(rng.choice(8, size=5, replace=False).tolist()) if present is None else present
        assert torch.equal(best(params, who), everybody(params, who).argmin(dim=1))
    assert sum(map(len, asked)) < 0.8 * rounds * (5 if present is None else len(present))


def test_who_was_asked_is_asked_again_only_when_another_model_may_have_caught_up() -> None:
    population = Population(torch.ones(2, 1), torch.tensor([0.0, 10.0]), [np.array([0]), np.array([1])])
    asked: Asked = []
    best = choices(population, asked)  # root mean squared errors are distances from 0 and from 10, slopes are 1
    for first, second, expected in (
        (0.0, 10.0, [[0, 1]]),
        (0.0, 10.0, []),
        (4.0, 10.0, []),  # 4 from its own, at least 6 from the other as far as is known
        (4.0, 6.0, []),
        (4.0, 4.1, []),  # 4 against 4.1, since the models went 4 and 5.9
        (4.0, 5.0, [[0, 1]]),  # 4 and 6.8 since it was asked: the other one might have come closer
        (4.0, 5.4, []),
        (4.0, 6.0, [[0, 1]]),  # 5.9 and 4.9 at first: had they come together, by 1, they would be alike
    ):
        asked.clear()
        assert best(torch.tensor([[first], [second]]), [0, 1]).tolist() == [0, 1]
        assert asked == expected, (first, second)


def test_models_that_are_equally_good_but_for_rounding_are_compared_as_if_everybody_were_asked() -> None:
    population, truth = clients(6)
    asked: Asked = []
    best, everyone = choices(population, asked), list(range(8))
    for apart in (0.2, 1e-2, 1e-5):  # the first two models, which suit some of the clients
        params = truth.clone()
        params[1] = params[0] * (1 + apart)
        asked.clear()
        expected = losses_of(population, [])(params, everyone).argmin(dim=1)
        assert torch.equal(best(params, everyone), expected)
        if apart < 0.2:
            assert 0 < len(asked[0]) < 8
            assert (asked[1:] == [everyone]) == (apart == 1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e38])
def test_a_model_that_diverged_is_chosen_by_nobody_and_another_may_still_be(bad: float) -> None:
    population, truth = clients(6)
    best, everyone = choices(population, []), list(range(8))
    everybody = losses_of(population, [])
    for step in range(6):
        params = truth + 0.1 * step
        if step in (2, 3):
            params[1] = bad
        chosen = best(params, everyone)
        assert torch.equal(chosen, everybody(params, everyone).argmin(dim=1))
        assert (1 in chosen.tolist()) == (step not in (2, 3))
    assert best(torch.full((3, 6), bad), everyone).tolist() == [0] * 8


def test_one_model_is_everybodys() -> None:
    population, truth = clients(6)
    best = choices(population, [])
    assert best(truth[:1], [3, 4]).tolist() == [0, 0] and best(truth[:1], []).tolist() == []


@pytest.mark.parametrize("option", ["num_clients=24", "participation=0.5", "clustering.empty=random", "seed=3"])
def test_runs_have_the_same_bytes_as_when_everybody_is_asked(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def trajectory() -> list[Tensor]:
        f = federation(
            *LINEAR, "clustering=ifca", "clustering.init=bernoulli", "rounds=40", "aggregator=coomed", option
        )
        return [state.params for state, _ in run(f, initial_state(f))]

    few = trajectory()

    def everybody(choice: Choice) -> Callable[[Tensor, Sequence[int]], Tensor]:
        f = choice._federation
        return lambda params, who: f.clients.losses(f.honest, who, params).argmin(dim=1)

    monkeypatch.setattr(Choice, "_best", property(everybody))
    assert all(torch.equal(a, b) for a, b in zip(few, trajectory(), strict=True))
