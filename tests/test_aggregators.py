"""The rules: what each promises, and agreement with its slow version."""

import math
import re
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch

from robustfl_bench.doors.testing import PROMISES, attacked_rounds, check_aggregator, honest_radii
from robustfl_bench.interfaces import ConfigError
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.boba import Boba
from robustfl_bench.parts.aggregators.bygars import ByGars
from robustfl_bench.parts.aggregators.coomed import CooMed
from robustfl_bench.parts.aggregators.geomed import GeoMed
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.aggregators.rage import Rage
from robustfl_bench.parts.aggregators.server_mix import ServerMix
from robustfl_bench.parts.aggregators.trmean import TrMean
from robustfl_bench.parts.aggregators.zeno import Zeno
from robustfl_bench.parts.pre_aggregations.bucketing import Bucketing
from tests import reference
from tests.rounds import agree, build, fewest, make_server, names, refused, skewed_round

AGGREGATORS = names("aggregator")
F = 3


@cache
def rule(name):
    return build("aggregator", name, num_byzantine=F)


def test_every_config_is_seen():
    assert len(AGGREGATORS) >= 30
    assert {"bucketing", "nnm", "none"} <= set(names("pre_aggregation"))


@pytest.mark.parametrize("name", [name for name in AGGREGATORS if name != "boba_es"])
def test_contract(name):
    """At n = 2f + 3 and a larger n."""
    check_aggregator(rule(name), F)


@pytest.mark.parametrize("name", [name for name in AGGREGATORS if name != "boba_es"])
def test_the_order_of_clients_has_no_influence_where_they_are_fewest(name):
    """At the smallest n that a rule accepts, the last of Krum's selections compare one distance."""
    for f in (1, 2, 3, 5):
        tested = build("aggregator", name, num_byzantine=f)
        if "order" in tested.exempt:
            pytest.skip(tested.exempt["order"])
        n = fewest(tested, f)
        for seed in range(4):
            updates, server = skewed_round(seed, honest=n - f, wild=f, d=20)
            order = torch.from_numpy(np.random.default_rng(seed).permutation(n))
            turned = replace(server, clients=server.clients[order], counts=server.counts[order])
            vectors = [
                tested(given, replace(asked, rng=np.random.default_rng(seed))).vector
                for given, asked in ((updates, server), (Updates(updates.matrix[order]), turned))
            ]
            torch.testing.assert_close(*vectors, rtol=1e-3, atol=1e-4, msg=lambda words, f=f: f"f = {f}: {words}")


@pytest.mark.slow
def test_contract_of_the_exhaustive_search():
    check_aggregator(rule("boba_es"), F, clients=10)


@pytest.mark.parametrize("name", AGGREGATORS)
def test_weights_are_the_clients_coefficients(name):
    updates, server = skewed_round(seed=1)
    aggregate = rule(name)(updates, server)
    if aggregate.weights is not None:
        share = rule(name).server_weight if name == "server_mix" else 1.0 if name == "server" else 0.0
        from_clients = aggregate.weights @ updates.matrix.double()
        expected = from_clients + share * server.class_updates.double().mean(dim=0)
        torch.testing.assert_close(aggregate.vector.double(), expected, rtol=1e-4, atol=1e-4)


def test_exemptions_stand_on_the_rules_and_are_true():
    """A rule that is exempt from robustness is moved by some attackers; the others are not, says the contract."""
    honest = skewed_round(seed=1, wild=0)[0].matrix
    found = 0
    for name in AGGREGATORS:
        exempt = rule(name).exempt
        assert set(exempt) <= set(PROMISES) and all(exempt.values())
        if "robust" in exempt and "scale" not in exempt:
            moved = (
                honest_radii(rule(name)(Updates(rows), make_server(honest[:4])).vector, rows[who], 20, F)
                for rows, who, _ in attacked_rounds(honest, F)
            )
            assert max(moved) > 1, name
            found += 1
    assert found >= 7


@dataclass(frozen=True)
class Drifting(CooMed):
    """A median that breaks one promise, and only after the first round."""

    promise: str = ""

    @property
    def exempt(self):
        return dict.fromkeys({"unanimous", "translation", "scale", "robust"} - {self.promise}, "not tested here")

    def aggregate(self, updates, server):
        middle, last = super().aggregate(updates, server).vector, server.previous
        if last is None:
            return Aggregate(middle)
        broken = {"unanimous": (middle + last) / 2, "translation": middle + last, "scale": middle + last.sign()}
        return Aggregate(broken.get(self.promise, middle * math.inf))


