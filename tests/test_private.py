"""Private gradients against autograd sample by sample, their sensitivity, and epsilon against its formula."""

import copy
import importlib.util
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from robustfl_bench.base import errors, seeding
from robustfl_bench.numerics.privacy import GaussianNoise
from robustfl_bench.parts.local_updates import private
from robustfl_bench.parts.local_updates.fedsgd import FedSgd
from robustfl_bench.parts.local_updates.momentum import Momentum
from robustfl_bench.parts.local_updates.private import Private
from tests.conftest import Bench, run_folders
from tests.test_local_updates import NETWORK, SIZES, samples

needs_accountant = pytest.mark.skipif(
    importlib.util.find_spec("dp_accounting") is None,
    reason='needs the real package: pip install "robustfl-bench[privacy]"',
)


def slowly(x: Tensor, y: Tensor, clip: float) -> Tensor:
    """The sum of the clipped gradients of samples, in float64, one after the other."""
    module, total = copy.deepcopy(NETWORK.module).double(), torch.zeros(NETWORK.dim, dtype=torch.float64)
    nn.utils.vector_to_parameters(NETWORK.initial.double(), module.parameters())
    for one, label in zip(x.double(), y, strict=True):
        loss = nn.functional.cross_entropy(module(one[None]), label[None])
        gradient = nn.utils.parameters_to_vector(torch.autograd.grad(loss, list(module.parameters())))
        total += gradient * min(1.0, clip / float(gradient.norm()))
    return total


def sent(update: Private, clients: tuple[int, ...] = (0, 1, 2), round: int = 4, batch_size: int | None = 3) -> Tensor:
    out = torch.full((len(clients), NETWORK.dim), float("nan"))
    update(NETWORK, NETWORK.initial, samples(batch_size, clients, round), 0.1, out)
    return out


@pytest.mark.parametrize("batch_size", [None, 3])
def test_each_sample_is_clipped_and_the_noise_is_in_units_of_what_one_can_move(
    batch_size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private, "AT_ONCE", 5 * NETWORK.dim)  # five samples at a time
    clip, drawn = 0.7, samples(batch_size)
    found = sent(Private(clip, noise=0.4), batch_size=batch_size)
    for position, (x, y) in enumerate(drawn.batch(0).clients()):
        rng = seeding.generator(0, "batches", 4, "privacy", 10 + position)
        noise = torch.from_numpy(rng.standard_normal(NETWORK.dim, dtype="float32")).double()
        expected = (slowly(x, y, clip) + 2 * clip * 0.4 * noise) / len(y)
        torch.testing.assert_close(found[position].double(), expected, rtol=1e-4, atol=1e-6)
        assert len(y) == min(batch_size or SIZES[position], SIZES[position])


def test_without_clipping_and_noise_it_is_the_gradient() -> None:
    plain = torch.empty(3, NETWORK.dim)
    losses = FedSgd()(NETWORK, NETWORK.initial, samples(3), 0.1, plain)
    out = torch.empty_like(plain)
    torch.testing.assert_close(Private(1e9, 0)(NETWORK, NETWORK.initial, samples(3), 0.1, out), losses)
    torch.testing.assert_close(out, plain, rtol=1e-4, atol=1e-6)


def test_another_sample_moves_the_update_by_at_most_2_c_over_b() -> None:
    update, drawn = Private(0.2, noise=0), samples(None, (2,))
    before, after, far = torch.empty(1, NETWORK.dim), torch.empty(1, NETWORK.dim), torch.empty(1, NETWORK.dim)
    update(NETWORK, NETWORK.initial, drawn, 0.1, before)
    row = drawn.population.slice(2).start
    drawn.population.x[row] *= -100
    update(NETWORK, NETWORK.initial, drawn, 0.1, after)
    Private(1e9, noise=0)(NETWORK, NETWORK.initial, drawn, 0.1, far)
    bound = 2 * 0.2 / SIZES[2]
    assert 0.3 * bound < float((after - before).norm()) <= bound * (1 + 1e-5) < float((far - before).norm())


def test_noise_has_its_size_is_new_in_each_round_and_knows_no_other_client() -> None:
    quiet, loud = Private(0.5, noise=0), Private(0.5, noise=2)
    draws = torch.stack([sent(loud, round=r) - sent(quiet, round=r) for r in range(30)])
    assert torch.equal(sent(loud, (2,))[0], sent(loud)[2])
    for client, size in enumerate((3, 1, 3)):  # samples in a batch
        assert float(draws[:, client].std()) == pytest.approx(2 * 0.5 * 2 / size, rel=0.06)
        assert abs(float(torch.corrcoef(draws[:2, client])[0, 1])) < 0.5


@needs_accountant
def test_epsilon_is_that_of_the_formula_and_sampling_never_harms() -> None:
    noise, rounds = GaussianNoise(3.0, 1e-4), 40
    orders = [1 + k / 10 for k in range(1, 100)]
    expected = min(
        rounds * a / (2 * noise.multiplier**2) + math.log1p(-1 / a) - math.log(noise.delta * a) / (a - 1)
        for a in orders
    )
    assert noise.epsilon(rounds, 50, 50) == pytest.approx(expected, rel=1e-9)
    assert noise.epsilon(rounds, 1000, 50) < noise.epsilon(rounds, 200, 50) < expected / 2
    assert noise.epsilon(rounds, 50, 49) == noise.epsilon(rounds, 50, 50)  # the accountant's bound is larger
    assert noise.epsilon(1, 1000, 50) < noise.epsilon(rounds, 1000, 50)


@needs_accountant
def test_a_run_records_epsilon_also_under_momentum(bench: Bench, tmp_path: Path) -> None:
    small = ("partition=iid", "num_clients=5", "attack=none", "rounds=2", "batch_size=4", "model.hidden=[4]")
    assert bench("local_update=private", *small).code == bench("local_update=private_momentum", *small).code == 0
    folders = run_folders(tmp_path / "results").values()
    rows = [(folder / "metrics.csv").read_text().splitlines() for folder in folders]
    columns = [[line.split(",")[row[0].split(",").index("epsilon")] for line in row[1:]] for row in rows]
    assert columns[0] == columns[1] and 0 < float(columns[0][0]) < float(columns[0][1])


def test_without_the_accountant_one_line_says_so_and_epsilon_can_be_left_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    outcome = bench("local_update=private", "dataset=mnist", "data_dir=absent")
    assert outcome.code == 2
    assert outcome.err == 'error: dp_accounting is not installed: pip install "robustfl-bench[privacy]"\n'
    assert Momentum(Private(delta=None)).privacy is None is Private(noise=0).privacy
    assert Momentum(Private(noise=2, delta=1e-3)).privacy == GaussianNoise(2, 1e-3)
