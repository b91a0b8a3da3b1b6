"""Clustered learning through the command: run folders, bytes, variants, and a line for every mistake."""

import json
from pathlib import Path
from typing import Any

import pytest

from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.execute import execute
from robustfl_bench.runner.experiment.plan import Request
from tests import presets
from tests.conftest import Bench, config_of, contents, run_folders

SMALL = (
    "+setting=brifca/linear_mixture", "dataset.num_clusters=2", "num_clients=16", "num_byzantine=2", "dataset.dim=6",
    "dataset.points=12", "dataset.test_points=4", "rounds=12", "eval_every=4", "lr=0.05",
)  # fmt: skip
METHODS = ("median", "trimmed_mean", "ifca", "three_stage")


@pytest.mark.parametrize("variant", ["fair", "published"])
def test_the_same_bytes_twice(bench: Bench, tmp_path: Path, variant: str) -> None:
    methods = ",".join(f"brifca/{method}" for method in METHODS)
    sweep = ("-m", *SMALL, f"variant={variant}", f"+method={methods}")
    assert bench(*sweep, "results_dir=first").code == 0
    assert bench(*sweep, "results_dir=second", "num_threads=1").code == 0
    first, second = contents(tmp_path / "first"), contents(tmp_path / "second")
    assert len(first) == 2 * 4 and first == second
    assert len(set(first.values())) == len(first)


def test_a_run_folder_of_a_regression_has_distances_and_no_accuracy(bench: Bench, tmp_path: Path) -> None:
    outcome = bench(*SMALL, "+method=brifca/median")
    ((name, folder),) = run_folders(tmp_path / "results").items()
    assert name.startswith("linear_mixture-natural-brifca_outlier2-coomed-ifca-s0-")
    header, *rows = (folder / "metrics.csv").read_text().splitlines()
    assert header == (
        "round,lr,train_loss,test_loss,cluster_recovery,distance,distance_nearest,non_finite_updates,"
        "empty_clusters,untrained_clusters"
    )
    assert [row.split(",")[0] for row in rows] == ["4", "8", "12"]
    summary = json.loads((folder / "summary.json").read_text())
    last = dict(zip(header.split(","), map(float, rows[-1].split(",")), strict=True))
    kept = ("round", "distance", "test_loss", "distance_nearest", "cluster_recovery")
    assert summary["final"] == {key: last[key] for key in kept}
    assert summary["best"]["distance"] <= last["distance"] and summary["variant"] == "fair"
    assert f"distance {last['distance']:.4f} after 12 rounds" in outcome.out


def test_a_sweeper_is_given_the_distance(bench: Bench, tmp_path: Path) -> None:
    bench(*SMALL, "+method=brifca/median")
    ((_, folder),) = run_folders(tmp_path / "results").items()
    final = json.loads((folder / "summary.json").read_text())["final"]
    assert execute(Request(compose.resolve([*SMALL, "+method=brifca/median"]).config)) == final["distance"]


def test_without_clustering_nothing_about_it_is_recorded(bench: Bench, tmp_path: Path) -> None:
    bench("rounds=2", "num_clients=10")
    ((_, folder),) = run_folders(tmp_path / "results").items()
    assert config_of(folder)["clustering"] is None
    assert "cluster" not in (folder / "metrics.csv").read_text()
    assert presets.planned("clustering=ifca").run_id != presets.planned().run_id


def test_one_model_is_the_same_with_and_without_clustering(bench: Bench, tmp_path: Path) -> None:
    same = ("rounds=3", "num_clients=10", "num_byzantine=2", "attack=lie", "aggregator=coomed", "participation=0.8")
    bench(*same, "results_dir=without")
    bench(*same, "clustering=ifca", "clustering.num_clusters=1", "results_dir=with")
    (without,), (with_one,) = (contents(tmp_path / name, "metrics.csv").values() for name in ("without", "with"))
    assert without == with_one