@pytest.mark.parametrize("promise", ["unanimous", "translation", "scale", "finite"])
def test_promises_are_checked_after_the_first_round_too(promise):
    with pytest.raises(AssertionError, match=f"Drifting: {promise}: .*(round 2|after a round)"):
        check_aggregator(Drifting(promise=promise), F)


@pytest.mark.parametrize("name", ["brace", "rlr", "rsa", "signsgd"])
def test_rules_that_count_signs_are_bounded_whatever_is_sent(name):
    honest = skewed_round(seed=1, wild=0)[0].matrix
    for rows, _, case in attacked_rounds(honest, F):
        bound = 0.005 * 20 if name == "rsa" else 1
        assert rule(name)(Updates(rows), None).vector.abs().max() <= bound + 1e-6, case


@pytest.mark.parametrize("name", AGGREGATORS)
def test_one_client_alone(name):
    """A rule for which one client is too few says so in one line; the others return a finite vector."""
    _, server = skewed_round(seed=6)
    alone = Updates(torch.linspace(-1, 1, 50)[None])
    lone = build("aggregator", name, num_byzantine=0)
    needs_more = name in ("krum", "mkrum", "b_krum", "b_mkrum")
    try:
        assert lone(alone, replace(server, clients=torch.arange(1))).vector.isfinite().all() and not needs_more
    except ConfigError as error:
        reason = str(error)
        assert re.search(r"n > f \+ 2, got n=1, f=0$" if needs_more else r"got n=1\b", reason) and "\n" not in reason


# --- against the slow versions -------------------------------------------------------------------------------------


def instances(count=5, **shape):
    for seed in range(count):
        updates, server = skewed_round(seed, **shape)
        yield updates, server, updates.matrix.double().numpy(), server.class_updates.double().numpy()


def test_the_inputs_tell_rules_apart():
    for _, _, rows, _ in instances():
        results = [rows.mean(axis=0), reference.coomed(rows), reference.trmean(rows, F), reference.krum(rows, F)]
        results += [reference.krum(rows, F, len(rows) - F), reference.geomed(rows)]
        results += [reference.rage(rows, F, power) for power in (1, 2)]
        results.sort(key=lambda vector: vector[0])
        assert min(np.linalg.norm(a - b) for a, b in pairwise(results)) > 0.05


@pytest.mark.parametrize("honest", [17, 16])
def test_coordinate_wise_rules(honest):
    for updates, server, rows, _ in instances(honest=honest):
        agree(CooMed()(updates, server), reference.coomed(rows))
        agree(TrMean(F)(updates, server), reference.trmean(rows, F))


def test_lower_median():
    updates, server = skewed_round(0)
    expected = updates.matrix.median(dim=0).values
    assert torch.equal(CooMed(even="lower")(updates, server).vector, expected)
    assert not torch.equal(CooMed()(updates, server).vector, expected)


@pytest.mark.parametrize("selected", [1, 5, None])
def test_krum(selected):
    for updates, server, rows, _ in instances():
        agree(Krum(F, selected)(updates, server), reference.krum(rows, F, selected or len(rows) - F))


def test_krum_ties_go_to_the_first():
    matrix = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    aggregate = Krum(0)(Updates(matrix), skewed_round(0)[1])
    assert aggregate.weights.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_geomed():
    for updates, server, rows, _ in instances():
        agree(GeoMed()(updates, server), reference.geomed(rows))


def test_geomed_at_a_client():
    """The median may be one of the clients, and the iteration may start on a client that is not the median."""
    server = skewed_round(0)[1]
    crowd = torch.tensor([[3.0, 4.0]] * 4 + [[0.0, 0.0], [1.0, 9.0], [-5.0, 2.0]])
    torch.testing.assert_close(GeoMed()(Updates(crowd), server).vector, crowd[0])
    start = torch.tensor([[0.0, 0.0], [4.0, 0.0], [-1.0, 0.1], [-1.0, -0.1], [-1.0, 0.2], [-1.0, -0.2]])
    assert start.mean(dim=0).norm() == 0
    agree(GeoMed()(Updates(start), server), reference.geomed(start.double().numpy()), 1e-4)


