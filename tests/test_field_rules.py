"""The field's rules and pre-aggregations against their slow versions, and what is particular to each."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from sklearn.cluster import HDBSCAN, MeanShift, estimate_bandwidth

from robustfl_bench.interfaces import ConfigError
from robustfl_bench.numerics.least_spread import _largest as largest
from robustfl_bench.numerics.least_spread import least_spread
from robustfl_bench.numerics.medians import largest_cluster
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.autogm import AutoGm
from robustfl_bench.parts.aggregators.average import Average
from robustfl_bench.parts.aggregators.bulyan import Bulyan
from robustfl_bench.parts.aggregators.caf import Caf
from robustfl_bench.parts.aggregators.centered_clipping import CenteredClipping
from robustfl_bench.parts.aggregators.cge import Cge
from robustfl_bench.parts.aggregators.chebyshev_mean import ChebyshevMean
from robustfl_bench.parts.aggregators.clipped_clustering import ClippedClustering
from robustfl_bench.parts.aggregators.clipped_trmean import ClippedTrMean
from robustfl_bench.parts.aggregators.coomed import CooMed
from robustfl_bench.parts.aggregators.dnc import Dnc
from robustfl_bench.parts.aggregators.flame import Flame, majority_cluster
from robustfl_bench.parts.aggregators.fldetector import FlDetector
from robustfl_bench.parts.aggregators.foolsgold import FoolsGold
from robustfl_bench.parts.aggregators.history_trmean import HistoryTrMean
from robustfl_bench.parts.aggregators.huber import Huber
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.aggregators.lasa import Lasa
from robustfl_bench.parts.aggregators.magnitude_trmean import MagnitudeTrMean
from robustfl_bench.parts.aggregators.mda import Mda
from robustfl_bench.parts.aggregators.meamed import MeaMed
from robustfl_bench.parts.aggregators.median_of_means import MedianOfMeans
from robustfl_bench.parts.aggregators.monna import Monna
from robustfl_bench.parts.aggregators.norm_bound import NormBound
from robustfl_bench.parts.aggregators.sequential_clipping import SequentialClipping
from robustfl_bench.parts.aggregators.signguard import SignGuard
from robustfl_bench.parts.aggregators.smea import Smea
from robustfl_bench.parts.aggregators.trmean import TrMean
from robustfl_bench.parts.aggregators.winsorized_mean import WinsorizedMean
from robustfl_bench.parts.pre_aggregations.arc import Arc
from robustfl_bench.parts.pre_aggregations.bucketing import Bucketing
from robustfl_bench.parts.pre_aggregations.chain import Chain
from robustfl_bench.parts.pre_aggregations.clipping import Clipping
from robustfl_bench.parts.pre_aggregations.nnm import Nnm
from robustfl_bench.train.alone import FrameworkServer, RuleAlone
from tests import reference
from tests import reference_field as field
from tests.rounds import agree, build, make_server, refused, skewed_round

F = 3
SEEDS = range(6)
SCALES = (-1.0, 0.3, 2.0, 10.0)  # of the attackers, against the honest mean


def rounds(**shape):
    """Rounds with attackers near and far: updates, the server, and the updates as a float64 array."""
    for seed in SEEDS:
        updates, server = skewed_round(seed, scale=SCALES[seed % len(SCALES)], **shape)
        yield updates, server, updates.matrix.double().numpy()


def previous(server, seed=0):
    """The same server with a last aggregate, near its own update."""
    last = server.update + torch.from_numpy(np.random.default_rng(seed).normal(size=len(server.update))).float()
    return replace(server, previous=last), last.double().numpy()


def test_the_inputs_tell_the_rules_apart():
    rules = (
        CooMed(), TrMean(F), MeaMed(F), Bulyan(F), Mda(F), Smea(F), Caf(F), Cge(F), Dnc(F), Monna(F), Huber(), AutoGm(),
        WinsorizedMean(F), MagnitudeTrMean(F), HistoryTrMean(F), ChebyshevMean(), CenteredClipping(),
        SequentialClipping(), ClippedTrMean(F), NormBound(), SignGuard(), Flame(noise=0), ClippedClustering(), Lasa(),
        FoolsGold(history=False),
    )  # fmt: skip
    apart = np.zeros((len(rules), len(rules)))
    for updates, server, _ in rounds():
        aware, _ = previous(server)
        vectors = torch.stack([rule(updates, replace(aware, rng=np.random.default_rng(0))).vector for rule in rules])
        apart = np.maximum(apart, torch.cdist(vectors, vectors).numpy())
    assert apart[~np.eye(len(rules), dtype=bool)].min() > 0.01


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("radius", [0.5, 10.0, 1e6])
def test_centered_clipping(radius, steps):
    for updates, server, rows in rounds():
        rule = CenteredClipping(radius, steps)
        agree(rule(updates, server), field.centered_clipping(rows, np.zeros(updates.d), radius, steps))
        server, last = previous(server)
        aggregate = rule(updates, server)
        agree(aggregate, field.centered_clipping(rows, last, radius, steps))
        share = 1 - float(aggregate.weights.sum())
        agree(aggregate, aggregate.weights.numpy() @ rows + share * last)


def test_centered_clipping_stays_within_its_radius_of_the_last_aggregate():
    updates, server = skewed_round(0)
    server, _ = previous(server)
    wild = updates.matrix.clone()
    wild[:F] = torch.tensor([1e30, -1e30, 3e38])[:, None]
    for factor in (1.0, 1e-20, 1e-40):
        moved = CenteredClipping(2.0 * factor)(
            Updates(wild * factor), replace(server, previous=server.previous * factor)
        )
        assert (moved.vector.double() / factor - server.previous).norm() <= 2.0 * (1 + 1e-4)


def test_centered_clipping_by_layer():
    for updates, server, rows in rounds():
        server, last = previous(server)
        layers = (7, 30, 13)
        ends = np.cumsum(layers)
        parts = [slice(end - size, end) for size, end in zip(layers, ends, strict=True)]
        expected = np.concatenate([field.centered_clipping(rows[:, p], last[p], 1.5, 2) for p in parts])
        agree(CenteredClipping(1.5, 2, per_layer=True)(updates, replace(server, layers=layers)), expected)
        whole = CenteredClipping(1.5, 2)(updates, server).vector
        torch.testing.assert_close(CenteredClipping(1.5, 2, per_layer=True)(updates, server).vector, whole)


@pytest.mark.parametrize(("mean_first", "passes"), [(False, 1), (True, 1), (True, 2)])
@pytest.mark.parametrize("bucket_size", [1, 3, 7])
def test_sequential_clipping(bucket_size, mean_first, passes):
    for updates, server, rows in rounds():
        rule = SequentialClipping(1.0, bucket_size, mean_first, passes)
        for asked, last in ((server, None), previous(server)):
            aggregate = rule(updates, replace(asked, rng=np.random.default_rng(5)))
            drawn = np.random.default_rng(5)
            agree(aggregate, field.sequential_clipping(rows, last, 1.0, bucket_size, drawn, mean_first, passes))


def test_clipped_trmean():
    for updates, server, rows in rounds():
        agree(ClippedTrMean(F, 1.5)(updates, server), field.clipped_trmean(rows, np.zeros(updates.d), 1.5, F))
        server, last = previous(server)
        agree(ClippedTrMean(F, 1.5)(updates, server), field.clipped_trmean(rows, last, 1.5, F))


@pytest.mark.parametrize(("num_iters", "fraction", "sub_dim"), [(1, 1.0, 10_000), (4, 0.7, 20), (2, 1.5, 20)])
def test_dnc(num_iters, fraction, sub_dim):
    for updates, server, rows in rounds():
        drawn, rejected = np.random.default_rng(5), math.floor(fraction * F)
        draws = [slice(None) if sub_dim > 50 else drawn.choice(50, sub_dim, replace=False) for _ in range(num_iters)]
        aggregate = Dnc(F, num_iters, fraction, sub_dim)(updates, replace(server, rng=np.random.default_rng(5)))
        agree(aggregate, field.dnc(rows, rejected, draws), 1e-4)


def test_dnc_when_every_client_is_rejected_by_some_filter():
    updates, server = skewed_round(0, honest=4, wild=2, d=40)
    weights = Dnc(2, num_iters=50, fraction=2.0, sub_dim=2)(updates, server).weights
    assert 0 < (weights > 0).sum() < 6


@pytest.mark.parametrize("honest", [17, 16])
def test_coordinate_wise_rules(honest):
    for updates, server, rows in rounds(honest=honest):
        n = len(rows)
        for even in ("mean", "lower"):
            agree(MeaMed(F, even)(updates, server), field.near_median(rows, n - F, even))
        agree(WinsorizedMean(F)(updates, server), field.winsorized_mean(rows, F))
        agree(MagnitudeTrMean(F)(updates, server), field.magnitude_trmean(rows, F))
        agree(ChebyshevMean(0.8)(updates, server), field.chebyshev_mean(rows, 0.8))
        agree(HistoryTrMean(F)(updates, server), reference.trmean(rows, F))
        server, last = previous(server)
        agree(HistoryTrMean(F)(updates, server), field.history_trmean(rows, F, last))


@pytest.mark.parametrize("repeated", [True, False])
@pytest.mark.parametrize("f", [0, 1, 2, 4])
def test_bulyan(f, repeated):
    for updates, server, rows in rounds():
        agree(Bulyan(f, "repeated" if repeated else "once")(updates, server), field.bulyan(rows, f, repeated))


@pytest.mark.parametrize("f", [0, 1, 3, 4])
def test_subset_searches(f):
    for updates, server, rows in rounds(honest=9, wild=2, classes=3, d=12):
        agree(Mda(f)(updates, server), field.mda(rows, f))
        agree(Smea(f)(updates, server), field.smea(rows, f))


@pytest.mark.parametrize("layout", ["plain", "outliers", "equal", "mean", "far", "line", "same", "common"])
def test_the_set_of_least_spread_is_that_of_a_search_through_all(layout):
    rng = np.random.default_rng(0)
    for n, f, d in [(9, 3, 20), (14, 4, 40), (14, 5, 3), (11, 5, 6)]:
        rows = rng.normal(size=(n, 1 if layout == "line" else d))
        if layout in ("outliers", "far"):
            rows[:f] *= rng.choice([2, 10, 1e30 if layout == "far" else 1], size=(f, 1))
        if layout == "equal":
            rows[: f + 2] = rows[0]
        if layout == "mean":
            rows[:f] = rows[f:].mean(axis=0)
        if layout == "same":
            rows[:] = rows[0]
        if layout == "common":
            rows += 1e3

        def spread(members, rows=rows):
            part = rows[list(members)]
            return np.linalg.norm(part - part.mean(axis=0), ord=2) ** 2

        members = least_spread(rows @ rows.T, f)
        assert len(members) == n - f and (np.diff(members) > 0).all()
        assert spread(members) <= min(map(spread, combinations(range(n), n - f))) * (1 + 1e-7) + 1e-24


def test_few_sets_are_tried(monkeypatch):
    tried = []
    monkeypatch.setattr("robustfl_bench.numerics.least_spread._largest", lambda *a: tried.append(a) or largest(*a))
    rows = np.random.default_rng(0).normal(size=(25, 100))
    least_spread(rows @ rows.T, 5)
    assert len(tried) < 40  # of 53,130


def test_mda_on_a_grid_where_many_sets_have_the_least_diameter():
    rng, server = np.random.default_rng(0), skewed_round(0)[1]
    for _ in range(20):
        updates = Updates(torch.from_numpy(rng.integers(0, 4, size=(9, 2))).float())
        members = Mda(3)(updates, server).weights > 0
        assert members.sum() == 6
        best = min(float(updates.sq_dists[list(s)][:, list(s)].max()) for s in field.combinations(range(9), 6))
        assert float(updates.sq_dists[members][:, members].max()) == best


def test_mda_of_many_clients():
    """A hundred clients, of whom thirty attack: 3e25 sets of clients."""
    rng, server = np.random.default_rng(0), skewed_round(0)[1]
    rows = rng.normal(size=(100, 20))
    rows[:30] *= 5
    assert Mda(30)(Updates(torch.from_numpy(rows).float()), server).weights[:30].sum() == 0


@pytest.mark.parametrize("f", [0, 1, 3, 8])
def test_caf(f):
    for updates, server, rows in rounds():
        agree(Caf(f)(updates, server), field.caf(rows, f), 1e-4)


@pytest.mark.parametrize("trusted", [None, 0, 4])
def test_monna(trusted):
    for updates, server, rows in rounds():
        vector = server.update.double().numpy() if trusted is None else rows[trusted]
        agree(Monna(F, trusted)(updates, server), field.monna(rows, F, vector))


@pytest.mark.parametrize("seeding", [None, "bins"])
@pytest.mark.parametrize("similarity", ["none", "cosine", "distance"])
def test_signguard(similarity, seeding):
    for updates, server, rows in rounds():
        for asked, last in ((server, None), previous(server)):
            rng = np.random.default_rng(3)
            rule = SignGuard(fraction=0.4, similarity=similarity, seeding=seeding)
            found = rule(updates, replace(asked, rng=rng))
            likeness = None
            if similarity != "none":
                measure = field.cosine if similarity == "cosine" else lambda a, b: float(np.linalg.norm(a - b))
                others = [rows if last is None else [last] for _ in rows]
                likeness = [
                    np.median([max(0.0, measure(row, o)) for o in them]) for row, them in zip(rows, others, strict=True)
                ]
            drawn = np.random.default_rng(3).choice(50, 20, replace=False)
            agree(found, field.signguard(rows, drawn, similarity=likeness, bins=seeding is not None))


@pytest.mark.slow
@pytest.mark.parametrize("bins", [False, True])
def test_the_largest_cluster_of_mean_shift_is_scikit_learns(bins):
    rng, sizes = np.random.default_rng(0), set()
    for _ in range(100):
        centres = rng.normal(size=(3, 2)) * 3
        points = centres[rng.choice(3, 25, p=[0.6, 0.3, 0.1])] + rng.normal(size=(25, 2))
        bandwidth = estimate_bandwidth(points, quantile=0.5)
        labels = MeanShift(bandwidth=bandwidth, bin_seeding=bins, cluster_all=False).fit(points).labels_
        expected = labels == np.bincount(labels[labels >= 0]).argmax()
        np.testing.assert_array_equal(largest_cluster(points, bins=bins), expected)
        sizes.add(int(expected.sum()))
    assert len(sizes) > 5


def shares_of_signs(seed):
    """What SignGuard clusters: shares of signs in a few coordinates of 25 clients, with many equal distances."""
    rows = skewed_round(seed, honest=20, wild=5, scale=(0.1, 1.0, -1.0)[seed % 3])[0].matrix[:, :5].numpy()
    shares = np.stack([(np.sign(rows) == sign).mean(axis=1) for sign in (1, 0, -1)], axis=1)
    return shares / np.maximum(shares.max(axis=0), 1e-300)


@pytest.mark.parametrize("bins", [False, True])
def test_rounding_does_not_choose_the_cluster(bins):
    rng = np.random.default_rng(0)
    for seed in range(100):
        points = shares_of_signs(seed)
        expected, order = largest_cluster(points, bins=bins), rng.permutation(len(points))
        nearly = points * (1 + 1e-15 * rng.normal(size=points.shape))
        np.testing.assert_array_equal(largest_cluster(nearly, bins=bins), expected)
        np.testing.assert_array_equal(largest_cluster(points[order], bins=bins), expected[order])


def test_the_seeds_of_signguard_s_authors_select_another_cluster_in_some_rounds():
    points = [shares_of_signs(seed) for seed in range(100)]
    differ = sum(bool((largest_cluster(p) != largest_cluster(p, bins=True)).any()) for p in points)
    assert 5 <= differ <= 60


def test_groups_of_equal_points_are_clusters():
    for n in range(4, 40):
        points = np.repeat(np.random.default_rng(n).normal(size=(2, 3)), [n - n // 3, n // 3], axis=0)
        np.testing.assert_array_equal(largest_cluster(points, quantile=0.3), np.arange(n) < n - n // 3)


def test_the_cluster_of_flame_is_hdbscans():
    rng, sizes = np.random.default_rng(0), set()
    for n in (3, 4, 9, 20, 31):
        for _ in range(20):
            points = rng.normal(size=(n, 4)) * rng.uniform(0.1, 3, size=(n, 1))
            dists = np.linalg.norm(points[:, None] - points, axis=2)
            found = HDBSCAN(
                metric="precomputed", min_cluster_size=n // 2 + 1, min_samples=1, allow_single_cluster=True, copy=True
            ).fit(dists)
            np.testing.assert_array_equal(majority_cluster(dists), found.labels_ == 0)
            sizes.add((found.labels_ == 0).sum() / n)
    assert len(sizes) >= 10


def test_flame():
    for updates, server, rows in rounds():
        params = torch.from_numpy(np.random.default_rng(1).normal(size=50)).float()
        asked = replace(server, params=params)
        models = params.double().numpy() - server.step_size * rows
        agree(Flame(noise=0)(updates, asked), field.flame(rows, models))
        agree(Flame("updates", 0)(updates, asked), field.flame(rows, rows))


def test_the_noise_of_flame_is_a_share_of_the_median_norm():
    updates, server = skewed_round(0, d=20_000)
    still, noisy = Flame(noise=0)(updates, server), Flame(noise=0.01)(updates, server)
    noise = (noisy.vector - still.vector).double()
    assert noise.std() == pytest.approx(0.01 * float(updates.norms.median()), rel=0.05)
    assert abs(noise.mean()) < 5 * noise.std() / 20_000**0.5
    assert noisy.weights is None and torch.equal(noisy.accepted, still.accepted)


@pytest.mark.parametrize("confidence", [0.5, 1.0, 2.0])
def test_foolsgold(confidence):
    some = set()
    for updates, server, rows in rounds():
        weights = field.foolsgold_weights(rows, confidence)
        some |= {weight for weight in weights if 0 < weight < 1}
        agree(FoolsGold(confidence, history=False, scale="none")(updates, server), weights @ rows)
        agree(FoolsGold(confidence, history=False)(updates, server), weights @ rows / weights.sum())
    assert some


def test_foolsgold_remembers_every_client_s_updates():
    """Three rounds of ten clients out of twenty."""
    rng, memory, sums = np.random.default_rng(0), {}, np.zeros((20, 50))
    for seed in range(3):
        updates, server = skewed_round(seed, honest=8, wild=2)
        clients = np.sort(rng.choice(20, 10, replace=False))
        rows = updates.matrix.double().numpy()
        sums[clients] += rows
        asked = make_server(server.class_updates)
        aggregate = FoolsGold(scale="none")(updates, replace(asked, clients=torch.from_numpy(clients), memory=memory))
        agree(aggregate, field.foolsgold_weights(sums[clients]) @ rows, 1e-4)
        memory = aggregate.memory


def test_foolsgold_takes_no_client_that_opposes_all_others_for_a_sybil():
    honest = np.array([1.0, 0.2, -0.1])
    weights = FoolsGold(history=False)(Updates(torch.tensor(np.stack([honest, -honest, -honest]), dtype=torch.float32)),
                                       make_server(torch.zeros(2, 3))).weights  # fmt: skip
    assert weights.tolist() == [1, 0, 0]


def test_foolsgold_gives_copies_no_weight():
    updates, server = skewed_round(0)
    matrix = updates.matrix.clone()
    matrix[:F] = matrix[0]
    weights = FoolsGold(history=False)(Updates(matrix), server).weights
    assert weights[:F].sum() == 0 and weights.sum() == pytest.approx(1)
    memory: dict[str, torch.Tensor] = {}
    matrix[:F] = 3e38  # their sum is beyond float32
    for _ in range(3):
        found = FoolsGold()(Updates(matrix), replace(server, memory=memory))
        memory = found.memory
        assert found.weights[:F].sum() == 0 and found.weights[F:].sum() > 0
    with pytest.raises(ConfigError, match="foolsgold must know whose updates it gets"):
        FoolsGold()(updates, replace(server, clients=None))


@pytest.mark.parametrize("groups", [1, None, 20])
def test_median_of_means(groups):
    for updates, server, rows in rounds():
        parts = np.array_split(np.random.default_rng(5).permutation(20), groups or 2 * F + 1)
        expected = reference.geomed(np.array([rows[part].mean(axis=0) for part in parts]))
        agree(MedianOfMeans(F, groups)(updates, replace(server, rng=np.random.default_rng(5))), expected, 1e-4)


@pytest.mark.parametrize("threshold", [0.7, 5.0, 1e6])
def test_huber(threshold):
    for updates, server, rows in rounds():
        masses = np.random.default_rng(0).integers(1, 9, size=len(rows)).astype(float)
        counted = Updates(updates.matrix, torch.from_numpy(masses))
        agree(Huber(threshold)(counted, server), field.huber(rows, masses, threshold), 1e-4)
        agree(Huber(threshold, weighted=False)(counted, server), field.huber(rows, np.ones(len(rows)), threshold), 1e-4)


def test_huber_s_own_threshold_and_its_limits():
    for updates, server, rows in rounds():
        ones = np.ones(len(rows))
        agree(Huber()(updates, server), field.huber(rows, ones, field.medoid_distance(rows, ones)), 1e-4)
        agree(Huber(1e9)(updates, server), rows.mean(axis=0))
        agree(Huber(1e-9, max_iter=100_000)(updates, server), reference.geomed(rows), 1e-3)


@pytest.mark.parametrize("regularization", [0.5, 20.0, None, 1e9])
def test_autogm(regularization):
    dropped = set()
    for updates, server, rows in rounds():
        aggregate = AutoGm(regularization)(updates, server)
        agree(aggregate, field.autogm(rows, len(rows) if regularization is None else regularization), 1e-3)
        dropped.add(int((aggregate.weights == 0).sum()))
    assert (max(dropped) > 0) == (regularization != 1e9)


def test_cge_and_norm_bound():
    for updates, server, rows in rounds():
        agree(Cge(F)(updates, server), field.cge(rows, F))
        for bound in (3.0, 20.0):
            agree(NormBound(bound)(updates, server), np.mean([field.clipped(row, bound) for row in rows], axis=0))
        middle = float(np.median(np.linalg.norm(rows, axis=1)))
        agree(NormBound(None)(updates, server), np.mean([field.clipped(row, middle) for row in rows], axis=0))


@pytest.mark.parametrize("linkage", ["average", "single"])
def test_clipped_clustering(linkage):
    memory, norms = {}, []
    for updates, server, rows in rounds():
        norms += np.linalg.norm(rows, axis=1).tolist()
        aggregate = ClippedClustering(linkage)(updates, replace(server, memory=memory))
        agree(aggregate, field.clipped_clustering(rows, norms, linkage))
        capped = ClippedClustering(linkage, 2.0)(updates, replace(server, memory=memory))
        agree(capped, field.clipped_clustering(rows, norms, linkage, 2.0))
        memory = aggregate.memory


@pytest.mark.parametrize(
    ("sparsity", "length_limit", "sign_limit"), [(0.3, 1.0, 1.0), (0.0, 2.0, 0.5), (0.7, 0.8, 9.0)]
)
@pytest.mark.parametrize("boundary", [None, "dropped"])
def test_lasa(sparsity, length_limit, sign_limit, boundary):
    for updates, server, rows in rounds():
        layers = (23, 9, 18)
        aggregate = Lasa(sparsity, length_limit, sign_limit, boundary)(updates, replace(server, layers=layers))
        agree(aggregate, field.lasa(rows, layers, sparsity, length_limit, sign_limit, boundary))


@pytest.mark.parametrize("sparsity", [0.0, 0.3, 1.0])
def test_lasa_keeps_k_entries_and_its_authors_code_k_minus_1(sparsity):
    updates, server = skewed_round(0, honest=1, wild=0)
    kept, fewer = (Lasa(sparsity, boundary=b)(updates, server).vector.count_nonzero() for b in (None, "dropped"))
    assert (kept, fewer) == {0.0: (50, 50), 0.3: (35, 34), 1.0: (0, 0)}[sparsity]


def test_lasa_keeps_the_entries_of_an_update_whose_entries_are_all_of_one_size():
    updates, server = skewed_round(0, honest=4, wild=0)
    matrix = updates.matrix.clone()
    matrix[0] = 0.5 * matrix[1].sign()
    assert Lasa()._least(Updates(matrix))[0] == 0.5
    alone = Lasa()(Updates(matrix[:1]), server).vector
    assert torch.equal(alone, matrix[0]), "all are as large as the last that is kept"


# --- pre-aggregations -----------------------------------------------------------------------------------------------


def test_pre_aggregations():
    for updates, _, rows in rounds():
        for f in (0, 1, F):
            mixed = Nnm(f)(updates, np.random.default_rng(0))
            np.testing.assert_allclose(mixed.matrix.numpy(), field.nnm(rows, f), rtol=1e-4, atol=1e-5)
            mixed = Arc(f)(updates, np.random.default_rng(0))
            np.testing.assert_allclose(mixed.matrix.numpy(), field.arc(rows, f), rtol=1e-5, atol=1e-5)
        mixed = Clipping(4.0)(updates, np.random.default_rng(0))
        expected = np.array([field.clipped(row, 4.0) for row in rows])
        np.testing.assert_allclose(mixed.matrix.numpy(), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(mixed.gram.numpy(), expected @ expected.T, rtol=1e-5, atol=1e-5)


STEPS = {
    "clipping": (Clipping(4.0), lambda rows, rng: np.array([field.clipped(row, 4.0) for row in rows])),
    "arc": (Arc(F), lambda rows, rng: field.arc(rows, F)),
    "nnm": (Nnm(F), lambda rows, rng: field.nnm(rows, F)),
    "bucketing": (Bucketing(2), lambda rows, rng: reference.bucket_means(rows, rng.permutation(len(rows)), 2)),
}


@pytest.mark.parametrize("names", ["clipping nnm", "nnm clipping", "arc bucketing nnm", "bucketing arc"])
def test_a_chain_passes_on_what_each_step_makes(names):
    steps = [STEPS[name] for name in names.split()]
    for updates, server, rows in rounds():
        mixed = Chain(tuple(step for step, _ in steps))(updates, np.random.default_rng(5))
        rng = np.random.default_rng(5)
        for _, slow in steps:
            rows = slow(rows, rng)
        np.testing.assert_allclose(mixed.matrix.numpy(), rows, rtol=1e-4, atol=1e-5)
        for rule in (CooMed(), TrMean(2), CenteredClipping(), ChebyshevMean()):
            expected = rule(Updates(torch.from_numpy(rows).float()), server)
            torch.testing.assert_close(rule(mixed, server).vector, expected.vector, rtol=1e-3, atol=1e-4)


def test_weights_behind_a_chain_are_those_of_the_clients():
    updates, server = skewed_round(0)
    mixed = Chain((Clipping(4.0), Bucketing(2)))(updates, np.random.default_rng(5))
    aggregate = Krum(1)(mixed, server)
    assert aggregate.weights.shape == (20,) and (aggregate.weights > 0).sum() == 2
    agree(aggregate, aggregate.weights.numpy() @ updates.matrix.double().numpy())


# --- bad settings ---------------------------------------------------------------------------------------------------


def test_too_few_clients_are_refused_before_the_run():
    least = {"bulyan": 15, "meamed": 7, "mda": 7, "smea": 7, "caf": 7, "monna": 4, "cge": 4, "dnc": 4}
    least |= {
        "winsorized_mean": 7,
        "magnitude_trmean": 7,
        "history_trmean": 7,
        "clipped_trmean": 7,
        "median_of_means": 7,
    }
    for name, n in least.items():
        rule = build("aggregator", name)
        with pytest.raises(ConfigError, match=rf"needs n >=? .*, got n={n - 1}, f=3"):
            rule.check(n - 1)
        rule.check(n)
    with pytest.raises(ConfigError, match=r"SMEA would try 4.19e\+15 sets of clients a round .* got n=60, f=20"):
        Smea(20).check(60)
    with pytest.raises(ConfigError, match=r"num_byzantine must be in \[0, 30\], got 31"):
        Mda(31)
    with pytest.raises(ConfigError, match="trusted must be < n, got trusted=20, n=20"):
        Monna(3, trusted=20).check(20)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CenteredClipping(-1.0), "radius must be >= 0"),
        (lambda: CenteredClipping(steps=0), "steps must be >= 1"),
        (lambda: CenteredClipping(per_layer="yes"), "per_layer must be true or false"),
        (lambda: Bulyan(1, "twice"), "selection must be one of repeated, once"),
        (lambda: MeaMed(1, "upper"), "even must be one of mean, lower"),
        (lambda: SignGuard(similarity="dot"), "similarity must be one of none, cosine, distance"),
        (lambda: FoolsGold(scale="mean"), "scale must be one of sum, none"),
        (lambda: Flame("gradients"), "compare must be one of models, updates"),
        (lambda: ClippedClustering("ward"), "linkage must be one of average, single"),
        (lambda: Lasa(1.5), r"sparsity must be in \[0, 1\]"),
        (lambda: Lasa(boundary="kept"), "boundary must be one of dropped, got 'kept'"),
        (lambda: SignGuard(seeding="grid"), "seeding must be one of bins, got 'grid'"),
        (lambda: Huber(0.0), "threshold must be >= 1e-100"),
        (lambda: AutoGm(0.0), "regularization must be >= 1e-100"),
        (lambda: Clipping(-1.0), "radius must be >= 0"),
        (lambda: Nnm(1.5), "num_byzantine must be a whole number"),
    ],
)
def test_bad_settings_are_refused(make, message):
    refused(make, message)


@pytest.mark.parametrize("rule", [FoolsGold(), FlDetector(Average(), window=2)])
def test_a_client_that_joins_is_one_that_has_sent_nothing(rule):
    """In the server of another framework, which gets to know its clients one after the other."""
    rng = np.random.default_rng(0)
    late, early = (FrameworkServer(RuleAlone(rule, None, 0, str), 1.0) for _ in range(2))
    early.meet(range(7))
    for number in range(9):
        clients = list(range(5)) if number < 3 else list(range(7))
        sent = [(row, 1.0) for row in rng.normal(size=(len(clients), 6)).astype(np.float32)]
        params = torch.from_numpy(rng.normal(size=6)).float()
        moved = [server.step(number, clients, sent, (4, 2), params=params) for server in (late, early)]
        assert moved[0].any() and np.array_equal(*moved)


def test_fldetector_keeps_what_its_rule_remembers_while_all_participants_are_removed():
    updates, server = skewed_round(0)
    n = len(updates.matrix)
    known, dim = len(server.counts), updates.matrix.shape[1]
    memory = {"removed": torch.ones(known, dtype=torch.bool), "rule_sums": torch.ones(known, dim)}
    found = FlDetector(FoolsGold())(updates, replace(server, clients=torch.arange(n), memory=memory))
    assert not found.vector.any() and {*found.memory} == {"removed", "rule_sums"}
