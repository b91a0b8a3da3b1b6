"""Tuning without the test set: what is held out, what a run returns, and which value is chosen."""

import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from robustfl_bench.interfaces import ConfigError
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.tables.pivot import pivot, tuned
from robustfl_bench.read.tables.sheets import FORMATS
from robustfl_bench.runner.config import compose, request
from robustfl_bench.runner.experiment.execute import execute
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.store import folders
from tests.conftest import Bench, contents, run_cli, run_folders
from tests.presets import federation as clustered
from tests.presets import small as federation
from tests.processes import start
from tests.test_feature_skew import DATA
from tests.test_results import make_run

NATURAL = ("dataset=linear_mixture", "model=linear_regression", "partition=natural", "byzantine_placement=replace",
           "attack=none", "num_clients=12", "dataset.num_clusters=3", "clustering=ifca")  # fmt: skip
SMALL = ("rounds=4", "num_clients=10", "model.hidden=[8]")


def test_without_a_share_nothing_changes(bench: Bench, tmp_path: Path) -> None:
    assert compose.resolve(["validation_share=null"]).run_id == compose.resolve([]).run_id
    assert compose.resolve(["validation_share=0.1"]).run_id != compose.resolve([]).run_id
    assert "validation_share" not in compose.resolve([]).identity
    f = federation(data=DATA)
    assert f.clients.data is DATA and f.clients.held_out is None
    assert bench(*SMALL).code == bench(*SMALL, "validation_share=null", "results_dir=without").code == 0
    assert contents(tmp_path / "results") == contents(tmp_path / "without")
    (folder,) = run_folders(tmp_path / "results").values()
    assert not [name for name in records.last_metrics(folder) if name.startswith("validation")]
    assert "tuned" not in json.loads((folder / "summary.json").read_text())


def test_the_same_samples_of_every_class_are_held_out_whatever_the_rule_and_the_attack() -> None:
    common = ("validation_share=0.2", "num_byzantine=3")
    f = federation(*common)
    whole = federation().clients.data
    assert f.clients.held_out is not None
    for label in range(10):
        held, all_of_it = (int((y == label).sum()) for y in (f.clients.held_out.train_y, whole.train_y))
        assert held == math.floor(0.2 * all_of_it)
    together = torch.cat([f.clients.data.train_x, f.clients.held_out.train_x]).flatten(1)
    assert torch.equal(together.sort(dim=0).values, whole.train_x.flatten(1).sort(dim=0).values)
    other = federation(*common, "aggregator=boba", "attack=lie", "partition=iid", "num_clients=7", "lr=1")
    assert other.clients.held_out is not None and torch.equal(
        other.clients.held_out.train_x, f.clients.held_out.train_x
    )
    another = federation(*common, "seed=1")
    assert another.clients.held_out is not None and not torch.equal(
        another.clients.held_out.train_x, f.clients.held_out.train_x
    )


def test_neither_clients_nor_server_see_what_is_held_out() -> None:
    marked = torch.arange(len(DATA.train_y), dtype=torch.float32)[:, None, None, None].expand_as(DATA.train_x)
    f = federation("validation_share=0.3", "aggregator=boba", data=replace(DATA, train_x=marked.clone()))
    assert f.clients.held_out is not None
    held = set(f.clients.held_out.train_x[:, 0, 0, 0].tolist())
    for population in (f.honest, f.clients.server):
        assert not held & set(population.x[:, 0, 0, 0].tolist())
    dealt = np.concatenate(f.clients.shards)
    assert len(dealt) + len(held) == len(DATA.train_y)


def test_every_owner_keeps_samples_and_numbers_are_validated_by_their_loss(bench: Bench, tmp_path: Path) -> None:
    f = clustered(*NATURAL, "validation_share=0.9")
    assert min(map(len, f.clients.shards)) >= 1
    outcome = bench(*NATURAL, "rounds=5", "lr=0.01", "validation_share=0.3")
    assert outcome.code == 0, outcome.err
    (folder,) = run_folders(tmp_path / "results").values()
    rows = records.metrics(folder)
    assert "validation_accuracy" not in rows
    chosen = json.loads((folder / "summary.json").read_text())["tuned"]
    assert chosen["round"] == rows["round"][rows["validation_loss"].idxmin()]
    assert set(chosen) == {"round", "distance", "validation_loss"}


@pytest.mark.parametrize(
    ("share", "phrase"),
    [("0", "must be null or in (0, 1)"), ("1.0", "must be null or in (0, 1)"), ("0.0001", "take a larger share")],
)
def test_a_share_that_makes_no_sense_is_refused(bench: Bench, share: str, phrase: str) -> None:
    outcome = bench(*SMALL, f"validation_share={share}")
    assert outcome.code == 2 and phrase in outcome.err


def test_a_cluster_without_validation_samples_is_refused() -> None:
    data = clustered(*NATURAL, "validation_share=null").clients.data
    assert data.clusters is not None
    one = replace(data, clusters=torch.zeros_like(data.clusters))
    f = clustered(*NATURAL, "validation_share=0.3", data=one)
    with pytest.raises(ConfigError, match="holds out no sample of a cluster; take a larger share"):
        _ = f.clients.validation_parts