def test_geomed_of_nearly_equal_clients():
    """Updates that agree to one part in a hundred thousand; float32 distances would be noise."""
    rng = np.random.default_rng(0)
    matrix = torch.from_numpy(100 + 1e-3 * rng.standard_cauchy(size=(15, 40))).float()
    rows = matrix.double().numpy()
    vector = GeoMed()(Updates(matrix), skewed_round(0)[1]).weights.numpy() @ rows
    assert np.linalg.norm(vector - reference.geomed(rows)) < 1e-4 * np.linalg.norm(rows - rows.mean(axis=0))


def test_fltrust():
    for updates, server, rows, _ in instances():
        agree(build("aggregator", "fltrust")(updates, server), reference.fltrust(rows, server.update.double().numpy()))


def test_fltrust_without_trust_returns_zero():
    updates, server = skewed_round(0)
    against = Updates(torch.stack([-server.update, torch.zeros(updates.d)]))
    assert build("aggregator", "fltrust")(against, server).vector.norm() == 0


def attacked(seed):
    """A round whose attack goes by the seed: noise, label distributions no client can have, opposite, copies, none."""
    kind = seed % 5
    updates, server = skewed_round(seed, honest=21, wild=5, scale=(0.0, 0.0, 10.0, 0.0, -1.0)[kind])
    rng, matrix = np.random.default_rng(seed), updates.matrix.clone()
    if kind == 0:
        matrix[:5] = torch.from_numpy(rng.normal(size=(5, updates.d)) * math.sqrt(200)).float()
    if kind == 1:
        mean = matrix[5:].mean(dim=0)
        matrix[:5] = mean + 5 * (matrix[5:10] - mean)
    if kind == 3:
        matrix[:5] = matrix[5]
    return Updates(matrix), server


def test_boba_is_the_direct_svd():
    """Same accepted clients and aggregate as the d-dimensional SVD, on 100 rounds with attackers."""
    rejections = 0
    for seed in range(100):
        updates, server = attacked(seed)
        rows, classes = updates.matrix.double().numpy(), server.class_updates.double().numpy()
        expected, accepted = reference.boba_stage2(rows, classes, 5, *reference.boba_stage1(rows, classes, 5))
        aggregate = Boba(5)(updates, server)
        assert set(aggregate.accepted.nonzero().flatten().tolist()) == accepted
        agree(aggregate, expected, 1e-4)
        rejections += updates.n - len(accepted)
    assert 150 < rejections < 500


@pytest.mark.parametrize("p_min", [-1.0, -0.2, 0.0])
def test_boba_thresholds(p_min):
    for seed in range(10):
        updates, server = attacked(seed)
        rows, classes = updates.matrix.double().numpy(), server.class_updates.double().numpy()
        expected, _ = reference.boba_stage2(rows, classes, 5, *reference.boba_stage1(rows, classes, 5), p_min)
        agree(Boba(5, p_min=p_min)(updates, server), expected, 1e-4)


def test_boba_ablations():
    for updates, server, rows, classes in instances():
        fits = reference.svd_fit(classes, len(classes) - 1)
        agree(Boba(F, fit="server")(updates, server), reference.boba_stage2(rows, classes, F, *fits)[0], 1e-4)
        mean, axes = reference.boba_stage1(rows, classes, F)
        everyone = mean + axes.T @ (axes @ (rows.mean(axis=0) - mean))
        agree(Boba(F, stage2=False)(updates, server), everyone, 1e-4)
        last = reference.svd_fit(rows[F:], len(classes) - 1)
        expected = reference.boba_stage2(rows, classes, F, *last)[0]
        agree(Boba(F, fit="exhaustive", es_subspace="last")(updates, server), expected, 1e-4)


def test_boba_and_the_exhaustive_search():
    """Alternation is seldom far from the best subset (Fig. 5 of the paper): loss ratio at least 1, rarely above 1.2."""
    ratios = []
    for seed in range(40):
        kind = seed % 4
        updates, server = skewed_round(seed, honest=9, wild=2, scale=(10.0, 1.0, 0.3, -1.0)[kind])
        rows, classes = updates.matrix.double().numpy(), server.class_updates.double().numpy()
        best = Boba(2, fit="exhaustive")
        ratios.append(Boba(2).trimmed_loss(updates, server) / best.trimmed_loss(updates, server))
        expected = reference.boba_stage2(rows, classes, 2, *reference.boba_exhaustive(rows, classes, 2))[0]
        agree(best(updates, server), expected, 1e-4)
    assert min(ratios) >= 1 - 1e-9
    assert max(ratios) > 1 + 1e-6
    assert sum(ratio > 1.2 for ratio in ratios) <= 4


