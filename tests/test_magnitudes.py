"""Rules, attacks and updates at every magnitude: what is huge, tiny or cancels must not change what is ordinary."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import eigh

from robustfl_bench.numerics import updates as numbers
from robustfl_bench.numerics.gram_space import medoid, pair_distances
from robustfl_bench.numerics.selection import exact_sum
from robustfl_bench.numerics.spectra import top_eigenpair
from robustfl_bench.numerics.updates import Aggregate, Updates, mean_row
from robustfl_bench.parts.aggregators.avgrej import AvgRej
from robustfl_bench.parts.aggregators.cfl import Cfl
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.aggregators.rage import Rage
from robustfl_bench.parts.aggregators.selfrej import SelfRej
from robustfl_bench.parts.aggregators.zeno import Zeno
from robustfl_bench.parts.attacks.perturbation import largest_gamma
from robustfl_bench.parts.pre_aggregations.bucketing import Bucketing
from robustfl_bench.parts.protocols.state import Memory, Trained
from robustfl_bench.train.metrics import weights as weight_metrics
from tests import reference_arfl
from tests.rounds import build, make_server, skewed_round
from tests.test_attacks import honest_updates, make_view

LARGEST = float(np.finfo(np.float32).max)


def rounds(n: int, f: int, d: int, wild: Any, seeds: int = 10) -> Any:
    """Matrices (n, d) in random order, with rows of ``wild(rng, f, d)`` for attackers; and the honest rows."""
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        honest = (rng.normal(size=(n - f, d)) + rng.normal(size=d)).astype(np.float32)
        rows = np.concatenate([honest, np.clip(wild(rng, f, d), -LARGEST, LARGEST).astype(np.float32)])
        yield torch.from_numpy(rows[rng.permutation(n)]), honest.astype(np.float64)


def beyond(vector: torch.Tensor, honest: Any, n: int, f: int) -> float:
    """How far the vector is from the honest mean, as a share of what any robust rule should be moved."""
    mean = honest.mean(axis=0)
    radius = 2 * (n - f) / (n - 2 * f) * np.linalg.norm(honest - mean, axis=1).max()
    return float(np.linalg.norm(vector.double().numpy() - mean) / radius)


# --- the geometric median and its kin --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e8, 1e16, 1e30, 1e37])
@pytest.mark.parametrize("name", ["geomed", "rfa", "mca", "raga"])
def test_two_attackers_who_cancel_leave_the_honest_clients_result(name: str, size: float) -> None:
    """The mean of all is then the honest one, shrunk a little; float64 inner products do not know it."""

    def opposite(rng: Any, f: int, d: int) -> Any:
        return np.outer([1, -1], size * rng.normal(size=d))

    exact = ["aggregator.eps=1e-10", "aggregator.max_iter=2000"] if name == "mca" else []
    rule = build("aggregator", name, *exact, num_byzantine=2)
    for matrix, honest in rounds(42, 2, 30, opposite):
        # Attackers who are far enough pull alike, however far they are; at 1e5 they cost few digits.
        modest = matrix.clone()
        far = matrix.abs().amax(dim=1) > 1e6
        modest[far] *= 1e5 / matrix[far].abs().max()
        got, expected = rule(Updates(matrix), None).vector, rule(Updates(modest), None).vector
        assert (got - expected).norm() < 1e-4 * expected.norm()
        assert beyond(got, honest, 42, 2) < 0.5


@pytest.mark.parametrize("name", ["geomed", "raga"])
@pytest.mark.parametrize("f", [15, 3])
def test_a_ladder_of_attackers_does_not_hide_the_honest_clients(name: str, f: int) -> None:
    """The totals of distances drown in that of the farthest; the nearest attacker must not seem the medoid."""

    def ladder(rng: Any, f: int, d: int) -> Any:
        return np.outer(3e38 ** (1 - np.arange(f) / (2 * f)), rng.normal(size=d))

    rule = build("aggregator", name, num_byzantine=f)
    for matrix, honest in rounds(115, f, 40, ladder):
        assert beyond(rule(Updates(matrix), None).vector, honest, 115, f) < 1


def test_the_medoid_is_the_one_of_least_total_distance() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        points, masses = rng.normal(size=(12, 4)), rng.uniform(0.1, 2, size=12)
        gram = points @ points.T
        assert medoid(gram, masses) == (pair_distances(gram) @ masses).argmin()


def test_exact_sums() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(9, 40)) * 10.0 ** rng.integers(-20, 20, size=(9, 40))
    rows = np.concatenate([rows, -rows[:6], [rng.normal(size=40)]])
    expected = [float(sum(map(Fraction, column), Fraction(0))) for column in rows.T]
    np.testing.assert_allclose(exact_sum(rows), expected, rtol=1e-15)


@pytest.mark.parametrize(
    "name", ["geomed", "raga", "rfa", "mca", "rage", "krum", "boba", "fltrust", "trmean", "median"]
)
@pytest.mark.parametrize("scale", [1e-6, 1e6, 2.0**-130, 2.0**100])
def test_units_do_not_matter(name: str, scale: float) -> None:
    """Local training with a small rate makes updates a millionth as long; that must not change what is done to them."""
    updates, server = skewed_round(2, scale=1.0)
    first = build("aggregator", name)(updates, server).vector.double()
    scaled, view = Updates(updates.matrix * scale), make_server(server.class_updates * scale, seed=2)
    second = build("aggregator", name)(scaled, view).vector.double() / scale
    assert (first - second).norm() < 1e-5 * first.norm()


# --- RAGE ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e3, 1e8, 1e30, 3e38])
@pytest.mark.parametrize("shape", ["one direction", "constant", "opposite"])
def test_rage_forgets_identical_attackers(shape: str, size: float) -> None:
    def identical(rng: Any, f: int, d: int) -> Any:
        direction = np.full(d, 1.0) if shape == "constant" else rng.normal(size=d)
        signs = (-1.0) ** np.arange(f) if shape == "opposite" else np.ones(f)
        return np.outer(signs, size * direction)

    for matrix, honest in rounds(115, 15, 40, identical):
        assert beyond(Rage(15)(Updates(matrix), None).vector, honest, 115, 15) < 1


def test_rage_decides_ties_alike_at_every_scale() -> None:
    for matrix, _ in rounds(20, 3, 30, lambda rng, f, d: np.tile(10 * rng.normal(size=d), (f, 1)), seeds=40):
        first, scaled = Rage(3)(Updates(matrix), None), Rage(3)(Updates(1000 * matrix), None)
        torch.testing.assert_close(scaled.vector / 1000, first.vector, rtol=1e-4, atol=1e-5)
        assert (first.weights == 0).sum() >= 3


# --- sums and products out of float32's range -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["average", "trmean", "beta_trmean", "rlr", "server", "server_mix", "coomed"])
def test_means_of_the_largest_numbers_are_finite(name: str) -> None:
    overrides = ["aggregator.direction=mean"] if name == "rlr" else []
    rule = build("aggregator", name, *overrides)
    server = make_server(torch.full((4, 50), LARGEST))
    vector = rule(Updates(torch.full((20, 50), LARGEST)), server).vector
    torch.testing.assert_close(vector, torch.full((50,), LARGEST))


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-20])
def test_boba_projects_the_largest_updates_onto_the_subspace_of_small_class_updates(size: float) -> None:
    """A coefficient is the ratio of the lengths, which leaves float32's range; the projection does not."""
    updates, server = skewed_round(1)
    units = updates.matrix / updates.matrix.abs().max()
    rule = build("aggregator", "boba_wo_stage1")
    vector = rule(Updates(3e38 * units), make_server(size * server.class_updates)).vector
    expected = rule(Updates(1e3 * units), make_server(size * 1e-6 * server.class_updates)).vector
    torch.testing.assert_close(vector / 3e38, expected / 1e3, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["fltrust", "bygars"])
