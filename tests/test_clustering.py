"""Clustered learning: against slow versions of the algorithms, against theory, and every option of its own."""

import itertools
import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.interfaces import Attack, ChoiceView, ConfigError, Shard, StartView
from robustfl_bench.numerics.metrics import cluster_recovery, matched_distance, nearest_distance
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.beta_trmean import BetaTrMean
from robustfl_bench.parts.attacks.brifca_outlier import BrifcaOutlier
from robustfl_bench.parts.attacks.cluster_target import ClusterTarget
from robustfl_bench.parts.attacks.ipm import InnerProductManipulation
from robustfl_bench.parts.clustering import kmeans
from robustfl_bench.parts.clustering.ifca import Ifca
from robustfl_bench.parts.clustering.minimisers import local_minimisers
from robustfl_bench.parts.clustering.start import initial_models, onto_ball
from robustfl_bench.parts.clustering.three_stage import ThreeStage
from robustfl_bench.parts.models.mean import Constant
from robustfl_bench.parts.protocols.state import State
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.loop import run
from robustfl_bench.train.metrics import METRICS
from robustfl_bench.train.rounds import initial_state
from tests import reference_brifca as reference
from tests.presets import federation, trained
from tests.rounds import make_server, names, refused

LINEAR = (
    "dataset=linear_mixture", "model=linear_regression", "partition=natural", "byzantine_placement=replace",
    "attack=brifca_outlier", "num_clients=24", "num_byzantine=3", "lr=0.05", "dataset.num_clusters=3",
    "dataset.dim=8", "dataset.points=30", "dataset.test_points=5",
)  # fmt: skip
DIGITS = ("dataset=rotated_digits", "partition=natural", "num_clients=16", "model=linear", "lr=0.5")


# --- measures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_distances_and_recovery_are_the_best_over_all_matchings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    estimates, truth = rng.normal(size=(2, 4, 3))
    assert matched_distance(estimates, truth) == pytest.approx(reference.distance(estimates, truth))
    assert nearest_distance(estimates, truth) == pytest.approx(reference.nearest(estimates, truth))
    counts = rng.integers(9, size=(4, 4))
    assert cluster_recovery(counts) == pytest.approx(reference.recovery(counts))