def test_boba_with_coinciding_classes():
    """Classes that cannot be told apart make the paper's linear system singular; they share their clients' weight."""
    updates, server = skewed_round(0)
    classes = server.class_updates.clone()
    classes[1] = classes[0]
    aggregate = Boba(F)(updates, make_server(classes))
    assert aggregate.vector.isfinite().all()
    assert not aggregate.accepted[:F].any()


def test_boba_does_not_depend_on_units():
    updates, server = skewed_round(0)
    small = Boba(F)(Updates(updates.matrix * 1e-12), make_server(server.class_updates * 1e-12)).vector
    torch.testing.assert_close(small * 1e12, Boba(F)(updates, server).vector, rtol=1e-4, atol=1e-4)


def model(server):
    """The server's functions and numbers, in NumPy."""
    update = server.update.double().numpy()
    return (lambda w: float(np.sum((w + update) ** 2) / 2)), (lambda w: w + update), np.zeros(len(update))


@pytest.mark.parametrize("step_size", [0.1, 0.9])
def test_loss_based_rules(step_size):
    results = set()
    for updates, server, rows, classes in instances(scale=0.2):
        server = make_server(torch.from_numpy(classes).float(), step_size)
        loss, _, params = model(server)
        agree(build("aggregator", "selfrej")(updates, server), reference.selfrej(rows, F, loss, params, step_size))
        agree(build("aggregator", "avgrej")(updates, server), reference.avgrej(rows, F, loss, params, step_size))
        expected = reference.zeno(rows, F, loss, params, step_size, 0.3)
        agree(Zeno(F, rho=0.3)(updates, server), expected)
        expected = reference.zeno(rows, F, loss, params, step_size, 3.0, mean=True)
        agree(Zeno(F, rho=3.0, penalty="mean")(updates, server), expected)
        rules = (build("aggregator", "selfrej"), build("aggregator", "avgrej"), Zeno(F, rho=0.3))
        results |= {rule(updates, server).vector.sum().item() for rule in rules}
    assert len(results) > 5  # the rules choose differently


def test_losses_in_blocks(monkeypatch):
    """Blocks of models change nothing but the memory needed."""
    updates, server = skewed_round(0)
    whole = [build("aggregator", name)(updates, server).vector for name in ("selfrej", "avgrej")]
    monkeypatch.setattr("robustfl_bench.numerics.server_scores.MODEL_BLOCK", 3 * updates.d)
    parts = [build("aggregator", name)(updates, server).vector for name in ("selfrej", "avgrej")]
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))


@pytest.mark.parametrize("normalize", ["cosine", "updates", "products", "none"])
@pytest.mark.parametrize(("start", "chain_rule"), [("zero", True), ("uniform", False)])
def test_bygars(normalize, start, chain_rule):
    for updates, server, rows, _ in instances():
        _, gradient, params = model(server)
        first = 0.0 if start == "zero" else 1 / len(rows)
        rate = 1e-3 * server.step_size if chain_rule else 1e-3
        expected = reference.bygars(rows, gradient, params, server.step_size, 3, rate, first, normalize)
        agree(ByGars(3, 1e-3, start, normalize, chain_rule)(updates, server), expected)


@pytest.mark.parametrize(("deviation", "power"), [("absolute", 1), ("squared", 2)])
def test_rage(deviation, power):
    for updates, server, rows, _ in instances():
        agree(Rage(F, deviation)(updates, server), reference.rage(rows, F, power), 1e-4)


def test_rage_when_nobody_is_an_outlier():
    """Two camps of equal size: every pass would reject everybody, so none is made."""
    camps = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
    assert Rage(3)(Updates(camps), skewed_round(0)[1]).weights.tolist() == [0.25] * 4


