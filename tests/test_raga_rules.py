"""The rules and the attack of RAGA's comparison, the rates it prints, and who is Byzantine in it."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robustfl_bench.interfaces import Attack, AttackView
from robustfl_bench.numerics.passes import sq_dists_by_pass
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.mca import Mca
from robustfl_bench.parts.aggregators.raga import Raga
from robustfl_bench.parts.aggregators.rfa import Rfa
from robustfl_bench.parts.aggregators.rsa import Rsa
from robustfl_bench.parts.attacks.lie import LittleIsEnough
from robustfl_bench.parts.attacks.sign_flip import SignFlip
from robustfl_bench.parts.schedules.inverse_power import InversePower
from robustfl_bench.parts.schedules.inverse_sqrt import InverseSqrt
from robustfl_bench.runner.config import identity
from tests import reference
from tests.presets import Recording, planned, trained
from tests.presets import small as federation
from tests.reference_attacks import mean_and_std
from tests.rounds import build, make_server, refused, skewed_round
from tests.test_attacks import honest_updates, make_view

MASSES = np.random.default_rng(5).uniform(0.2, 3, size=20)


def weighted_rounds() -> Any:
    for seed in range(5):
        updates, server = skewed_round(seed)
        yield Updates(updates.matrix, torch.from_numpy(MASSES)), server, updates.matrix.double().numpy()


def close(aggregate: Any, expected: np.ndarray, tolerance: float = 1e-5) -> bool:
    difference = np.linalg.norm(aggregate.vector.double().numpy() - expected)
    return bool(difference <= tolerance * np.linalg.norm(expected))


def test_raga_is_the_weighted_geometric_median() -> None:
    for updates, server, rows in weighted_rounds():
        exact = Raga(eps=0)
        assert close(exact(updates, server), reference.raga(rows, MASSES))
        assert close(Raga(0, weighted=False)(updates, server), reference.raga(rows, np.ones(20)))
        assert not close(exact(updates, server), reference.raga(rows, np.ones(20)), 1e-3)
        total = [float(MASSES @ np.linalg.norm(rows - rule(updates, server).vector.double().numpy(), axis=1))
                 for rule in (Raga(), exact)]  # fmt: skip
        assert (total[0] - total[1]) / MASSES.sum() <= 1e-5


def test_byrd_saga_s_rule_counts_each_client_once() -> None:
    rule = build("aggregator", "byrd_saga")
    assert (rule.weighted, rule.eps, build("aggregator", "raga").weighted) == (False, 1e-5, True)


@pytest.mark.parametrize(("nu", "steps"), [(1e-6, 3), (1e-6, 0), (1.5, 4), (1e-6, 40)])
def test_rfa(nu: float, steps: int) -> None:
    for updates, server, rows in weighted_rounds():
        assert close(Rfa(nu, steps)(updates, server), reference.rfa(rows, MASSES, nu, steps))
        unweighted = Rfa(nu, steps, weighted=False)(updates, server)
        assert close(unweighted, reference.rfa(rows, np.ones(20), nu, steps))


@pytest.mark.parametrize(
    ("size", "cancel", "common", "nu", "products"),
    [
        (1.0, False, 0.0, 1e-6, False),
        (1.0, False, 1e4, 1e-6, False),
        (1e3, False, 0.0, 1e-6, False),
        (1e30, False, 1e4, 1e-6, True),
        (1e7, True, 0.0, 1e-6, True),
        (1e30, True, 1e4, 1e-6, True),
        (1.0, False, 0.0, 0.9, True),
    ],
)
def test_rfa_takes_inner_products_of_many_updates_only_where_nu_or_rounding_matter(
    size: float, cancel: bool, common: float, nu: float, products: bool
) -> None:
    rng = np.random.default_rng(1)
    rows = (common + rng.normal(size=(200, 30))).astype(np.float32).astype(np.float64)
    rows[:10] = (size * rng.normal(size=(10, 30))).astype(np.float32)
    if cancel:
        rows[5:10] = -rows[:5]  # all with the same mass
    masses = np.repeat(rng.integers(1, 9, size=20), 10).astype(np.float64)
    updates = Updates(torch.from_numpy(rows).float(), torch.from_numpy(masses))
    got = Rfa(nu)(updates, make_server(torch.zeros(2, 30)))
    assert ("gram" in vars(updates)) == products
    if not cancel:
        assert close(got, reference.rfa(rows, masses, nu, 3))


def test_passes_agree_with_inner_products() -> None:
    rng = np.random.default_rng(0)
    for n, d in [(1, 1), (3, 5000), (300, 7), (250, 100_001)]:
        rows, weights = rng.normal(size=(n, d)).astype(np.float32), rng.dirichlet(np.ones(n))
        expected = np.square(rows - weights @ rows.astype(np.float64)).sum(axis=1)
        np.testing.assert_allclose(
            sq_dists_by_pass(Updates(torch.from_numpy(rows)), weights), expected, rtol=1e-12, atol=1e-12
        )


def test_rfa_with_many_steps_is_the_geometric_median() -> None:
    for updates, server, _ in weighted_rounds():
        assert close(Rfa(steps=2000)(updates, server), Raga(0)(updates, server).vector.double().numpy())


@pytest.mark.parametrize("sigma", [None, 4.0, 100.0])
def test_mca(sigma: float | None) -> None:
    for updates, server, rows in weighted_rounds():
        assert close(Mca(sigma)(updates, server), reference.mca(rows, sigma))


def test_mca_at_its_extremes() -> None:
    """A wide kernel gives the mean; a narrow one, whose weights would all vanish, the update nearest to it."""
    updates, server = skewed_round(0)
    rows = updates.matrix.double().numpy()
    assert close(Mca(1e9)(updates, server), rows.mean(axis=0))
    nearest = np.linalg.norm(rows - rows.mean(axis=0), axis=1).argmin()
    assert Mca(1e-3)(updates, server).weights.argmax() == nearest
    crowd = Updates(torch.tensor([[1.0, 2.0]] * 4 + [[1e6, 0.0], [3.0, 3.0]]))
    assert torch.allclose(Mca()(crowd, server).vector, crowd.matrix[0])


def test_rsa_is_a_vote() -> None:
    for updates, server, rows in weighted_rounds():
        assert close(Rsa(0.02)(updates, server), reference.rsa(rows, 0.02))
    wild = Updates(torch.cat([updates.matrix[:-1], torch.full((1, updates.d), 1e30)]))
    moved = Rsa(0.02)(wild, server).vector - Rsa(0.02)(updates, server).vector
    assert moved.abs().max() <= 0.04 + 1e-6


def test_sign_flip() -> None:
    honest = honest_updates(5)
    own = torch.arange(46.0).view(2, 23)
    view = make_view(honest, 2)
    view.train_own = lambda start: own
    assert torch.equal(SignFlip().craft(view), -3 * own)
    exact = honest.astype(float)
    for flip, expected in (("honest_sum", exact.sum(axis=0)), ("honest_mean", exact.mean(axis=0))):
        crafted = SignFlip(flip, factor=2).craft(make_view(honest)).numpy()
        np.testing.assert_allclose(crafted, -2 * expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("attackers", "factor"), [(1, 3), (4, 3), (5, 2.5)])
def test_sign_flip_of_a_running_sum(attackers: int, factor: float) -> None:
    honest = honest_updates(6)
    crafted = SignFlip("running_sum", factor).craft(make_view(honest, attackers)).numpy()
    uploads = list(honest.astype(float))
    for row in crafted:
        np.testing.assert_allclose(row, -factor * np.sum(uploads, axis=0), rtol=1e-4, atol=1e-3)
        uploads.append(-factor * np.sum(uploads, axis=0))
    assert len(uploads) == 6 + attackers


@pytest.mark.parametrize(("noise", "draws"), [("each", 4), ("shared", 1)])
def test_lie_as_noise(noise: str, draws: int) -> None:
    """By the formula, from the same draws; and by its spread, over many coordinates."""
    honest = honest_updates(9)
    mean, std = mean_and_std(honest.astype(float))
    drawn = make_view(honest, 4).rng.standard_normal((draws, honest.shape[1]), dtype=np.float32)
    crafted = LittleIsEnough(0.7, noise=noise).craft(make_view(honest, 4)).numpy()
    np.testing.assert_allclose(np.atleast_2d(crafted), mean + 0.7 * drawn * std, rtol=1e-4, atol=1e-4)
    many = honest_updates(9, 20_000)
    mean, std = mean_and_std(many.astype(float))
    away = (np.atleast_2d(LittleIsEnough(0.7, noise=noise).craft(make_view(many, 4)).numpy()) - mean) / std
    assert away.shape == (draws, 20_000)
    assert np.abs(away.mean(axis=1)).max() < 0.03 and np.abs(away.std(axis=1) - 0.7).max() < 0.03


@pytest.mark.parametrize("ddof", [0, 1])
def test_lie_with_the_spread_of_the_parameters(ddof: int) -> None:
    honest = honest_updates(9)
    view = make_view(honest, 4)
    view.params = torch.arange(23.0)
    spread = np.arange(23.0).std(ddof=ddof)
    crafted = LittleIsEnough(0.7, "minus", ddof, spread="parameters").craft(view).numpy()
    np.testing.assert_allclose(crafted, honest.astype(float).mean(axis=0) - 0.7 * spread, rtol=1e-4, atol=1e-4)


def test_rates_are_those_that_raga_prints() -> None:
    small, vgg16 = InverseSqrt(offset=5, factor=3), InverseSqrt(offset=100, factor=1)
    assert [small(1 / math.sqrt(5), t - 1) for t in (1, 105, 500)] == pytest.approx([0.548, 0.128, 0.0597], abs=5e-4)
    for t in (1, 17, 500):
        assert small(1 / math.sqrt(5), t - 1) == pytest.approx(3 / (5 * math.sqrt(0.2 * t + 1)))
        assert vgg16(0.04, t - 1) == pytest.approx(4e-3 / math.sqrt(0.01 * t + 1))
    assert InverseSqrt(5)(1 / math.sqrt(5), 0) == pytest.approx(0.183, abs=5e-4)  # without K
    same, flat, steep = (InversePower(exponent, offset=5, factor=3) for exponent in (0.5, 0, 0.95))
    assert [same(0.4, t) for t in (0, 499)] == pytest.approx([InverseSqrt(5, 3)(0.4, t) for t in (0, 499)])
    assert flat(0.4, 499) == pytest.approx(1.2) and steep(0.4, 94) == pytest.approx(1.2 / 100**0.95)


# --- who is Byzantine ------------------------------------------------------------------------------------------------


SKEWED = ("partition=dirichlet", "partition.per=class", "partition.alpha=0.5", "partition.min_size=8", "num_clients=20")


@pytest.mark.parametrize("number", [1, 4, 10, 19])
def test_byzantine_clients_counted_by_their_data(number: int) -> None:
    shared = (*SKEWED, "attack=ipm", "byzantine_placement=replace", f"num_byzantine={number}")
    counted, weighed = federation(*shared), federation(*shared, "byzantine_share_by=data")
    assert len(counted.clients.byzantine_ids) == number

    def held(ids: Any) -> float:
        return float(weighed.counts[ids].sum() / weighed.counts.sum())

    wanted = number / 20
    assert 1 <= len(weighed.clients.byzantine_ids) <= 19
    largest = float(weighed.counts.max() / weighed.counts.sum())
    assert abs(held(weighed.clients.byzantine_ids) - wanted) <= largest
    assert (
        abs(held(weighed.clients.byzantine_ids) - wanted) <= abs(held(counted.clients.byzantine_ids) - wanted) + 1e-12
    )
    smaller, larger = sorted([set(counted.clients.byzantine_ids), set(weighed.clients.byzantine_ids)], key=len)
    assert smaller <= larger  # one order of the clients for both


def test_what_is_counted_is_part_of_the_identity_and_the_switches_of_presets_are_not() -> None:
    plain, data = (planned("attack=ipm", *o) for o in ((), ("byzantine_share_by=data",)))
    assert plain.identity["byzantine_share_by"] == "clients" and data.identity["byzantine_share_by"] == "data"
    assert plain.run_id == identity.digest(plain.identity) != data.run_id
    assert planned("attack=ipm", "lr_policy=shared").run_id == plain.run_id


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Raga(eps=-1), "eps must be >= 0"),
        (lambda: Raga(weighted="yes"), "weighted must be true or false"),  # type: ignore[arg-type]
        (lambda: Rfa(nu=0), "nu must be >="),
        (lambda: Rfa(steps=-1), "steps must be >= 0"),
        (lambda: Rfa(weighted=1), "weighted must be true or false"),  # type: ignore[arg-type]
        (lambda: Mca(sigma=0), "sigma must be >="),
        (lambda: Mca(max_iter=0), "max_iter must be >= 1"),
        (lambda: Rsa(-1), "penalty must be >= 0"),
        (lambda: SignFlip("sum"), "flip must be one of own, honest_sum, honest_mean, running_sum, got 'sum'"),
        (lambda: SignFlip(factor=math.nan), "factor must be"),
        (lambda: LittleIsEnough(noise="all"), "noise must be one of each, shared, got 'all'"),
        (lambda: LittleIsEnough(spread="clients"), "spread must be one of parameters, got 'clients'"),
        (lambda: InverseSqrt(offset=-1), "offset must be >= 0"),
        (lambda: InverseSqrt(factor=0), "factor must be >="),
        (lambda: InversePower(exponent=-1), "exponent must be >= 0"),
        (lambda: planned("byzantine_share_by=weight"), "byzantine_share_by must be one of clients, data"),
        (lambda: planned("lr_policy=mine"), "lr_policy must be one of own, shared"),
    ],
)
def test_bad_settings_are_one_clear_line(make: Any, message: str) -> None:
    refused(make, message)


# --- attackers where clients send models -----------------------------------------------------------------------------


def test_where_clients_send_models_attackers_see_and_send_models() -> None:
    seen: dict[str, Tensor] = {}

    @dataclass(frozen=True)
    class Half(Attack):
        """Sends half of the mean model, or of the mean difference: whatever uploads are."""

        name: str = ""

        def craft(self, view: AttackView) -> Tensor:
            seen[self.name], seen[f"{self.name} own"] = view.honest.matrix.clone(), view.own
            return view.mean / 2

    rows = {}
    for upload in ("difference", "model"):
        recording = Recording()
        f = federation("attack=ipm", "byzantine_placement=replace", "local_update=local_sgd",
                       f"local_update.upload={upload}", "rounds=1", "batch_size=8", "num_byzantine=4",
                       attack=Half(upload), aggregator=recording)  # fmt: skip
        start = f.network.initial
        trained(f)
        (rows[upload],) = recording.given
    honest = len(seen["model"])
    torch.testing.assert_close(rows["model"][:honest], rows["difference"][:honest])
    torch.testing.assert_close(seen["model"], start - seen["difference"], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(seen["model own"], start - seen["difference own"], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(rows["difference"][-1], seen["difference"].mean(dim=0) / 2)
    torch.testing.assert_close(rows["model"][-1], start - seen["model"].mean(dim=0) / 2)