ARTEFACTS = {
    "median": {"clustering.init": ("bernoulli", "fixed_seed0"), "clustering.empty": ("keep", "random"),
               "aggregator.even": ("mean", "lower")},
    "trimmed_mean": {"clustering.init": ("bernoulli", "fixed_seed0"), "clustering.empty": ("keep", "random")},
    "ifca": {"clustering.scale_by_share": (False, True), "clustering.init": ("bernoulli", "fixed_seed0"),
             "clustering.empty": ("keep", "random")},
    "three_stage": {"clustering.erm": ("lstsq", "float32_det"), "clustering.kmeans_init": ("restarts", "oracle"),
                    "clustering.unit_norm": (False, True)},
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("panel", ["fig1a", "fig1b", "fig1c"])
def test_the_variants_differ_in_the_artefacts_and_in_nothing_else(panel: str, method: str) -> None:
    def flat(tree: Any, prefix: str = "") -> dict[str, Any]:
        items = [flat(v, f"{prefix}{k}.") if isinstance(v, dict) else {f"{prefix}{k}": v} for k, v in tree.items()]
        return {key: value for item in items for key, value in item.items()}

    fair, published = (
        flat(presets.planned(f"+experiment=brifca/{panel}", f"+method=brifca/{method}", f"variant={variant}").config)
        for variant in ("fair", "published")
    )
    changed = {key: (fair[key], published[key]) for key in fair if fair[key] != published[key]}
    everywhere = {"rounds": (300, 299), "attack.loss_at_3theta": (False, True)}
    assert fair.keys() == published.keys()
    assert changed == ARTEFACTS[method] | everywhere
    assert fair["lr"] == 0.01 and fair["dataset.noise_variance"] == 0.2 and fair["dataset.points"] == 100
    k = fair["dataset.num_clusters"]
    assert (fair["num_clients"], fair["num_byzantine"]) == (40 * k, 2 * k)
    assert k == {"fig1a": 5, "fig1b": 10}.get(panel, k)


def test_the_panels_are_the_papers() -> None:
    def axes(panel: str, scale: str) -> dict[str, list[str]]:
        return compose.swept([f"+experiment=brifca/{panel}", f"scale={scale}"])

    methods, fifty = [f"brifca/{method}" for method in METHODS], list(map(str, range(50)))
    for panel in ("fig1a", "fig1b"):
        paper = axes(panel, "paper")
        assert paper == {"dataset.dim": ["20", "50", "100", "200", "500"], "seed": fifty, "+method": methods}
        assert list(paper) == ["dataset.dim", "seed", "+method"]  # the methods share the data of a seed
        assert axes(panel, "quick")["seed"] == ["0", "1", "2"]
    assert axes("fig1c", "paper") == {
        "seed": fifty, "+method": methods, "dataset.num_clusters": ["2", "5", "10", "15"],
    }  # fmt: skip


MISTAKES = [
    (["partition=natural"], "this data set has no clients of its own"),
    (["dataset=linear_mixture"], "has numbers to predict, no classes: set partition=natural"),
    (["dataset=linear_mixture", "partition=natural", "num_clients=3"], "num_clusters=5 needs as many clients"),
    (["model=linear_regression"], "take dataset=linear_mixture, or model=linear for classes"),
    (["dataset=linear_mixture", "model=linear_regression", "partition=natural", "aggregator=boba"], "no classes"),
    (["clustering=ifka"], "unknown clustering 'ifka' (did you mean ifca?)"),
    (["clustering=ifca", "clustering.init=close"], "clustering: init must be one of model, bernoulli"),
    (["clustering=three_stage", "byzantine_placement=replace"], "three_stage needs model=linear_regression"),
    (["attack=brifca_outlier", "byzantine_placement=replace"], "brifca_outlier needs vectors and one number"),
    (["variant=unfair"], "variant must be one of fair, published, got 'unfair'"),
]


@pytest.mark.parametrize(("overrides", "phrase"), MISTAKES, ids=[" ".join(case[0]) for case in MISTAKES])
def test_a_mistake_is_one_line_and_leaves_nothing(
    bench: Bench, tmp_path: Path, overrides: list[str], phrase: str
) -> None:
    outcome = bench("rounds=3", "num_clients=10", *overrides)
    outcome.refused(2, phrase)
    assert not run_folders(tmp_path / "results")