@pytest.mark.parametrize("tiny", [1e-38, 1e-41, 1e-44])
def test_one_tiny_update_counts_like_any_other(name: str, tiny: float) -> None:
    """Both rules bring every update to one length: the weight of a tiny one is beyond float32, its share is not."""
    updates, server = skewed_round(0)
    small = updates.matrix.clone()
    small[5] = torch.full_like(small[5], tiny)
    ordinary = small.clone()
    ordinary[5] = torch.full_like(small[5], 1.0)
    result, expected = (build("aggregator", name)(Updates(rows), server).vector for rows in (small, ordinary))
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


def test_weights_of_all_magnitudes() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        powers = rng.integers(-37, 37, size=9)
        rows = torch.from_numpy(rng.normal(size=(9, 30)) * 10.0 ** powers[:, None]).float()
        weights = torch.from_numpy(rng.normal(size=9) * 10.0**-powers)
        expected = (weights @ rows.double()).float()
        torch.testing.assert_close(Updates(rows).combine(weights).vector, expected, rtol=1e-5, atol=1e-5)


def test_a_weight_that_is_no_number_shows_in_the_result() -> None:
    rows = torch.ones(3, 4)
    for weights in ([math.nan] * 3, [math.nan, 0.5, 0.5]):
        assert Updates(rows).combine(torch.tensor(weights, dtype=torch.float64)).vector.isnan().all()


