"""Resilience without training: what the search finds lies between what no rule can beat and what is proven."""

import csv
import itertools
import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from robustfl_bench.commands.lab import resilience as command
from robustfl_bench.interfaces import Aggregator, PreAggregation
from robustfl_bench.lab.studies import bounds
from robustfl_bench.lab.studies.inputs import AttackersFirst, Rule, gaussian, of_round, without_data
from robustfl_bench.lab.studies.measure import breakdown, resilience
from robustfl_bench.lab.studies.search import diameter_of, kappas, search, spread_of, worst_inputs
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.average import Average
from robustfl_bench.parts.aggregators.caf import Caf
from robustfl_bench.parts.aggregators.coomed import CooMed
from robustfl_bench.parts.aggregators.fltrust import FLTrust
from robustfl_bench.parts.aggregators.geomed import GeoMed
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.aggregators.mda import Mda
from robustfl_bench.parts.aggregators.meamed import MeaMed
from robustfl_bench.parts.aggregators.smea import Smea
from robustfl_bench.parts.aggregators.trmean import TrMean
from robustfl_bench.parts.pre_aggregations.arc import Arc
from robustfl_bench.parts.pre_aggregations.bucketing import Bucketing
from robustfl_bench.parts.pre_aggregations.chain import Chain
from robustfl_bench.parts.pre_aggregations.clipping import Clipping
from robustfl_bench.parts.pre_aggregations.nnm import Nnm
from robustfl_bench.runner.config import compose
from tests.conftest import Bench

