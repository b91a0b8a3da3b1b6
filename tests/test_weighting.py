"""Clients that count by their samples: one of k samples is k clients, and attackers who lie have a bounded share."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from robustfl_bench.base.abilities import overrides
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.doors.testing import example_round
from robustfl_bench.numerics.sample_weights import capped, largest_masses
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView
from robustfl_bench.parts.aggregators.weighted import Weighted
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.tables.pivot import pivot
from robustfl_bench.runner.config import compose
from tests.conftest import Bench, run_folders
from tests.rounds import build, names

COUNTS = torch.tensor([3.0, 1, 2, 1, 4, 1, 2, 1, 1, 3, 2], dtype=torch.float64)
F = 2
COPIES = [
    ("average", {}), ("trmean", {}), ("coomed", {}), ("coomed", {"even": "lower"}), ("meamed", {}),
    ("meamed", {"even": "lower"}), ("geomed", {}), ("rfa", {}), ("raga", {}),
    ("huber", {}), ("norm_bound", {}), ("norm_bound", {"bound": None}), ("signsgd", {}),
    ("centered_clipping", {"radius": 2.0, "steps": 3}), ("centered_clipping", {"radius": 2.0, "per_layer": True}),
]  # fmt: skip


def a_rule(name: str, f: int = F, **options: object) -> Aggregator:
    built: Aggregator = build("aggregator", name, num_byzantine=f)
    return replace(built, **options)


WEIGHTED = [name for name in names("aggregator") if overrides(a_rule(name), "aggregate_weighted")]


def a_round(n: int = len(COUNTS)) -> tuple[torch.Tensor, ServerView]:
    updates, server = example_round(11, n - F, F)
    return updates.matrix, replace(server, layers=(updates.d - 30, 25, 5))


def test_the_rules_that_have_a_form() -> None:
    assert {name for name, _ in COPIES} <= set(WEIGHTED)
    assert {"krum", "mkrum", "trimmed_mean", "median", "cfl", "dnc", "signguard"} <= set(WEIGHTED)
    assert not {"brace", "rsa", "fltrust", "foolsgold", "bulyan"} & set(WEIGHTED)


@pytest.mark.parametrize(("name", "options"), COPIES)
def test_a_client_of_k_samples_is_k_clients(name: str, options: dict[str, object]) -> None:
    rows, server = a_round()
    found = Weighted(a_rule(name, **options))(Updates(rows, COUNTS), server).vector
    several = rows.repeat_interleave(COUNTS.long(), dim=0)
    options = options if "weighted" not in {field.name for field in fields(a_rule(name))} else {"weighted": False}
    copies = a_rule(name, int(largest_masses(COUNTS, F)), **options)(Updates(several), server).vector
    assert torch.allclose(found, copies, atol=2e-5)
    assert name == "signsgd" or not torch.allclose(found, a_rule(name, **options)(Updates(rows), server).vector)


@pytest.mark.parametrize("name", WEIGHTED)
def test_equal_sizes_change_nothing_and_the_order_of_clients_neither(name: str) -> None:
    rows, server = a_round()
    own = a_rule(name)

    def vector(rule: Aggregator, order: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        view = replace(server, rng=np.random.default_rng(0), clients=torch.arange(len(rows))[order])
        return rule(Updates(rows[order], counts[order]), view).vector

    same, other = torch.arange(len(rows)), torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))
    equal = torch.full_like(COUNTS, 7)
    assert torch.allclose(vector(Weighted(own), same, equal), vector(own, same, equal), atol=1e-5)
    if "order" not in own.exempt:
        assert torch.allclose(vector(Weighted(own), same, COUNTS), vector(Weighted(own), other, COUNTS), atol=1e-5)


@pytest.mark.parametrize("share", [0.2, 1 / 3, 0.49])
@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_the_cap_is_the_largest_that_bounds_the_share(share: float, count: int) -> None:
    sizes = torch.tensor([190.0, 482, 1021, 17834, 3400, 2210, 9000, 760, 1e9], dtype=torch.float64)
    found = capped(sizes, count, share)
    cap = float(found.max())
    assert torch.equal(found, sizes.clamp(max=cap))
    if count >= share * len(sizes):
        assert found.unique().numel() == 1
        return
    assert largest_masses(found, count) <= (share + 1e-12) * float(found.sum())
    wider = sizes.clamp(max=1.001 * cap)
    assert count == 0 or largest_masses(wider, count) > share * float(wider.sum())


def test_fewer_clients_than_are_counted_may_be_cut() -> None:
    sizes = torch.tensor([1.0] * 8 + [100.0, 100.0], dtype=torch.float64)
    found = capped(sizes, 3, 1 / 3)
    assert found.max() == pytest.approx(1.25) and largest_masses(found, 3) == pytest.approx(float(found.sum()) / 3)


def test_attackers_of_any_claimed_size_are_trimmed_once_sizes_are_capped() -> None:
    rows, server = a_round()
    rows, counts = rows.clone(), COUNTS.clone()
    rows[-F:], counts[-F:] = 1e6, 1e9
    believed = Weighted(a_rule("trmean"))(Updates(rows, counts), server).vector
    bounded = Weighted(a_rule("trmean"), capped=True, num_byzantine=F)(Updates(rows, counts), server).vector
    assert believed.max() > 1e5 and bounded.max() <= rows[:-F].max()


def test_what_has_no_form_is_refused_in_one_line(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="Brace has no form in which clients count by their samples"):
        Weighted(a_rule("brace"))
    for words, reason in (
        (("aggregator=brace",), "has no form in which clients count by their samples; set weighting=none"),
        (("aggregator=krum", "pre_aggregation=nnm"), "clients cannot count by their samples after a pre-aggregation"),
    ):
        bench("weighting=samples", *words).refused(2, reason)


def test_a_subclass_with_another_rule_does_not_inherit_the_form() -> None:
    class Other(type(a_rule("trmean"))):  # type: ignore[misc]
        def aggregate(self, updates: Updates, server: ServerView) -> object:
            return updates.mean

    assert not overrides(Other(1), "aggregate_weighted")


def test_the_settings_change_the_rule_and_the_attack_of_the_config_and_no_other_run() -> None:
    usual = compose.resolve(("aggregator=trmean", "attack=ipm"))
    said = compose.resolve(("aggregator=trmean", "attack=ipm", "weighting=none", "claim_samples=null"))
    assert usual.run_id == said.run_id and "weighting" not in usual.identity
    lied = compose.resolve(("aggregator=trmean", "attack=ipm", "weighting=capped", "claim_samples=1000")).identity
    assert lied["aggregator"]["num_byzantine"] == 4 and lied["aggregator"]["rule"]["num_byzantine"] == 4
    assert lied["attack"]["samples"] == 1000


def test_tables_have_the_settings_that_put_a_part_around_another(bench: Bench, tmp_path: Path) -> None:
    words = (
        "partition=quantity_skew",
        "attack=ipm",
        "rounds=1",
        "num_clients=10",
        "num_byzantine=2",
        "model.hidden=[4]",
    )
    assert bench("-m", *words, "weighting=none,samples,capped").code == 0
    assert bench(*words, "weighting=samples", "on_suspicion=skip", "claim_samples=9").code == 0
    assert bench(*words, "secure_aggregation=true", "aggregator=average").code == 0
    runs = records.load(tmp_path / "results")
    told = runs[["weighting", "on_suspicion", "secure_aggregation", "claim_samples"]].map(records.text)
    assert sorted(map(tuple, told.to_numpy())) == [
        ("capped", "keep", "false", "null"), ("none", "keep", "false", "null"), ("none", "keep", "true", "null"),
        ("samples", "keep", "false", "null"), ("samples", "skip", "false", "9"),
    ]  # fmt: skip
    with pytest.raises(
        ConfigError, match=r"also differ in secure_aggregation \(false, true\), weighting \(capped, none, samples\), on"
    ):
        pivot(runs)
    usual = ["on_suspicion=keep", "secure_aggregation=false"]
    table = pivot(runs, "weighting", conditions=usual)
    assert table.rows == ("none", "capped", "samples")
    archive.write(runs, str(tmp_path / "kept.csv"))
    kept = archive.read(str(tmp_path / "kept.csv"))
    assert not set(pd.read_csv(tmp_path / "kept.csv").columns) & {*records.AROUND}
    assert pivot(kept, "weighting", conditions=usual).cells.keys() == table.cells.keys()


def test_a_false_claim_moves_only_a_rule_that_believes_it(bench: Bench, tmp_path: Path) -> None:
    run = ("aggregator=average", "partition=quantity_skew", "attack=ipm", "rounds=2", "num_clients=10",
           "byzantine_placement=replace", "num_byzantine=2", "model.hidden=[8]")  # fmt: skip
    models = dict[tuple[str, str], str]()
    for weighting in ("none", "samples", "capped"):
        for claim in ("null", "100000"):
            where = f"{weighting}{claim}"
            made = bench(*run, f"weighting={weighting}", f"claim_samples={claim}", f"results_dir={where}")
            assert made.code == 0, made.err
            (folder,) = run_folders(tmp_path / where).values()
            models[weighting, claim] = json.loads((folder / "summary.json").read_text())["model_sha256"]
    assert models["none", "null"] == models["none", "100000"]
    assert len(set(models.values())) == 5