def test_rows_made_by_tiny_factors_keep_their_digits() -> None:
    rows = torch.stack([torch.full((4,), 3e38), torch.ones(4)])
    mixing = torch.tensor([[1e-41, 0], [0, 1]], dtype=torch.float64)
    mixed = Updates(rows).mix(mixing)
    torch.testing.assert_close(mixed.matrix, (mixing @ rows.double()).float(), rtol=1e-6, atol=0)


def test_means_of_rows_and_of_buckets_are_finite() -> None:
    matrix = torch.full((8, 5), LARGEST)
    assert torch.equal(mean_row(matrix), matrix[0])
    assert torch.equal(mean_row(matrix / 1e30), (matrix / 1e30).mean(dim=0))
    assert torch.equal(Bucketing(3)(Updates(matrix), np.random.default_rng(0)).matrix, matrix[:3])


# --- ties and counts -------------------------------------------------------------------------------------------------


def test_equal_losses_share_the_places_that_are_left() -> None:
    """With two wild clients every mean that leaves one out is wild: nobody is told apart, whoever comes first."""
    updates, server = skewed_round(0)
    matrix = updates.matrix.clone()
    matrix[[3, 9]] = 3e38
    lost = replace(server, loss=lambda models: torch.full((len(models),), math.inf))
    for rule in (AvgRej(3), SelfRej(3), Zeno(3)):
        assert rule(Updates(matrix), lost).weights.tolist() == pytest.approx([1 / 20] * 20)


def test_arfl_s_multi_krum_keeps_half_of_an_odd_number_rounded_down() -> None:
    rule = Krum(None, None, squared=False, self_distance=True, weighted=True)
    for seed, n in enumerate((11, 12, 13, 15)):
        updates, server = skewed_round(seed, honest=n - 3)
        counts = torch.from_numpy(np.random.default_rng(seed).integers(1, 50, n).astype(float))
        aggregate = rule(Updates(updates.matrix, counts), server)
        assert (aggregate.weights > 0).sum() == n // 2
        expected = reference_arfl.mkrum(updates.matrix.double().numpy(), counts.numpy())
        np.testing.assert_allclose(aggregate.vector.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("group", ["larger", "heavier", "smaller"])
def test_cfl_hears_of_equal_groups_the_one_without_the_first_client(group: str) -> None:
    even = Updates(torch.tensor([[1.0, 0.1], [-1.0, 0.1], [1.0, 0.2], [-1.0, 0.0]]))
    assert Cfl(group=group)(even, None).weights.tolist() == [0, 0.5, 0, 0.5]


def test_a_bucket_stands_for_the_samples_of_its_clients() -> None:
    counts = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0], dtype=torch.float64)
    mixed = Bucketing(2)(Updates(torch.randn(5, 3), counts), np.random.default_rng(0))
    order = np.random.default_rng(0).permutation(5)
    expected = [float(counts[order[start : start + 2]].sum()) for start in (0, 2, 4)]
    assert mixed.counts.tolist() == expected