KEPT = Path(__file__).parents[1] / "results" / "resilience"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search with few strengths, for tests of what is around it."""
    module = import_module("robustfl_bench.lab.studies.search")
    monkeypatch.setattr(module, "STRENGTHS", (1.0, 1e4))
    monkeypatch.setattr(module, "FACTORS", (1.0,))


BOUNDED: dict[str, Callable[[int], Aggregator]] = {
    "coomed": lambda f: CooMed(), "trmean": TrMean, "krum": Krum, "geomed": lambda f: GeoMed(), "meamed": MeaMed,
    "mda": Mda, "smea": Smea, "caf": Caf,
}  # fmt: skip
BEHIND: dict[str, Callable[[int], PreAggregation | None]] = {
    "alone": lambda f: None,
    "nnm": Nnm,
    "arc": Arc,
    "bucketing": lambda f: Bucketing(2),
    "bucketing, arc, nnm": lambda f: Chain((Bucketing(2), Arc(f), Nnm(f))),
}
ROUNDING = 1 + 1e-5  # the aggregate is float32, and some bounds are reached


def rule(name: str, f: int) -> Aggregator:
    return BOUNDED[name](f)


def diameter(rows: Any) -> float:
    return max(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(rows, 2))


@pytest.mark.parametrize("name", BOUNDED)
def test_kappa_is_the_definition_for_one_set_and_the_largest_of_all_sets_stays_below_the_bound(name: str) -> None:
    rng, n, f = np.random.default_rng(0), 7, 2
    aggregate, made_for = Rule(rule(name, f), None, without_data, n), (rule(name, f), None, n, f)
    proven, resilience = bounds.proven(*made_for), bounds.proven_resilience(*made_for)
    assert proven is not None and resilience is not None
    for _ in range(5):
        rows = rng.normal(size=(n, 3)) * rng.uniform(0.1, 10, size=(n, 1))
        made, largest, longest = aggregate(rows), 0.0, 0.0
        for chosen in itertools.combinations(range(n), n - f):
            mean = sum(rows[i] for i in chosen) / (n - f)
            spread = sum(((rows[i] - mean) ** 2).sum() for i in chosen) / (n - f)
            largest = max(largest, ((made - mean) ** 2).sum() / spread)
            longest = max(longest, float(np.linalg.norm(made - mean)) / diameter(rows[list(chosen)]))
        assert 0 < largest <= proven * ROUNDING and 0 < longest <= resilience * ROUNDING
        honest, sent = rows[f:], rows[:f]  # attackers come first
        expected = ((made - honest.mean(axis=0)) ** 2).sum() / spread_of(honest) ** 2
        assert kappas(aggregate, honest, [sent]) == pytest.approx([expected], rel=1e-5)
        assert diameter_of(rows) == pytest.approx(diameter(rows))


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("behind", BEHIND)
def test_what_is_found_lies_between_the_least_and_the_proven(name: str, behind: str) -> None:
    n, f = (14, 2) if "bucketing" in behind else (7, 2)
    made, front = rule(name, f), BEHIND[behind](f)
    proven, resilience = bounds.proven(made, front, n, f), bounds.proven_resilience(made, front, n, f)
    assert proven is not None and resilience is not None
    aggregate = Rule(made, front, without_data, n)
    given = search(aggregate, np.random.default_rng(0).normal(size=(n - f, 4)), f, np.random.default_rng(1), steps=5)
    worst = worst_inputs(aggregate, n, f, np.random.default_rng(1), steps=20)
    assert 0 < given.kappa <= proven * ROUNDING and 0 < given.resilience <= resilience * ROUNDING
    assert 0.999 * bounds.least(n, f) <= worst.kappa <= proven * ROUNDING
    assert 0.999 * f / (n - f) <= worst.resilience <= resilience * ROUNDING


@pytest.mark.parametrize("name", ["coomed", "krum", "geomed"])
def test_the_search_finds_what_three_groups_of_honest_clients_do_behind_nnm(name: str) -> None:
    """Two at 0, one in the middle, two at 1, and attackers almost at 2: kappa is 3.2, where two groups have 2.6."""
    aggregate = Rule(rule(name, 2), Nnm(2), without_data, 7)
    worst = worst_inputs(aggregate, 7, 2, np.random.default_rng(0))
    assert worst.kappa >= 3.19 and worst.calls <= 771, "no more calls than before"
    honest = np.repeat([0.0, 0.5, 1.0], [2, 1, 2])[:, None]
    assert kappas(aggregate, honest, [np.full((2, 1), 1.9999)]) == pytest.approx([3.2], rel=1e-3)


@pytest.mark.parametrize(("n", "f"), [(9, 1), (9, 4), (15, 3), (21, 7)])
@pytest.mark.parametrize("name", ["coomed", "trmean"])
def test_the_search_reaches_kappa_where_it_is_known_exactly(name: str, n: int, f: int) -> None:
    expected = bounds.proven(rule(name, f), None, n, f)
    worst = worst_inputs(Rule(rule(name, f), None, without_data, n), n, f, np.random.default_rng(0), steps=30)
    assert worst.kappa == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", ["coomed", "trmean"])
def test_the_search_finds_the_worst_attack_on_given_updates_of_rules_that_act_by_coordinate(name: str) -> None:
    n, f, d = 9, 3, 5
    honest = np.random.default_rng(2).normal(size=(n - f, d)) + 3
    aggregate = Rule(rule(name, f), None, without_data, n)
    found = search(aggregate, honest, f, np.random.default_rng(0), steps=1)
    sides = itertools.product((-1e4, 1e4), repeat=d)
    worst = kappas(aggregate, honest, [np.tile(np.array(side), (f, 1)) for side in sides]).max()
    assert found.kappa == pytest.approx(worst, rel=1e-3)


def test_the_proven_bounds_by_hand() -> None:
    n, f, m = 15, 3, 12
    caf = math.sqrt(1 / 3) + math.sqrt(2) * 4 / 3 * (math.sqrt(0.6 / 3) + math.sqrt(0.4))
    mda = 3 * math.sqrt(2 / 12) + math.sqrt(1 / 3)
    expected = {"coomed": 14 / 10, "trmean": 1 / 3, "krum": 6 * 12 / 8, "geomed": 4 * (12 / 9) ** 2, "smea": 4 / 3}
    expected |= {"meamed": 4 * 3 / 12 * (1 + 14 / 10), "mda": mda**2, "caf": caf**2}
    assert set(expected) == set(BOUNDED)
    for name, value in expected.items():
        assert bounds.proven(rule(name, f), None, n, f) == pytest.approx(value)
        assert bounds.proven(rule(name, f), Nnm(f), n, f) == pytest.approx(2 * (value + 1))
        assert bounds.proven(rule(name, f), Arc(f), n, f) == pytest.approx(
            value + 4 / 8
        )  # of 12, floor(4.8) are clipped
        direct = {"mda": 6 / 12, "geomed": 11 / math.sqrt(15 * 9)}.get(name, math.inf)
        expected_resilience = min(math.sqrt(value * 11 / 24), direct)
        assert bounds.proven_resilience(rule(name, f), None, n, f) == pytest.approx(expected_resilience)
    assert bounds.proven(CooMed(), Bucketing(3), n, f) is None, "3 of 5 buckets are no minority"
    assert bounds.proven(CooMed(), Bucketing(3), n, 1) == pytest.approx((14 * 4 / 4 + 2) / 12)
    assert bounds.proven(CooMed(), Bucketing(2), n, 1) is None, "the last bucket is smaller"
    assert bounds.proven(CooMed(), None, 16, f) == pytest.approx(16 / 10)
    for unknown in (Average(), TrMean(2), Krum(f, num_selected=2), Mda(2), Smea(2), Caf(2), MeaMed(2)):
        assert bounds.proven(unknown, None, n, f) is bounds.proven(unknown, Nnm(f), n, f) is None
        assert bounds.proven_resilience(unknown, None, n, f) is None
    assert bounds.proven(CooMed(), Nnm(2), n, f) is bounds.proven(CooMed(), Clipping(), n, f) is None
    assert bounds.least(n, f) == pytest.approx(1 / 3)
    assert all(bounds.proven(rule(name, 0), None, m, 0) == 0 for name in ("trmean", "meamed", "smea", "mda", "caf"))


@pytest.mark.usefixtures("short")
def test_the_average_has_no_kappa_and_a_rule_breaks_where_it_trims_too_little() -> None:
    inputs = gaussian(9, 4)
    found = resilience(lambda f: (Average(), None), inputs, 1, steps=5)
    assert (found.kappa, found.kappa_any, found.breakdown) == (math.inf, math.inf, 0)
    assert found.bias == pytest.approx(0, abs=1e-5)
    calm = resilience(lambda f: (Average(), None), inputs, 0, steps=5)
    assert calm.kappa == calm.kappa_any == 0
    assert breakdown(lambda f: (TrMean(2), None), inputs) == 2
    assert breakdown(lambda f: (TrMean(f), None), inputs) == 4
    assert breakdown(lambda f: (Krum(f), None), inputs) == 3, "Krum needs n > 2f + 2"


def test_questions_begin_with_the_attackers() -> None:
    drawn = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
    honest, vectors, crafted = drawn.split([4, 2, 6])
    weights = drawn[:, 0].view(2, 6).double()
    for sent in (crafted[:2, None], crafted[2:].view(2, 2, 5)):
        questions = AttackersFirst(Updates(honest), sent, torch.ones(6))
        (some,) = questions.split()
        for i, rows in enumerate(sent):
            expected = Updates(torch.cat([rows.expand(2, -1), honest]))
            assert torch.equal(some[i].matrix, expected.matrix)
            torch.testing.assert_close(some.joint_grams(vectors)[i], expected.joint_gram(vectors))
            torch.testing.assert_close(some.combine(weights)[i], expected.combine(weights[i]).vector)
            torch.testing.assert_close(some.combine_alike(weights[0])[i], expected.combine(weights[0]).vector)


@pytest.mark.parametrize("name", [*BOUNDED, "average"])
def test_attacks_are_answered_together_as_one_by_one(name: str) -> None:
    n, f = 7, 2
    aggregate = Rule(Average() if name == "average" else rule(name, f), None, without_data, n)
    honest, sent = np.random.default_rng(0).normal(size=(n - f, 4)), np.random.default_rng(1).normal(size=(6, f, 4))
    attacks = np.concatenate([sent, np.repeat(sent[:, :1], f, axis=1)]) * np.tile([0.5, 1, 1e4], 4)[:, None, None]
    alone = np.stack([aggregate(np.concatenate([rows, honest])) for rows in attacks])
    np.testing.assert_allclose(aggregate.against(honest, attacks), alone, rtol=1e-5, atol=1e-5)


def test_attackers_win_ties() -> None:
    krum, honest = Rule(Krum(1), None, without_data, 5), np.array([[-1.0], [-1.0], [0.0], [1.0]])
    assert krum.against(honest, np.ones((2, 1, 1))).tolist() == [[1.0], [1.0]]


def test_the_spread_and_the_mean_of_drawn_updates_are_the_stated_ones() -> None:
    rows = gaussian(4000, 6, mean=3.0, spread=0.5).matrix.double().numpy()
    assert spread_of(rows) == pytest.approx(0.5, rel=0.02)
    assert np.linalg.norm(rows.mean(axis=0)) == pytest.approx(3.0, rel=0.02)
    found = resilience(lambda f: (CooMed(), None), gaussian(9, 4), 2, steps=5)
    again = resilience(lambda f: (CooMed(), None), gaussian(9, 4), 2, steps=5)
    assert (found.kappa, found.attack) == (again.kappa, again.attack)


@pytest.mark.usefixtures("short")
def test_a_round_gives_the_same_updates_to_every_rule_and_its_server_data() -> None:
    overrides = ["num_clients=8", "partition=dirichlet", "model.hidden=[4]", *command.HONEST]
    inputs = of_round(compose.resolve(overrides).config, rounds=1)
    other = of_round(compose.resolve([*overrides, "aggregator=krum"]).config, rounds=1)
    assert inputs.matrix.shape[0] == 8 and inputs.matrix.equal(other.matrix)
    trusted = resilience(lambda f: (FLTrust(), None), inputs, 2, steps=2)
    assert trusted.kappa is not None and trusted.kappa_any is None and not trusted.reason
    drawn = resilience(lambda f: (FLTrust(), None), gaussian(8, 4), 2, steps=2)
    assert drawn.kappa is None and drawn.reason.startswith("FLTrust needs samples of the server")


def test_the_crafted_attacks_of_conf_are_tried() -> None:
    names = {name for name, _ in command.attacks(9, 2)}
    assert {"ipm", "lie", "minmax", "minsum", "mimic", "tailored"} <= names and "none" not in names


@pytest.mark.usefixtures("short")
def test_the_command_writes_a_table_and_a_heat_map(bench: Bench, tmp_path: Path) -> None:
    words = ["aggregator=average,krum", "num_byzantine=1,3", "num_clients=7", "--dimensions=3", "--steps=2"]
    plot = tmp_path / "map.png"
    table = tmp_path / "kept" / "table.csv"
    outcome = bench("resilience", *words, f"--output={table}", f"--output={plot}")
    assert outcome.code == 0, outcome.err
    assert "Resilience: n = 7; normal, d = 3" in outcome.out and " inf " in outcome.out
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [(row["aggregator"], row["f"]) for row in rows] == [(a, f) for a in ("average", "krum") for f in "13"]
    assert rows[0]["kappa"] == "inf" and 0 < float(rows[2]["kappa"]) <= float(rows[2]["proven"])
    assert rows[3]["kappa"] == "" and "Krum needs n > 2f + 2" in rows[3]["reason"]
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("short")
def test_a_table_that_cannot_be_written_is_one_line(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = ["num_byzantine=1", "num_clients=7", "--dimensions=3", "--steps=2", f"--output={tmp_path}/file/table.csv"]
    outcome = bench("resilience", *words)
    assert (outcome.code, outcome.err) == (2, f"error: cannot write {tmp_path}/file/table.csv: File exists\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["aggregator=krumm"], "unknown aggregator 'krumm' (did you mean krum"),
        (["num_byzantine=10", "num_clients=20"], "num_byzantine must be less than half of num_clients, got f=10, n=20"),
        (
            ["--output=map.gif"],
            ".md, .tex, .html, .json, .png, .pdf, .svg, got map.gif",
        ),
        (["--steps=0"], "--steps must be > 0, got 0"),
        (["attack=none,ipm"], "attack=none,ipm is not read: every attack that crafts updates is tried"),
        (["--rounds=3"], "--rounds is not read with --inputs normal"),
        (["--inputs=round", "--mean=2"], "--mean is not read with --inputs round"),
        ([f"--dimensions={10**15}"], "the memory does not suffice; lower --dimensions or num_clients: "),
    ],
)
def test_mistakes_are_one_line(bench: Bench, words: list[str], message: str) -> None:
    outcome = bench("resilience", *words)
    (line,) = outcome.err.splitlines()
    assert outcome.code == 2 and line.startswith("error: ") and message in line


def test_no_number_that_is_kept_exceeds_a_bound() -> None:
    seen = 0
    for path in KEPT.glob("*.csv"):
        for row in csv.DictReader(path.read_text().splitlines()):
            if row["proven"] and row["kappa_any"]:
                seen += 1
                assert float(row["kappa"]) <= float(row["kappa_any"]) <= float(row["proven"]) * ROUNDING, row
                assert float(row["kappa_any"]) >= 0.999 * float(row["least"]), row
                assert float(row["lambda_any"]) <= float(row["lambda_proven"]) * ROUNDING, row
    assert seen >= 20