def test_bucketing():
    updates, server = skewed_round(0)
    rows = updates.matrix.double().numpy()
    for size in (1, 2, 3):
        order = np.random.default_rng(7).permutation(updates.n)
        means = reference.bucket_means(rows, order, size)
        mixed = Bucketing(size)(updates, np.random.default_rng(7))
        np.testing.assert_allclose(mixed.matrix.numpy(), means, rtol=1e-4, atol=1e-5)
        expected = Updates(torch.from_numpy(means).float())
        torch.testing.assert_close(mixed.sq_dists, expected.sq_dists, rtol=1e-4, atol=1e-4)
        for inner in (CooMed(), Krum(1, None), GeoMed(), Boba(1)):
            torch.testing.assert_close(inner(mixed, server).vector, inner(expected, server).vector)
    weights = Krum(1)(Bucketing(2)(updates, np.random.default_rng(7)), server).weights
    assert sorted(weights.tolist())[-3:] == [0.0, 0.5, 0.5]
    accepted = Boba(1)(Bucketing(2)(updates, np.random.default_rng(7)), server).accepted
    assert accepted.shape == (20,)


def test_bucketed_krum_runs_where_krum_alone_is_refused():
    """80 buckets and f = 60, the published setting of AG-News without attackers."""
    rng = np.random.default_rng(0)
    updates = Updates(torch.from_numpy(rng.normal(size=(160, 5))).float())
    bucketed = build("aggregator", "b_mkrum", num_byzantine=60)
    bucketed.check(160)
    chosen = bucketed(updates, skewed_round(0)[1]).weights
    assert (chosen > 0).sum() == 2 * 20
    with pytest.raises(ConfigError, match=r"n > f \+ 2, got n=80, f=79"):
        build("aggregator", "b_mkrum", num_byzantine=79)(updates, skewed_round(0)[1])


@pytest.mark.parametrize("inner", ["krum", "trmean", "geomed", "boba"])
def test_server_mix(inner):
    updates, server = skewed_round(0)
    mixed = build("aggregator", "server_mix", f"aggregator@aggregator.rule={inner}", "aggregator.server_weight=0.75")
    expected = 0.25 * rule(inner)(updates, server).vector + 0.75 * server.class_updates.mean(dim=0)
    torch.testing.assert_close(mixed(updates, server).vector, expected)


# --- bad settings ---------------------------------------------------------------------------------------------------


def test_too_few_clients_are_refused_before_the_run():
    refusals = {"krum": 8, "mkrum": 8, "trmean": 6, "boba": 3, "selfrej": 3, "avgrej": 3, "zeno": 3, "server_mix": 6}
    for name, n in refusals.items():
        with pytest.raises(ConfigError, match=rf"needs n > .*, got n={n}, f=3"):
            rule(name).check(n)
        rule(name).check(n + 1)
    with pytest.raises(ConfigError, match=r"Krum needs n > 2f \+ 2, got n=8, f=3"):
        rule("krum").check(8)
    with pytest.raises(ConfigError, match=r"would fit .* subspaces a round"):
        Boba(16, fit="exhaustive").check(115)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Krum(-1), "num_byzantine must be >= 0"),
        (lambda: Krum(2, 0), "num_selected must be >= 1"),
        (lambda: Krum(2, 1.5), "num_selected must be a whole number"),
        (lambda: Krum("3"), "num_byzantine must be a whole number"),
        (lambda: CooMed("upper"), "even must be one of mean, lower"),
        (lambda: TrMean(0.5), "num_byzantine must be a whole number"),
        (lambda: GeoMed(eps=math.nan), "eps must be >= 0"),
        (lambda: Boba(1, p_min=0.5), "p_min must be in"),
        (lambda: Boba(1, fit="greedy"), "fit must be one of"),
        (lambda: Boba(1, stage2="no"), "stage2 must be true or false"),
        (lambda: Zeno(1, penalty="l1"), "penalty must be one of"),
        (lambda: ByGars(start="one"), "start must be one of"),
        (lambda: ByGars(normalize=True), "normalize must be one of"),
        (lambda: Rage(1, "cubed"), "deviation must be one of"),
        (lambda: ServerMix(CooMed(), 1.5), "server_weight must be in"),
        (lambda: Bucketing(0), "bucket_size must be >= 1"),
    ],
)
def test_bad_settings_are_refused(make, message):
    refused(make, message)


@pytest.mark.filterwarnings("error")
def test_the_checks_of_a_rule_print_no_warnings_of_this_package() -> None:
    check_aggregator(CooMed())
