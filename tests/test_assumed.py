"""The number of attackers that the server assumes in a round: a number, a share of all clients, or by default null."""

import csv
from pathlib import Path

import pytest

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config import assumed, compose
from tests.conftest import Bench, run_folders

FEW = ("num_clients=25", "byzantine_placement=replace", "participation=0.4", "num_byzantine=10", "attack=ipm")
MANY = ("num_clients=1000", "byzantine_placement=replace", "participation=0.05", "num_byzantine=10", "attack=ipm")


def f(*overrides: str) -> int:
    """What the rule of a run assumes."""
    config = compose.resolve(overrides).config
    assert config["aggregator"]["num_byzantine"] == config["num_byzantine_declared"]
    return int(config["num_byzantine_declared"])


def test_a_quantile_of_the_attackers_in_a_round() -> None:
    from scipy.stats import hypergeom

    for total, attackers, present in ((1000, 10, 50), (1000, 100, 50), (25, 5, 25), (25, 10, 10), (40, 0, 4)):
        expected = hypergeom(total, attackers, present).ppf(0.95)
        assert assumed.most_present(total, attackers, present) == expected


def test_the_default_follows_the_round_and_is_what_the_rule_accepts() -> None:
    assert f("aggregator=krum") == f("aggregator=krum", "attack=ipm") == 4
    assert f(*MANY, "aggregator=krum") == 2
    assert f(*FEW, "aggregator=trmean") == 4, "n > 2f"
    assert f(*FEW, "aggregator=krum") == 3, "n > 2f + 2"
    assert f(*FEW, "aggregator=bulyan", "pre_aggregation=nnm") == 1, "n >= 4f + 3"


def test_by_kind_a_round_has_its_share_of_the_attackers() -> None:
    assert f(*MANY, "participation_by=kind", "participation=0.5", "aggregator=trmean") == 5
    assert f(*MANY, "participation=0.5", "aggregator=trmean") == 8


def test_a_share_is_of_all_clients_and_a_number_stays() -> None:
    assert f("aggregator=trmean", "num_byzantine_declared=0.25") == 5
    assert f(*MANY, "aggregator=trmean", "num_byzantine_declared=0.1") == 9
    assert f(*FEW, "aggregator=trmean", "num_byzantine_declared=2") == 2
    with pytest.raises(ConfigError, match=r"a share of all clients in \(0, 1\), or null; got 1.5"):
        f("aggregator=trmean", "num_byzantine_declared=1.5")


def test_the_record_counts_the_attackers_that_took_part(bench: Bench, tmp_path: Path) -> None:
    outcome = bench(*FEW, "aggregator=krum", "rounds=3", "model.hidden=[4]")
    assert outcome.code == 0, outcome.err
    (folder,) = run_folders(tmp_path / "results").values()
    with (folder / "metrics.csv").open() as file:
        counts = [int(float(row["byzantine_clients"])) for row in csv.DictReader(file)]
    assert len(counts) == 3 and all(0 <= count <= 10 for count in counts) and any(counts)