def test_the_nearest_distance_forgives_a_cluster_that_nobody_found() -> None:
    truth, found = [[0.0, 0.0], [4.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]
    assert matched_distance(found, truth) == pytest.approx((1 + 3) / 2)
    assert nearest_distance(found, truth) == pytest.approx(1)


def test_with_fewer_models_than_clusters_each_cluster_has_its_nearest_model() -> None:
    truth = [[0.0], [1.0], [10.0]]
    assert matched_distance([[2.0]], truth) == pytest.approx((2 + 1 + 8) / 3)
    assert matched_distance([[9.0], [0.0], [1.0], [50.0]], truth) == pytest.approx(1 / 3)
    assert cluster_recovery([[5, 0], [0, 5], [0, 2]]) == pytest.approx(10 / 12)


# --- trimmed k-means --------------------------------------------------------------------------------------------------


def blobs(seed: int, k: int = 3, each: int = 20, outliers: int = 3, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Points in ``k`` far-apart clusters and a few far away from all; their labels, -1 for those."""
    rng = np.random.default_rng(seed)
    centres = 10 * np.eye(k, d)
    points = np.concatenate([np.repeat(centres, each, axis=0) + rng.normal(size=(k * each, d)),
                             300 + 50 * rng.normal(size=(outliers, d))])  # fmt: skip
    return points, np.repeat([*range(k), -1], [each] * k + [outliers])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("keep", [0.8, 0.95, 1.0])
def test_trimmed_kmeans_is_the_slow_version(seed: int, keep: float) -> None:
    rng = np.random.default_rng(seed)
    points, start = rng.normal(size=(40, 3)), rng.normal(size=(3, 3))
    labels, centres = kmeans.trimmed_kmeans(points, start, keep, max_iter=4, tol=1e-9)
    expected_labels, expected = reference.trimmed_kmeans(points, list(start), keep, max_iter=4, tol=1e-9)
    np.testing.assert_array_equal(labels, expected_labels)
    np.testing.assert_allclose(centres, expected, atol=1e-3)


def test_the_trimmed_mean_leaves_out_what_is_far_from_the_geometric_median() -> None:
    points = np.concatenate([np.random.default_rng(0).normal(size=(39, 2)), [[1e4, 1e4]]])
    assert np.linalg.norm(kmeans.trimmed_mean(points, 0.95)) < 1
    assert np.linalg.norm(points.mean(axis=0)) > 300
    np.testing.assert_allclose(kmeans.trimmed_mean(points[:1], 0.95), points[0])  # nothing is nearer than itself


@pytest.mark.parametrize("seed", range(10))
def test_seeds_are_never_outliers_unless_the_first_is(seed: int) -> None:
    points, truth = blobs(seed)
    seeds = kmeans.seeds(points, 3, 0.95, np.random.default_rng(seed))
    chosen = [int(truth[(points == row).all(axis=1)][0]) for row in seeds]
    assert -1 not in chosen[1:]
    assert sorted(chosen[1:]) == sorted(set(chosen[1:]))  # another cluster every time


def test_seeds_of_points_that_coincide_are_points() -> None:
    seeds = kmeans.seeds(np.ones((5, 2)), 3, 0.95, np.random.default_rng(0))
    np.testing.assert_array_equal(seeds, np.ones((3, 2)))


def test_a_cluster_without_points_keeps_its_centre() -> None:
    start = np.array([[0.0, 0.0], [1e6, 1e6]])
    _, centres = kmeans.trimmed_kmeans(np.random.default_rng(0).normal(size=(10, 2)), start)
    np.testing.assert_array_equal(centres[1], start[1])


# --- local minimisers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [3, 20, 50])
def test_least_squares_is_of_least_error_and_least_norm(d: int) -> None:
    rng = torch.Generator().manual_seed(0)
    clients = [(torch.randn(20, d, generator=rng), torch.randn(20, generator=rng)) for _ in range(3)]
    found = local_minimisers(torch.nn.Linear(d, 1, bias=False), clients, "lstsq")
    for theta, (x, y) in zip(found, clients, strict=True):
        expected = np.linalg.pinv(x.double().numpy()) @ y.double().numpy()
        np.testing.assert_allclose(theta, expected, rtol=1e-6, atol=1e-8)


def test_the_float32_determinant_turns_some_clients_solutions_into_garbage_beyond_n_dimensions() -> None:
    rng = torch.Generator().manual_seed(0)
    clients = [(torch.randn(100, 200, generator=rng), torch.randn(100, generator=rng)) for _ in range(30)]
    module = torch.nn.Linear(200, 1, bias=False)
    exact, found = (local_minimisers(module, clients, erm) for erm in ("lstsq", "float32_det"))
    errors = np.linalg.norm(found - exact, axis=1) / np.linalg.norm(exact, axis=1)
    garbage = errors > 10
    assert 5 <= garbage.sum() <= 25
    assert errors[~garbage].max() < 1e-6
    for theta, (x, y), is_garbage in zip(found, clients, garbage, strict=True):
        gram = x.T @ x
        assert bool(torch.linalg.det(gram) > 0) == is_garbage
        if not is_garbage:  # the least-norm solution is what the pseudo-inverse in float32 gives
            np.testing.assert_allclose(theta, (torch.linalg.pinv(gram) @ (x.T @ y)).numpy(), atol=1e-3)
    easy = [(x[:, :5], y) for x, y in clients]
    small = torch.nn.Linear(5, 1, bias=False)
    np.testing.assert_allclose(
        local_minimisers(small, easy, "float32_det"), local_minimisers(small, easy, "lstsq"), atol=1e-5
    )


def test_the_minimiser_of_mean_estimation_is_the_mean() -> None:
    x = torch.arange(12.0).view(6, 2)
    np.testing.assert_allclose(local_minimisers(Constant(2), [(x[:2], x[:2]), (x, x)], "lstsq"), [[1, 2], [5, 6]])


# --- where the models start -------------------------------------------------------------------------------------------


def start_view(seed: int = 1, truth: np.ndarray | None = None) -> StartView:
    return StartView(
        seed=seed,
        rng=seeding.generator,
        initial=lambda number: torch.full((6,), float(number)),
        truth=None if truth is None else torch.from_numpy(truth),
        clients=lambda: [],
        clusters=None,
        module=torch.nn.Linear(6, 1, bias=False),
    )


def test_models_start_where_init_says() -> None:
    assert torch.equal(initial_models(start_view(), 3, "model", 0.25), torch.arange(3.0)[:, None].expand(3, 6))
    drawn = initial_models(start_view(), 3, "bernoulli", 0.25)
    torch.testing.assert_close(drawn.norm(dim=1), torch.ones(3))
    assert not torch.equal(drawn, initial_models(start_view(seed=2), 3, "bernoulli", 0.25))
    fixed = initial_models(start_view(), 3, "fixed_seed0", 0.25)
    assert torch.equal(fixed, initial_models(start_view(seed=2), 3, "fixed_seed0", 0.25))


def test_a_start_fixed_at_seed_0_is_the_truth_of_the_data_of_seed_0() -> None:
    for seed, same in ((0, True), (1, False)):
        f = federation(*LINEAR, "clustering=ifca", "clustering.init=fixed_seed0", f"seed={seed}")
        assert f.clients.data.truth is not None
        assert torch.allclose(initial_state(f).params.double(), f.clients.data.truth, atol=1e-6) == same


def test_a_warm_start_is_a_share_of_the_least_distance_away_from_the_truth() -> None:
    truth = np.random.default_rng(0).normal(size=(3, 6))
    apart = min(np.linalg.norm(a - b) for a, b in itertools.combinations(truth, 2))
    moved = initial_models(start_view(truth=truth), 3, "warm", 0.25).double().numpy() - truth
    np.testing.assert_allclose(np.linalg.norm(moved, axis=1), 0.25 * apart, rtol=1e-5)
    for unknown in (start_view(), start_view(truth=truth[:2])):
        with pytest.raises(ConfigError, match="init=warm needs true parameters of 3 clusters"):
            initial_models(unknown, 3, "warm", 0.25)


def test_projection_shortens_what_is_outside_and_leaves_the_rest() -> None:
    vector = torch.tensor([3.0, 4.0])
    torch.testing.assert_close(onto_ball(vector, 2.0), torch.tensor([1.2, 1.6]))
    assert torch.equal(onto_ball(vector, 5.0), vector)
    assert onto_ball(vector, None) is vector
    assert torch.equal(onto_ball(torch.zeros(2), 1.0), torch.zeros(2))


# --- IFCA and Algorithm 1 ---------------------------------------------------------------------------------------------

RULES: dict[str, Any] = {
    "aggregator=coomed": partial(reference.median, lower=False),
    "aggregator=coomed aggregator.even=lower": partial(reference.median, lower=True),
    "aggregator=beta_trmean aggregator.fraction=0.2": partial(reference.trimmed_mean, fraction=0.2),
    "aggregator=average": lambda rows: np.mean(rows, axis=0),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "": {},
    "attack.loss_at_3theta=true": {"loss_at_3theta": True},
    "clustering.scale_by_share=true": {"by_share": True},
    "clustering.radius=0.9": {"radius": 0.9},
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("option", OPTIONS)
def test_the_loop_is_algorithm_1(rule: str, option: str) -> None:
    f = federation(*LINEAR, "clustering=ifca", "clustering.init=bernoulli", "rounds=4", *rule.split(), *option.split())
    start = initial_state(f)
    machines = [(x.double().numpy(), y.double().numpy()) for x, y in f.samples()]
    models = reference.algorithm_1(
        list(start.params.double().numpy()),
        machines,
        set(f.clients.byzantine_ids),
        4,
        0.05,
        RULES[rule],
        **OPTIONS[option],
    )
    state, _ = trained(f)
    np.testing.assert_allclose(state.params.numpy(), models, atol=2e-5)
    assert not np.allclose(models, start.params.numpy(), atol=0.05)


def test_options_change_the_result() -> None:
    """So that the test above cannot pass with options that do nothing."""
    common = (*LINEAR, "clustering=ifca", "clustering.init=bernoulli", "rounds=4", "aggregator=average")
    ends = [trained(federation(*common, *option.split()))[0].params for option in OPTIONS]
    assert all(not torch.allclose(a, b, atol=1e-4) for a, b in itertools.combinations(ends, 2))


def test_the_byzantine_clients_are_drawn_evenly_from_the_clusters_and_stay_byzantine_when_there_are_more() -> None:
    few, many = (federation(*LINEAR, f"num_byzantine={number}") for number in (3, 7))
    assert few.clients.clusters is not None
    assert np.bincount(few.clients.clusters[few.clients.honest_ids]).tolist() == [7, 7, 7]
    assert sorted(np.bincount(few.clients.clusters[many.clients.honest_ids]).tolist()) == [5, 6, 6]
    assert set(few.clients.byzantine_ids) < set(many.clients.byzantine_ids)


def test_a_byzantine_client_of_brifca_has_data_of_its_own_parameter_and_sends_the_gradient_at_three_times_the_model(
) -> None:  # fmt: skip
    f = federation(*LINEAR, "dataset.points=4000", "dataset.noise_variance=0.2")
    for client in f.clients.byzantine_ids:
        x, y = f.samples()[client]
        own = torch.linalg.lstsq(x, y[:, None]).solution.squeeze(1)
        assert own.norm().item() == pytest.approx(3, abs=0.1)
        assert (y - x @ own).var().item() == pytest.approx(0.2, rel=0.1)
        assert torch.equal(x, f.clients.data.train_x[torch.from_numpy(f.clients.shards[client])])
    with pytest.raises(ConfigError, match="needs vectors and one number each to predict"):
        BrifcaOutlier().poison(Shard(torch.rand(3, 2), torch.arange(3), 3, None, np.random.default_rng(0)))


def choice_view(honest: list[int], b: int, losses: list[list[float]] | None = None) -> ChoiceView:
    def own_losses(models: Tensor) -> Tensor:
        assert losses is not None
        return torch.tensor(losses)[:, models[:, 0].long()]  # the models are numbered by their first parameter

    params = torch.arange(4.0)[:, None].expand(4, 2)
    return ChoiceView(params, torch.tensor(honest), b, None if losses is None else own_losses)


def test_whom_attackers_attack() -> None:
    plain = Attack()
    losses = [[0.1, 3.0, 2.0, 9.0], [9.0, 9.0, 9.0, 0.0]]
    assert plain.choose(choice_view([1, 2, 2, 3], 2, losses)).tolist() == [2, 3]  # nobody honest trains model 0
    assert plain.choose(choice_view([1, 2, 2, 3], 5)).tolist() == [1, 2, 3, 1, 2]
    target = ClusterTarget(InnerProductManipulation(2))
    assert target.choose(choice_view([1, 1, 2, 2, 3], 3)).tolist() == [3, 3, 3]
    assert target.choose(choice_view([2, 2, 1, 1], 2, losses)).tolist() == [1, 1]
    outlier = BrifcaOutlier()
    assert outlier.choose(choice_view([1, 2, 2, 3], 2, losses)).tolist() == [0, 3]  # alone, if need be


def test_a_target_sends_what_its_attack_sends() -> None:
    parts = ("clustering=ifca", "aggregator=coomed", "rounds=3", "clustering.init=warm")
    common = [item for item in LINEAR if not item.startswith("attack")]
    inner = trained(federation(*common, *parts, "attack=cluster_target", "attack.attack.scale=3"))[0]
    plain = trained(federation(*common, *parts, "attack=ipm", "attack.scale=3"))[0]
    assert not torch.equal(inner.params, plain.params)  # to another cluster
    one = ("clustering=none", "aggregator=coomed", "rounds=3")
    inner = trained(federation(*common, *one, "attack=cluster_target", "attack.attack.scale=3"))[0]
    plain = trained(federation(*common, *one, "attack=ipm", "attack.scale=3"))[0]
    assert torch.equal(inner.params, plain.params)


def far_models(f: Federation) -> State:
    """The second model is the truth of one cluster, the third is where nobody wants it."""
    state = initial_state(f)
    assert f.clients.data.truth is not None
    params = f.clients.data.truth.float().clone()
    params[2] = 100.0
    return replace(state, params=params)


def test_a_model_that_nobody_chose_stays_or_is_trained_by_one_client() -> None:
    common = (*LINEAR, "clustering=ifca", "attack=none", "rounds=1", "aggregator=coomed")
    kept = federation(*common)
    ((state, record),) = run(kept, far_models(kept), metrics=METRICS)
    assert record is not None and record["empty_clusters"] == record["untrained_clusters"] == 1
    assert torch.equal(state.params[2], torch.full((8,), 100.0))
    assert state.previous is not None and not state.previous[2].any()
    filled = federation(*common, "clustering.empty=random")
    ((state, record),) = run(filled, far_models(filled), metrics=METRICS)
    assert record is not None and record["empty_clusters"] == record["untrained_clusters"] == 0
    assert not torch.equal(state.params[2], torch.full((8,), 100.0))
    sizes = [len(cohort) for cohort in filled.cohorts.of(far_models(filled))]
    assert sizes[2] == 1 and sum(sizes) == 24


def test_nobody_chooses_a_diverged_model() -> None:
    f = federation(*LINEAR, "clustering=ifca", "attack=none", "rounds=1")
    assert f.clients.data.truth is not None
    params = f.clients.data.truth.float().clone()
    params[0] = math.nan
    assert [len(cohort) > 0 for cohort in f.cohorts.of(State.start(params))] == [False, True, True]


def test_a_group_too_small_for_the_rule_keeps_its_model_and_is_counted() -> None:
    common = (*LINEAR, "clustering=ifca", "clustering.init=warm", "attack=none", "aggregator=krum", "rounds=1")
    f = federation(*common, "num_byzantine_declared=2")
    _, (record,) = trained(f)
    assert record["untrained_clusters"] == 0
    small = federation(*common, "num_byzantine_declared=3", "num_clients=25")  # Krum needs n > 2f + 2 = 8
    state, (record,) = trained(small)
    assert [len(cohort) for cohort in small.cohorts.of(initial_state(small))] == [9, 8, 8]
    assert record["untrained_clusters"] == 2 and record["empty_clusters"] == 0
    moved = (state.params != initial_state(small).params).any(dim=1)
    assert moved.tolist() == [True, False, False]
    with pytest.raises(ConfigError, match="every cohort of clients is too small for the rule"):
        trained(federation(*common, "num_byzantine_declared=10"))


def test_attackers_alone_in_a_fixed_group_send_their_own_updates() -> None:
    common = [item for item in LINEAR if not item.startswith("attack")]
    f = federation(*common, "attack=lie", "clustering=ifca", "rounds=1")
    state = initial_state(f)
    groups = torch.zeros(24, dtype=torch.int64)
    groups[f.clients.byzantine_ids] = 2
    ((after, record),) = run(f, State.start(state.params, groups), metrics=METRICS)
    assert record is not None and record["empty_clusters"] == 1
    assert after.params[2].isfinite().all() and not torch.equal(after.params[2], state.params[2])


@pytest.mark.parametrize("n", [1, 2, 7, 20, 40, 100])
@pytest.mark.parametrize("fraction", [0.0, 0.05, 0.29, 0.49])
def test_the_trimmed_mean_by_share(n: int, fraction: float) -> None:
    rows = np.random.default_rng(n).normal(size=(n, 5))
    found = BetaTrMean(fraction)(Updates(torch.from_numpy(rows).float()), make_server(torch.zeros(1, 5))).vector
    np.testing.assert_allclose(found.numpy(), reference.trimmed_mean(rows, fraction), atol=1e-6)


# --- Three-Stage ------------------------------------------------------------------------------------------------------

FINDABLE = ("dataset.points=100", "clustering=three_stage", "clustering.keep=0.8")  # 3 of 24 clients are Byzantine


@pytest.mark.parametrize("option", ["kmeans_init=restarts", "kmeans_init=oracle"])
def test_three_stage_finds_the_clusters_and_trains_on_fixed_groups(option: str) -> None:
    f = federation(*LINEAR, *FINDABLE, f"clustering.{option}", "rounds=150", "eval_every=50",
                   "aggregator=beta_trmean", "aggregator.fraction=0.2")  # fmt: skip
    start = initial_state(f)
    assert start.choice is not None and start.choice.shape == (24,)
    state, records = trained(f)
    assert state.choice is not None and torch.equal(state.choice, start.choice)
    assert records[-1]["cluster_recovery"] == 1
    assert records[-1]["distance"] < 0.15
    assert [sorted(cohort.honest) for cohort in f.cohorts.of(start)] == [
        sorted(cohort.honest) for cohort in f.cohorts.of(state)
    ]


def test_the_starts_of_three_stage() -> None:
    common = (*LINEAR, *FINDABLE)
    drawn, centres = (initial_state(federation(*common, f"clustering.init={init}")) for init in ("model", "centres"))
    f = federation(*common)
    assert torch.equal(drawn.params, torch.stack([f.network.another_initial(i) for i in range(3)]))
    assert f.clients.data.truth is not None
    assert matched_distance(centres.params, f.clients.data.truth) < 0.1
    once = initial_state(federation(*common, "clustering.kmeans_init=random"))
    assert once.choice is not None and set(once.choice.tolist()) <= {0, 1, 2}


def test_unit_norm_and_projection_are_options_of_every_step() -> None:
    common = (*LINEAR, "clustering=three_stage", "aggregator=beta_trmean", "rounds=3")
    unit = trained(federation(*common, "clustering.unit_norm=true"))[0].params
    torch.testing.assert_close(unit.norm(dim=1), torch.ones(3))
    free = trained(federation(*common))[0].params
    assert (free.norm(dim=1) - 1).abs().min() > 1e-3
    inside = trained(federation(*common, "clustering.radius=0.1"))[0].params
    torch.testing.assert_close(inside.norm(dim=1), torch.full((3,), 0.1))


def test_more_restarts_never_cost_more() -> None:
    f = federation(*LINEAR)
    points = local_minimisers(f.network.module, f.samples(), "lstsq")

    def cost(restarts: int) -> float:
        _, centres = ThreeStage(6, restarts=restarts)._clustered(points, start_view())
        return kmeans.trimmed_cost(kmeans.sq_dists(points, centres).min(axis=1), 0.95)

    costs = [cost(restarts) for restarts in (1, 3, 10)]
    assert costs == sorted(costs, reverse=True) and costs[0] > costs[-1]


# --- theory, and real data --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["coomed", "beta_trmean", "average"])
def test_from_a_good_start_the_distance_falls_at_the_linear_rate_to_the_noise_floor(rule: str) -> None:
    """With x ~ N(0, I) the gradient is 2 (theta - truth) on average: a step of 0.05 leaves 0.9 of the distance.

    At the end the estimate is that of least squares on all samples of a cluster, of error sigma sqrt(d / (m n)); that
    of the median is larger by up to sqrt(pi / 2).
    """
    machines, points, dim, step, variance = 20, 200, 10, 0.05, 2e-4
    sizes = (f"num_clients={3 * machines}", f"dataset.points={points}", f"dataset.dim={dim}")
    f = federation(*LINEAR, *sizes, f"dataset.noise_variance={variance}", "attack=none", "clustering=ifca",
                   "clustering.init=warm", f"aggregator={rule}", f"lr={step}", "rounds=120")  # fmt: skip
    _, records = trained(f)
    assert all(record["cluster_recovery"] == 1 and record["empty_clusters"] == 0 for record in records)
    distances = np.array([record["distance"] for record in records])
    floor = math.sqrt(variance * dim / (machines * points))
    assert 0.6 * floor < distances[-1] < 1.6 * floor
    above = distances > 5 * floor
    assert above.sum() >= 30
    rates = distances[1:][above[1:]] / distances[:-1][above[1:]]
    assert np.abs(rates - (1 - 2 * step)).max() < 0.02


def test_real_images_turned_by_clusters_are_told_apart() -> None:
    several, one = (trained(federation(*DIGITS, "rounds=60", "eval_every=60", *o))[1][-1]
                    for o in (("clustering=ifca", "seed=3"), ("clustering=none", "seed=3")))  # fmt: skip
    clusters = [f"accuracy_cluster_{i}" for i in range(4)]
    assert np.mean([several[name] for name in clusters]) == pytest.approx(several["test_accuracy"])
    assert np.mean([one[name] for name in clusters]) == pytest.approx(one["test_accuracy"])
    assert several["test_accuracy"] > one["test_accuracy"] + 0.1
    assert "cluster_recovery" not in one and several["cluster_recovery"] >= 0.75


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_means_are_found_under_attack(family: str) -> None:
    f = federation("dataset=mean_mixture", "model=mean", "partition=natural", "num_clients=30", "num_byzantine=3",
                   "byzantine_placement=replace", "attack=ipm", f"dataset.family={family}", "dataset.num_clusters=3",
                   "dataset.dim=6", "clustering=three_stage", "aggregator=coomed", "lr=0.1", "rounds=40")  # fmt: skip
    _, records = trained(f)
    assert records[-1]["cluster_recovery"] == 1 and records[-1]["distance"] < 0.25


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ifca(0), "num_clusters must be >= 1"),
        (lambda: Ifca(2, init="near"), "init must be one of model, bernoulli, fixed_seed0, warm"),
        (lambda: Ifca(2, empty="drop"), "empty must be one of keep, random"),
        (lambda: Ifca(2, radius=-1), "radius must be >= 0"),
        (lambda: Ifca(2, scale_by_share=1), "scale_by_share must be true or false"),  # type: ignore[arg-type]
        (lambda: ThreeStage(2, erm="exact"), "erm must be one of lstsq, float32_det"),
        (lambda: ThreeStage(2, kmeans_init="best"), "kmeans_init must be one of restarts, random, oracle"),
        (lambda: ThreeStage(2, keep=1.5), r"keep must be in \[0, 1\]"),
        (lambda: ThreeStage(2, unit_norm="yes"), "unit_norm must be true or false"),  # type: ignore[arg-type]
        (lambda: BetaTrMean(0.5), "fraction must be < 0.5"),
        (lambda: BrifcaOutlier(norm=-1), "norm must be >= 0"),
        (lambda: BrifcaOutlier(loss_at_3theta=1), "loss_at_3theta must be true or false"),  # type: ignore[arg-type]
    ],
)
def test_impossible_options_are_refused(make: Any, message: str) -> None:
    refused(make, message)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ((*DIGITS, "clustering=three_stage", "byzantine_placement=replace"), "needs model=linear_regression"),
        ((*DIGITS, "clustering=ifca", "clustering.init=warm"), "init=warm needs true parameters of 4 clusters"),
        ((*LINEAR, "byzantine_placement=add", "clustering=three_stage"), "set byzantine_placement=replace"),
        ((*LINEAR, "clustering=three_stage", "clustering.num_clusters=30"), "needs as many clients, got 24"),
        ((*LINEAR, *FINDABLE, "clustering.num_clusters=2", "clustering.kmeans_init=oracle"), "oracle needs"),
    ],
)  # fmt: skip
def test_what_cannot_start_says_why(overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        initial_state(federation(*overrides))


PAIRS = [(rule, "ipm") for rule in names("aggregator")] + [("coomed", a) for a in ("lie", "minmax", "mimic", "gauss")]


@pytest.mark.parametrize(("rule", "attack"), PAIRS)
def test_every_rule_and_attack_works_within_groups(rule: str, attack: str) -> None:
    f = federation(*DIGITS, "num_clients=40", "clustering=ifca", "clustering.num_clusters=2", f"aggregator={rule}",
                   f"attack={attack}", "num_byzantine=2", "byzantine_placement=replace", "rounds=2")  # fmt: skip
    state, records = trained(f)
    assert state.params.isfinite().all() and not torch.equal(state.params, initial_state(f).params)
    assert records[-1]["non_finite_updates"] == 0