# --- attacks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lie", "minmax", "minsum", "krum_attack", "trim_attack", "ipm", "adaptive"])
@pytest.mark.parametrize("scale", [2.0**-40, 2.0**60, 2.0**100])
def test_attacks_scale_with_the_honest_updates(name: str, scale: float) -> None:
    attack, honest = build("attack", name), honest_updates(9)
    first, second = attack.craft(make_view(honest)), attack.craft(make_view(honest * np.float32(scale)))
    torch.testing.assert_close(second / scale, first, rtol=1e-4, atol=1e-5)
    assert first.norm() > 0


@pytest.mark.parametrize("scale", [1e-35, 1e35])
def test_the_unit_perturbation_is_a_unit_at_every_scale(scale: float) -> None:
    honest = honest_updates(9) * np.float32(scale)
    view = make_view(honest)
    attack = build("attack", "minmax", "attack.perturbation=unit")
    assert (attack.craft(view) / scale - view.mean / scale).isfinite().all()


def test_the_search_for_gamma_ends_where_floats_do() -> None:
    assert largest_gamma(lambda gamma: gamma <= 123456.7, 1e5, 1e-12) == pytest.approx(123456.7)


# --- what is logged of the weights -----------------------------------------------------------------------------------


def test_clients_with_next_to_no_weight_are_not_let_in() -> None:
    """Rules that keep everybody at a tiny weight and rules that drop them make the same model: they count alike."""
    kept = torch.tensor([0.25, 0.25, 0.25, 0.25, 1e-9], dtype=torch.float64)
    for last in (1e-9, 0.0, -1e-9):
        weights = torch.cat([kept[:4], torch.tensor([last], dtype=torch.float64)])
        aggregate = Aggregate(torch.zeros(2), weights)
        model = Trained(torch.zeros(2), None, aggregate, num_honest=4, non_finite=0, memory=Memory())
        evaluation: Any = SimpleNamespace(round=SimpleNamespace(models=[model]), clients_drop_out=False)
        record = {metric.name: metric.compute(evaluation) for metric in weight_metrics.METRICS}
        assert (record["byzantine_accepted"], record["honest_dropped"]) == (0, 0)
        assert record["effective_clients"] == pytest.approx(4)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [([1, 0, 0], 1), ([1, 1, 1, 1], 4), ([0.5, 0.25, 0.25], 1 / 0.375), ([2, -2], 2), ([0, 0], 0)],
)
def test_effective_number_of_clients(weights: list[float], expected: float) -> None:
    assert weight_metrics.effective_clients(torch.tensor(weights, dtype=torch.float64)) == pytest.approx(expected)
    assert math.isfinite(expected)


def test_short_ways_give_the_bytes_of_the_products_they_stand_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((7, 301), dtype=np.float32)
    rows[:, ::5] = -0.0
    updates = Updates(torch.from_numpy(rows))
    factors = rng.uniform(0, 1, 7)
    stretched = updates.mix(torch.from_numpy(np.diag(factors))).columns.numpy()
    assert stretched.tobytes() == (np.diag(factors).astype(np.float32) @ rows).tobytes()
    alone = updates.combine(np.eye(7)[3] * 0.3).vector.numpy()
    assert alone.tobytes() == (np.float32([0.3]) @ rows[3:4]).tobytes()
    mixing = torch.zeros(3, 7, dtype=torch.float64)
    for group, members in enumerate(([4, 0, 2], [1, 6], [3, 5])):
        mixing[group, members] = 1 / len(members)
    at_once = updates.mix(mixing).columns.numpy()
    monkeypatch.setattr(numbers, "CACHED_NUMBERS", 0)
    assert at_once.tobytes() == updates.mix(mixing).columns.numpy().tobytes()  # one group after the other


def test_the_largest_eigenpair_is_that_of_scipy_to_the_byte() -> None:
    points = np.random.default_rng(0).standard_normal((9, 4))
    values, vectors = eigh(points @ points.T, subset_by_index=[8, 8])
    value, vector = top_eigenpair(points @ points.T)
    assert (value, vector.tobytes()) == (values[0], vectors[:, 0].tobytes())
    with pytest.raises(ValueError, match="infs or NaNs"):
        top_eigenpair(np.full((2, 2), np.inf))