def test_a_run_returns_its_best_validation_accuracy_and_names_the_test_accuracy_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    returned = {}
    for share in ("0.2", "null"):
        asked = request.composed(["rounds=12", "lr=0.3", f"validation_share={share}", f"results_dir=r{share}"])
        returned[share] = execute(Request(*asked))
        assert execute(Request(*asked)) == returned[share], "a stored result returns the same"
    (folder,) = run_folders(tmp_path / "r0.2").values()
    rows = records.metrics(folder)
    best = rows.loc[rows["validation_accuracy"].idxmax()]
    chosen = json.loads((folder / "summary.json").read_text())["tuned"]
    assert returned["0.2"] == chosen["validation_accuracy"] == rows["validation_accuracy"].max()
    assert (chosen["round"], chosen["test_accuracy"]) == (best["round"], best["test_accuracy"])
    (plain,) = run_folders(tmp_path / "rnull").values()
    assert returned["null"] == records.last_metrics(plain)["test_accuracy"]
    runs = records.load(tmp_path / "r0.2")
    archive.write(runs, str(tmp_path / "kept.csv"))
    for source in (runs, archive.read(str(tmp_path / "kept.csv"))):
        for value, number in (("tuned_accuracy", best["test_accuracy"]), ("validation_accuracy", returned["0.2"])):
            assert pivot(source, value=value).cell("average", "none").mean == pytest.approx(100 * number)
    without = pivot(records.load(tmp_path / "rnull"), value="tuned_accuracy")
    assert without.notes == ["nothing was held out for validation: set validation_share"]


def test_a_diverged_run_is_infinitely_bad_for_a_sweeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    accuracy, _ = request.composed(["rounds=4", "lr=1e10"])
    distance, _ = request.composed([*NATURAL, "rounds=40", "lr=1e30"])
    assert [execute(Request(config)) for config in (accuracy, accuracy, distance)] == [-math.inf, -math.inf, math.inf]


def tuned_run(results: Path, lr: float, seed: int, validation: float, test: float, *, diverged: bool = False) -> None:
    """A run by hand whose validation and test accuracies need not agree."""
    folder = make_run(results, "krum", "ipm", seed, accuracy=test, lr=lr, validation_share=0.1)
    summary = json.loads((folder / "summary.json").read_text())
    summary |= {"tuned": {"round": 3, "test_accuracy": test, "validation_accuracy": validation}}
    if diverged:
        summary |= {"status": "diverged", "error": "diverged in round 2: too far", "tuned": {}, "final": {}}
    (folder / "summary.json").write_text(json.dumps(folders.seal(summary)))


def test_the_value_is_chosen_by_validation_where_the_test_set_would_choose_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (0, 1):
        tuned_run(tmp_path, 0.01, seed, validation=0.5, test=0.99)
        tuned_run(tmp_path, 0.1, seed, validation=0.8 + 0.1 * seed, test=0.6 + 0.1 * seed)
        tuned_run(tmp_path, 1.0, seed, validation=0.7, test=0.95)
    sheet = tuned(records.load(tmp_path), "lr")
    assert [[cell.text for cell in row] for row in sheet.rows] == [["krum", "0.1: 65.0 (7.1)"]]
    assert "at the lr of the best mean validation accuracy over seeds" in sheet.above[0]
    code, out, _ = run_cli(capsys, "tune", "--over", "lr", "--results-dir", tmp_path)
    assert code == 0 and out == FORMATS["text"]([sheet])


def test_test_numbers_take_no_part_in_the_choice(tmp_path: Path) -> None:
    for name, best in (("a", 0.9), ("b", 0.1)):
        for lr, validation in ((0.01, 0.5), (0.1, 0.6), (1.0, 0.6)):
            tuned_run(tmp_path / name, lr, 0, validation, test=best if lr == 0.01 else 0.4)
        (row,) = tuned(records.load(tmp_path / name), "lr").rows
        assert row[1].text == "0.1: 40.0", "the smaller of two equal ones"


def test_a_value_that_diverged_or_lacks_a_seed_is_not_chosen(tmp_path: Path) -> None:
    for seed in (0, 1):
        tuned_run(tmp_path, 0.01, seed, validation=0.5, test=0.5)
        tuned_run(tmp_path, 1.0, seed, validation=0.99, test=0.9, diverged=seed == 1)
    tuned_run(tmp_path, 0.1, 0, validation=0.9, test=0.9)
    sheet = tuned(records.load(tmp_path), "lr")
    assert sheet.rows[0][1].text == "0.01: 50.0 (0.0)"
    assert sheet.footnotes == ["[1] not chosen among: 0.1 (1 of 2 seeds), 1 (1 diverged)"]


def test_tune_refuses_what_makes_no_sense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path)
    for over, code, phrase in (
        ("attack", 2, "takes a setting that was swept"),
        ("lrr", 2, "unknown key 'lrr'"),
        ("lr", 3, "none of these runs has a validation accuracy"),
    ):
        got, _, errors = run_cli(capsys, "tune", "--over", over, "--results-dir", tmp_path)
        assert got == code and phrase in errors


def test_optuna_searches_by_validation_and_survives_divergence(tmp_path: Path) -> None:
    if importlib.util.find_spec("optuna") is None:
        pytest.skip('needs pip install "robustfl-bench[optuna]"')
    process = start(
        tmp_path, "-m", "hydra/sweeper=optuna", "hydra.sweeper.direction=maximize", "hydra.sweeper.n_trials=5",
        "hydra.sweeper.n_jobs=1", "hydra.sweeper.sampler.seed=0", "lr=choice(0.01,0.3,1e10)", "validation_share=0.2",
        *SMALL,
    )  # fmt: skip
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    found = yaml.safe_load((tmp_path / "results" / ".sweep" / "optimization_results.yaml").read_text())
    runs = records.load(tmp_path / "results")
    assert "diverged" in set(runs["state"])
    assert found["best_value"] == runs["validation_accuracy"].max()
    assert found["best_params"]["lr"] == runs.loc[runs["validation_accuracy"].idxmax(), "lr"]
