"""The commands that read run folders, on folders made by hand."""

import itertools
import json
import math
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from filelock import SoftFileLease

from robustfl_bench.commands import results as results_cli
from robustfl_bench.read.pages import plots
from robustfl_bench.read.pages.pictures.canvas import save
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.runs.where import ConfigError, where
from robustfl_bench.read.tables.layout import render
from robustfl_bench.read.tables.pivot import pivot
from robustfl_bench.read.tables.table import Table
from robustfl_bench.runner.config import identity, options
from robustfl_bench.runner.store import folders, lease
from robustfl_bench.runner.store.results import of_rows
from tests.conftest import Bench, run_cli

ROUNDS = 4


def settings(aggregator: str, attack: str, seed: int) -> dict[str, Any]:
    rules: dict[str, dict[str, Any]] = {
        "krum": {"_target_": "robustfl_bench.aggregators.Krum", "num_byzantine": 2, "num_selected": 1},
        "mkrum": {"_target_": "robustfl_bench.aggregators.Krum", "num_byzantine": 2, "num_selected": 5},
    }
    attacks: dict[str, dict[str, Any]] = {
        "none": {"_target_": "robustfl_bench.attacks.NoAttack"},
        "ipm": {"_target_": "robustfl_bench.attacks.InnerProductManipulation", "factor": 10.0},
    }
    return {
        "seed": seed,
        "rounds": ROUNDS,
        "lr": 0.1,
        "batch_size": None,
        "num_clients": 10,
        "num_byzantine": 0 if attack == "none" else 2,
        "dataset": {"_target_": "robustfl_bench.datasets.Digits"},
        "model": {"_target_": "robustfl_bench.models.Mlp", "hidden": [20, 20], "bias": True},
        "attack": attacks.get(attack, made_up("attack", attack)),
        "aggregator": rules.get(aggregator, made_up("aggregator", aggregator)),
        "pre_aggregation": None,
    }


def made_up(group: str, name: str) -> dict[str, Any]:
    """A part of the class of its name, if there is one, with its plain options."""
    known = options.option(group, name) if options.exists(group, name) else {}
    plain = {key: value for key, value in known.items() if not isinstance(value, dict) and "${" not in str(value)}
    return {"_target_": f"robustfl_bench.{group}s.{name}.Part", **plain}


def reseal(folder: Path) -> None:
    """Record the files of a run folder as they are now, and rename it by the id of its config."""
    known = identity.stored_id(yaml.safe_load((folder / "config.yaml").read_text()))
    summary = json.loads((folder / "summary.json").read_text()) | {"files": folders.recorded(folder), "run_id": known}
    (folder / "summary.json").write_text(json.dumps(folders.seal(summary)))
    folder.rename(folder.with_name(f"{folder.name.rpartition('-')[0]}-{known}"))


def write_metrics(folder: Path, rows: Sequence[Mapping[str, float]]) -> None:
    """The metrics.csv of a run folder."""
    lines = [",".join(rows[0]), *(",".join(map(repr, row.values())) for row in rows)]
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n")


def make_run(
    results: Path,
    aggregator: str = "krum",
    attack: str = "ipm",
    seed: int = 0,
    accuracy: float = 0.9,
    *,
    status: str | None = "finished",
    error: str | None = None,
    recall: list[float | None] | None = None,
    rounds: int = ROUNDS,
    metrics: dict[str, float] | None = None,
    **changed: Any,
) -> Path:
    """A run folder as the engine leaves it: accuracy rises linearly to ``accuracy``; no summary with status None."""
    config = settings(aggregator, attack, seed) | changed
    reference = settings("average", "none", seed) | changed
    folder = results / "runs" / f"digits-{aggregator}-{attack}-s{seed}-{identity.stored_id(config)}"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    shares = recall or [accuracy, accuracy - 0.1]
    others = {f"recall_{label}": math.nan if share is None else share for label, share in enumerate(shares)}
    others |= metrics or {}
    rows = [{"round": done, "lr": 0.1, "test_loss": 0.5, "test_accuracy": accuracy * done / ROUNDS, **others}
            for done in range(1, rounds + 1)]  # fmt: skip
    write_metrics(folder, rows)
    if status is None:
        return folder
    summary = {
        "status": status,
        "run_id": identity.stored_id(config),
        "name": folder.name,
        "choices": {"aggregator": aggregator, "attack": attack, "dataset": "digits", "model": "mlp",
                    "pre_aggregation": None, "hydra/launcher": "basic"},
        "scale": None,
        "reference_id": identity.stored_id(reference),
        "error": error,
        "seconds": 1.5,
    }  # fmt: skip
    if status == "finished":
        summary |= folders.plain(of_rows(rows))
    (folder / "summary.json").write_text(json.dumps(folders.seal(summary | {"files": folders.recorded(folder)})))
    return folder


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Three rules, no attack and two attacks, two seeds; something of everything that can go wrong."""
    root = tmp_path / "results"
    for seed in (0, 1):
        make_run(root, "average", "none", seed, 0.95 + 0.01 * seed, recall=[1.0, 0.8])
        make_run(root, "average", "ipm", seed, 0.1 + 0.02 * seed, recall=[0.9 - 0.1 * seed, 0.0])
        make_run(root, "boba", "none", seed, 0.94)
        make_run(root, "boba", "ipm", seed, 0.90 + 0.02 * seed, recall=[1.0, 0.7 + 0.1 * seed])
        make_run(root, "krum", "ipm", seed, status="infeasible", error="Krum needs n > 2f + 2, got n=4, f=2")
    make_run(root, "boba", "lie", 0, 0.92)
    make_run(root, "boba", "lie", 1, status="failed", error="RuntimeError: out\nof memory")
    make_run(root, "krum", "lie", 0, status="failed", error="killed")
    make_run(root, "average", "lie", 1, status=None, rounds=2)
    return root


def labels(table: Table) -> list[str]:
    return [column.label for column in table.columns]


def cell(table: Table, row: str, column: str) -> str:
    return table.cell(row, column).text(table.column(column).value.digits)


# --- reading -------------------------------------------------------------------------------------------------------


def test_load_gives_settings_choices_and_facts(results: Path) -> None:
    runs = records.load(results)
    assert len(runs) == 14
    run = runs[(runs["aggregator"] == "boba") & (runs["attack"] == "lie") & (runs["seed"] == 0)].iloc[0]
    assert (run["lr"], run["batch_size"], run["model.hidden"], run["state"]) == (0.1, "null", "[20,20]", "finished")
    assert (run["final_accuracy"], run["best_accuracy"]) == (0.92, 0.92)
    assert run["last_accuracy"] == pytest.approx(0.92 * (1 + 2 + 3 + 4) / 4 / ROUNDS)
    assert run["recall"] == [0.92, 0.92 - 0.1]
    failed = runs[(runs["state"] == "failed") & (runs["aggregator"] == "boba")].iloc[0]
    assert failed["error"] == "RuntimeError: out of memory"
    assert "hydra/launcher" not in runs


def test_yaml_is_read_the_same_in_blocks_and_as_a_whole(tmp_path: Path) -> None:
    config = {
        "seed": 3,
        "text": "two\nlines: of it",
        "list": [{"_target_": "a.B", "s": 2}, "x"],
        "nested": {"deep": {"empty": {}, "flag": False, "small": 1e-5}, "none": None},
        "long": "word " * 60,
        "unset": None,
    }
    folder = make_run(tmp_path, **config)
    row = records.load(tmp_path).iloc[0]
    assert row["text"] == config["text"] and row["long"] == config["long"]
    assert (row["nested.deep.flag"], row["nested.deep.small"], row["nested.none"]) == (False, 1e-5, "null")
    assert row["list"] == '[{"_target_": "a.B", "s": 2},x]'
    shared = "a: &one {x: 1}\nb: *one\nseed: 0\n"  # makes sense only as a whole
    (folder / "config.yaml").write_text(shared)
    assert records.load(tmp_path).iloc[0]["b.x"] == 1


def test_state_of_a_run_without_summary_is_told_by_its_claim(tmp_path: Path) -> None:
    folder = make_run(tmp_path, status=None, rounds=3)
    with (folder / "metrics.csv").open("a") as file:
        file.write("4,0.1,0.5")  # being written
    before = sorted(path.name for path in folder.iterdir())
    run = records.load(tmp_path).iloc[0]
    assert (run["state"], run["rounds_done"], run["aggregator"], run["attack"]) == ("unfinished", 3, "krum", "ipm")
    assert sorted(path.name for path in folder.iterdir()) == before, "reading must not make files"
    with SoftFileLease(folder / lease.NAME, lease_duration=lease.EXPIRY):
        assert records.load(tmp_path).iloc[0]["state"] == "running"
        (folder / "config.yaml").unlink()  # the first moment of a run
        assert records.load(tmp_path).iloc[0]["state"] == "running"
    assert records.load(tmp_path).iloc[0]["state"] == "damaged"


def test_an_unfinished_run_takes_the_name_of_a_run_with_the_same_rule(tmp_path: Path) -> None:
    make_run(tmp_path, "mkrum", seed=0)
    make_run(tmp_path, "mkrum", seed=1, status=None)
    assert list(records.load(tmp_path)["aggregator"]) == ["mkrum", "mkrum"]


def test_an_unfinished_run_takes_the_name_of_an_empty_part(tmp_path: Path) -> None:
    path = make_run(tmp_path, protocol=None) / "summary.json"
    summary = json.loads(path.read_text())
    path.write_text(json.dumps(summary | {"choices": summary["choices"] | {"protocol": "synchronous"}}))
    reseal(path.parent)
    make_run(tmp_path, seed=1, status=None, protocol=None)
    assert list(records.load(tmp_path)["protocol"]) == ["synchronous", "synchronous"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("summary.json", '{"status": "finis', "summary.json is damaged"),
        ("summary.json", "[1, 2]", "its status must be one of"),
        ("summary.json", '{"status": "great"}', "its status must be one of"),
        ("summary.json", '{"status": "finished", "final": {}}', "summary.json is not what was written"),
        ("summary.json", json.dumps(folders.seal({"status": "failed", "final": [1]})), "final must be a mapping"),
        ("summary.json", json.dumps(folders.seal({"status": "failed", "final": {"round": "a"}})), "must be a number"),
        ("summary.json", "", "summary.json is damaged"),
        ("config.yaml", "seed: 0\nlr: [0.1\n", "config.yaml is damaged"),
        ("config.yaml", "just words", "must hold `key: value`"),
        ("config.yaml", "", "config.yaml is empty"),
        ("config.yaml", None, "config.yaml is missing"),
        ("config.yaml", b"\xff\xfe\x00", "config.yaml cannot be read"),
    ],
)
def test_damaged_files_are_reported_and_the_others_still_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str | bytes | None, told: str
) -> None:
    make_run(tmp_path, "average", accuracy=0.5)
    bad = make_run(tmp_path, "krum") / name
    bad.unlink()
    if content is not None:
        bad.write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = run_cli(capsys, "status", "--results-dir", tmp_path)
    assert (code, err) == (0, "")
    assert "2 runs" in out and "1 finished, 1 damaged" in out and told in out
    assert len(out.splitlines()) == 2, "one line for each damaged run"
    code, out, err = run_cli(capsys, "table", "--results-dir", tmp_path)
    assert (code, err) == (0, "") and "50.0" in out
    assert "1 damaged or just begun runs left out" in out


def test_a_finished_run_whose_metrics_were_cut_short_is_damaged(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    assert records.load(tmp_path).iloc[0]["state"] == "finished"
    lines = (folder / "metrics.csv").read_text().splitlines(keepends=True)
    (folder / "metrics.csv").write_text("".join(lines[:-1]))
    run = records.load(tmp_path).iloc[0]
    assert run["state"] == "damaged" and run["error"].startswith("metrics.csv has ")


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("summary.json", '"test_accuracy": 0.9,', '"test_accuracy": 0.1,'),
        ("config.yaml", "seed: 0", "seed: 1"),
        ("config.yaml", "lr: 0.1", "lr: 0.9"),
        ("metrics.csv", "0.9,", "0.1,"),
    ],
)
def test_an_edit_of_the_same_length_is_found(tmp_path: Path, name: str, old: str, new: str) -> None:
    file = make_run(tmp_path) / name
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    run = records.load(tmp_path).iloc[0]
    assert run["state"] == "damaged" and name in run["error"] and "SHA-256" in run["error"]


def test_an_unfinished_run_whose_config_was_edited_is_damaged(tmp_path: Path) -> None:
    config = make_run(tmp_path, status=None) / "config.yaml"
    config.write_text(config.read_text().replace("seed: 0", "seed: 1"))
    run = records.load(tmp_path).iloc[0]
    assert run["state"] == "damaged" and "its config.yaml is that of run" in run["error"]


@pytest.mark.parametrize("name", ["summary.json", "config.yaml", "metrics.csv"])
def test_a_link_or_a_pipe_in_a_folder_is_not_read(tmp_path: Path, name: str) -> None:
    target = tmp_path / "elsewhere"
    for number, make in enumerate((lambda path: path.symlink_to(target), os.mkfifo)):
        file = make_run(tmp_path / str(number)) / name
        target.write_bytes(file.read_bytes())
        file.unlink()
        make(file)
        run = records.load(tmp_path / str(number)).iloc[0]
        assert run["state"] == "damaged" and name in run["error"], run["error"]


def test_long_seeds_stay_apart_beside_a_damaged_folder_and_other_runs(tmp_path: Path) -> None:
    seeds = (1_700_000_000_001, 1_700_000_000_002)
    for seed in seeds:
        make_run(tmp_path, seed=seed)
    (make_run(tmp_path, "boba") / "config.yaml").unlink()
    runs = records.load(tmp_path)
    for source in (runs, archive.join([records.nothing(), runs])):
        assert set(source["seed"].map(records.text)) == {*map(str, seeds), "absent"}
        assert pivot(source).cell("krum", "ipm").seeds == 2


def test_status(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_cli(capsys, "status", "--results-dir", results)
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == f"14 runs in {results}: 9 finished, 2 failed, 2 infeasible, 1 unfinished"
    assert len(lines) == 6
    assert sum("RuntimeError: out of memory" in line for line in lines) == 1
    assert any("average-lie-s1" in line and line.endswith("2/4 rounds") for line in lines)
    _, out, _ = run_cli(capsys, "status", "--all", "--results-dir", results)
    assert len(out.splitlines()) == 15 and "accuracy 95.0%" in out
    make_run(results / "alone")
    assert run_cli(capsys, "status", "--results-dir", results / "alone")[1].startswith("1 run in ")


# --- tables --------------------------------------------------------------------------------------------------------

GOLDEN = """\
Test accuracy, last round [%]; mean (sample sd) over 1 to 2 seeds
dataset=digits, model=mlp, rounds=4, num_clients=10
differs with the aggregator or attack: num_byzantine: 0 (none), 2 (ipm, lie)
data: not recorded
of 9 runs, 9 with code that is not recorded

aggregator / attack [%]  none        ipm         lie             worst
----------------------------------------------------------------------------
average                  95.5 (0.7)  11.0 (1.4)  unfinished 2/4  11.0 (1.4)*
krum                     missing     n/a [1]     failed          -
boba                     94.0 (0.0)  91.0 (1.4)  92.0*           91.0 (1.4)*
[1] Krum needs n > 2f + 2, got n=4, f=2
* not complete: fewer seeds than elsewhere, or for worst an attack without a full result

unfinished average / lie, seed 1: 2/4 rounds
           robustfl-bench rerun=RUNS/digits-average-lie-s1 results_dir=RESULTS
missing    average / lie, seed 0
           robustfl-bench rerun=RUNS/digits-average-ipm-s0 attack=lie results_dir=RESULTS seed=0
missing    krum / none, seeds 0, 1
           robustfl-bench -m rerun=RUNS/digits-krum-ipm-s0 attack=none num_byzantine=0 results_dir=RESULTS seed=0,1
failed     krum / lie, seed 0: killed
           robustfl-bench rerun=RUNS/digits-krum-lie-s0 results_dir=RESULTS
missing    krum / lie, seed 1
           robustfl-bench rerun=RUNS/digits-krum-ipm-s0 attack=lie results_dir=RESULTS seed=1
failed     boba / lie, seed 1: RuntimeError: out of memory
           robustfl-bench rerun=RUNS/digits-boba-lie-s1 results_dir=RESULTS
"""


def test_golden_table(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_cli(capsys, "table", "--results-dir", results)
    assert (code, err) == (0, "")
    assert re.sub("(-s[01])-[0-9a-f]{12}", r"\1", out) == GOLDEN.replace("RUNS", "RESULTS/runs").replace(
        "RESULTS", str(results)
    )


def test_mean_sample_sd_and_worst_by_hand(tmp_path: Path) -> None:
    for seed, accuracy in enumerate((0.80, 0.84, 0.91)):
        make_run(tmp_path, "boba", "ipm", seed, accuracy)
        make_run(tmp_path, "boba", "lie", seed, 0.7)
        make_run(tmp_path, "boba", "none", seed, 0.2)
    table = pivot(records.load(tmp_path))
    found = table.cell("boba", "ipm")
    assert found.mean == pytest.approx(85.0)
    assert found.sd == pytest.approx(31**0.5)  # ((5^2 + 1^2 + 6^2) / 2)^0.5
    assert (found.seeds, labels(table)) == (3, ["none", "ipm", "lie", "worst"])
    assert cell(table, "boba", "worst") == "70.0 (0.0)", "no attack does not count, and lie attains it"
    assert table.title.endswith("over 3 seeds") and not table.todos


def test_one_seed_prints_no_spread(tmp_path: Path) -> None:
    make_run(tmp_path, accuracy=0.8)
    table = pivot(records.load(tmp_path))
    assert cell(table, "krum", "ipm") == "80.0"
    assert table.title == "Test accuracy, last round [%]; 1 seed"


def test_a_table_of_runs_of_which_none_is_finished(tmp_path: Path) -> None:
    make_run(tmp_path, status="failed", error="killed")
    table = pivot(records.load(tmp_path))
    assert (cell(table, "krum", "ipm"), cell(table, "krum", "worst")) == ("failed", "-")
    assert table.title.endswith("; no run has a number")


@pytest.mark.parametrize("words", ["table", "report", "plot accuracy --output a.png", "tune --over rounds"])
def test_runs_without_a_config_are_no_unknown_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    (tmp_path / "runs" / "just_begun").mkdir(parents=True)
    code, out, err = run_cli(capsys, *words.split(), "--results-dir", tmp_path)
    assert (code, out) == (3, "") and "no run can be read; robustfl-results status says why" in err


def test_an_attack_named_worst_is_one_of_those_in_the_worst_column(tmp_path: Path) -> None:
    for attack, accuracy in (("worst", 0.7), ("ipm", 0.2)):
        make_run(tmp_path, "average", attack, accuracy=accuracy)
    table = pivot(records.load(tmp_path))
    assert labels(table) == ["ipm", "worst", "worst of all"]
    assert [cell(table, "average", label) for label in labels(table)] == ["20.0", "70.0", "20.0"]


def test_runs_without_the_setting_of_an_axis_are_left_out_by_name(tmp_path: Path) -> None:
    make_run(tmp_path, "krum")
    make_run(tmp_path, "average")
    table = pivot(records.load(tmp_path), "aggregator.num_byzantine")
    assert "1 run without aggregator.num_byzantine left out" in table.remarks and len(table.rows) == 1


def test_worst_follows_the_direction_of_the_value(tmp_path: Path) -> None:
    for attack, weight in (("none", 0.9), ("ipm", 0.1), ("lie", 0.4)):
        make_run(tmp_path, "boba", attack, metrics={"byzantine_weight": weight, "bits": 7.0})
    table = pivot(records.load(tmp_path), value="byzantine_weight")
    assert [cell(table, "boba", column) for column in labels(table)] == ["0.900", "0.100", "0.400", "0.400"]
    assert "[fraction]" in table.corner
    assert labels(pivot(records.load(tmp_path), value="bits")) == ["none", "ipm", "lie"]


def test_a_diverged_run_stays_visible(tmp_path: Path) -> None:
    for seed, loss in ((0, 1.0), (1, float("nan"))):
        make_run(tmp_path, "boba", "ipm", seed, metrics={"train_loss": loss})
    make_run(tmp_path, "krum", "ipm", 0, metrics={"train_loss": 3.0})
    table = pivot(records.load(tmp_path), value="train_loss")
    assert cell(table, "boba", "ipm") == "nan (nan)"
    assert cell(table, "boba", "worst") == "nan (nan)"
    assert table.best(table.column("ipm"), "") == set(), "a cell with fewer seeds cannot be the best"


def test_order_of_rows_and_columns(tmp_path: Path) -> None:
    for name in ("boba", "zeno", "coomed", "server", "boba_es", "average", "fedavg"):
        make_run(tmp_path, name)
    runs = records.load(tmp_path)
    assert pivot(runs).rows == ("average", "fedavg", "server", "coomed", "zeno", "boba_es", "boba")
    for clients in (5, 100, 20):
        make_run(tmp_path / "b", num_clients=clients)
    table = pivot(records.load(tmp_path / "b"), "num_clients", "aggregator")
    assert (table.rows, labels(table)) == (("5", "20", "100"), ["krum"])


def test_mrd_by_hand(results: Path) -> None:
    table = pivot(records.load(results), value="mrd", conditions=["attack=none,ipm"])
    # average under ipm: seed 0 max(1.0 - 0.9, 0.8 - 0.0), seed 1 max(1.0 - 0.8, 0.8 - 0.0)
    assert cell(table, "average", "ipm") == "80.0 (0.0)"
    # boba under ipm: seed 0 max(0, 0.8 - 0.7) = 10, seed 1 max(0, 0.8 - 0.8) = 0
    assert cell(table, "boba", "ipm") == "5.0 (7.1)"
    assert cell(table, "average", "none") == "0.0 (0.0)"
    assert table.best(table.column("ipm"), "") == {"boba"}


def test_a_class_that_gains_counts_in_the_absolute_drop(tmp_path: Path) -> None:
    make_run(tmp_path, "average", "none", recall=[0.5, 0.8])
    make_run(tmp_path, "boba", "ipm", recall=[0.9, 0.7])
    signed, absolute = (pivot(records.load(tmp_path), value=value) for value in ("mrd", "mrd_absolute"))
    assert (cell(signed, "boba", "ipm"), cell(absolute, "boba", "ipm")) == ("10.0", "40.0")


def test_mrd_finds_its_reference_outside_of_the_selection(results: Path) -> None:
    table = pivot(records.load(results), value="mrd", conditions=["attack=ipm", "aggregator=boba"])
    assert cell(table, "boba", "ipm") == "5.0 (7.1)"


def test_mrd_without_reference_says_so_and_how_to_make_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("krum", "boba"):
        for attack in ("ipm", "lie"):
            make_run(tmp_path, name, attack, seed=4)
    code, out, _ = run_cli(capsys, "table", "--value", "final_accuracy", "--value", "mrd", "--results-dir", tmp_path)
    assert code == 0
    assert out.count("- [1]") == 4 and "[1] no reference run yet" in out
    command = f"robustfl-bench reference={tmp_path}/runs/digits-boba-ipm-s4"
    assert out.count(command) == 1 and "reference  for the mrd of 4 runs" in out
    make_run(tmp_path, "average", "none", seed=4, status="failed")
    _, out, _ = run_cli(capsys, "table", "--value", "mrd", "--where", "attack=ipm", "--results-dir", tmp_path)
    assert command in out, "a failed run is no reference"


def test_metrics_columns_are_values_and_absent_ones_are_footnotes(tmp_path: Path) -> None:
    make_run(tmp_path, "krum", metrics={"byzantine_weight": 0.25, "recall_3": 0.5})
    make_run(tmp_path, "coomed")
    runs = records.load(tmp_path)
    table = pivot(runs, value="byzantine_weight")
    assert (cell(table, "krum", "ipm"), cell(table, "coomed", "ipm")) == ("0.250", "-")
    assert table.notes == ["metrics.csv has no byzantine_weight: it does not apply"]
    assert cell(pivot(runs, value="recall_3"), "krum", "ipm") == "50.0"
    (Path(runs.iloc[0]["folder"]) / "metrics.csv").write_text("round,test_ac")
    assert "metrics.csv is empty" in pivot(runs, value="byzantine_weight").notes


# --- runs that may not be mixed ----------------------------------------------------------------------------------


def test_runs_that_differ_in_a_hidden_setting_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "krum", "ipm", seed=0)
    make_run(tmp_path, "krum", "ipm", seed=1, lr=0.05)
    make_run(tmp_path, "boba", "ipm", seed=0)
    code, out, err = run_cli(capsys, "table", "--results-dir", tmp_path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "lr (0.05, 0.1)" in err and "--where lr=0.1" in err
    for value in ("0.1", "1e-1"):
        code, out, _ = run_cli(capsys, "table", "--results-dir", tmp_path, "--where", f"lr={value}")
        assert code == 0 and "90.0" in out
    assert run_cli(capsys, "table", "--results-dir", tmp_path, "--columns", "lr")[0] == 0


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ({}, {"model": {"_target_": "robustfl_bench.models.Mlp", "hidden": [20, 20], "bias": False}}, "model.bias"),
        ({"batch_size": None}, {"batch_size": 64}, "batch_size"),
        ({}, {"extra": 1}, "extra"),
        ({}, {"pre_aggregation": {"_target_": "robustfl_bench.x.Y", "s": 2}}, "pre_aggregation._target_"),
        ({"local": {"steps": 1}}, {"local": {"steps": 2}}, "local.steps"),
    ],
)
def test_settings_that_differ_within_a_cell(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], name: str
) -> None:
    make_run(tmp_path, seed=0, **first)
    make_run(tmp_path, seed=1, **second)
    with pytest.raises(ConfigError, match=name):
        pivot(records.load(tmp_path))


def test_the_seed_of_generated_data_is_no_other_setting(tmp_path: Path) -> None:
    for seed in (0, 1):
        make_run(tmp_path, seed=seed, dataset={"dim": 5, "seed": seed})
    (cell,) = (cell for (*_, column), cell in pivot(records.load(tmp_path)).cells.items() if column == "ipm")
    assert cell.seeds == 2


def test_a_setting_that_differs_only_across_cells_is_found(tmp_path: Path) -> None:
    for rule, attack, rounds in (("krum", "ipm", 4), ("krum", "lie", 4), ("boba", "ipm", 4), ("boba", "lie", 8)):
        make_run(tmp_path, rule, attack, steps=rounds)
    with pytest.raises(ConfigError, match=r"steps \(4, 8\)"):
        pivot(records.load(tmp_path))


def test_what_an_axis_brings_along_is_allowed_and_told(tmp_path: Path) -> None:
    for rule in ("krum", "mkrum", "boba"):
        for attack in ("none", "ipm"):
            make_run(tmp_path, rule, attack, local={"steps": 3} if rule == "boba" else {"steps": 1})
    table = pivot(records.load(tmp_path))
    assert "differs with the aggregator or attack: num_byzantine: 0 (none), 2 (ipm)" in table.remarks
    joined = pivot(records.load(tmp_path), columns="attack,num_byzantine")
    assert not any("differs" in line for line in joined.remarks), "the columns say it"


def test_the_advice_leads_to_a_table(tmp_path: Path) -> None:
    for dataset, lr in (("a", 0.1), ("a", 0.2), ("b", 0.3), ("b", 0.4)):
        make_run(tmp_path, lr=lr, data={"_target_": dataset, "size": len(dataset)})
    runs = records.load(tmp_path)
    with pytest.raises(ConfigError) as caught:
        pivot(runs)
    words = str(caught.value).split()
    conditions = [after for word, after in itertools.pairwise(words) if word == "--where"]
    assert pivot(runs, conditions=conditions).rows == ("krum",)


def test_of_one_run_in_two_folders_the_copy_is_named_and_not_counted(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    twin = folder.with_name("copy-" + folder.name)
    twin.mkdir()
    for file in folder.iterdir():
        (twin / file.name).write_bytes(file.read_bytes())
    runs = records.load(tmp_path).set_index("run")
    assert runs.loc[folder.name, "state"] == "finished"
    assert runs.loc[twin.name, "error"] == f"it has the id of {folder.name}; remove one of them"
    assert pivot(records.load(tmp_path)).rows == ("krum",)


# --- formats -------------------------------------------------------------------------------------------------------


def test_latex_is_balanced_booktabs(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_cli(capsys, "table", "--format", "latex", "--value", "final_accuracy", "--value", "mrd",
                        "--results-dir", results)  # fmt: skip
    code = [line for line in out.splitlines() if not line.startswith("%")]
    for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\begin{tabular}{lrrrr}", r"\end{tabular}"):
        assert sum(rule in line for line in code) == 2
    body = [line for line in code if line.endswith(r"\\")]
    assert len(body) == 8 and {line.count("&") for line in body} == {4}
    joined = "\n".join(code)
    assert joined.count("{") - joined.count(r"\{") == joined.count("}") - joined.count(r"\}")
    assert r"[\%]" in joined and r"\textbf{91.0 (1.4)}" in joined and r"n/a\textsuperscript{[1]}" in joined
    assert r"\textgreater{} 2f" in joined
    assert not any("_" in line.replace(r"\_", "") for line in code)


def test_csv_reads_back(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_cli(capsys, "table", "--format", "csv", "--value", "final_accuracy", "--value", "mrd",
                        "--results-dir", results)  # fmt: skip
    table = pd.read_csv(StringIO(out), keep_default_na=False, na_values=[""]).set_index(
        ["value", "aggregator", "attack"]
    )
    assert table.loc[("final_accuracy", "boba", "ipm"), "mean"] == pytest.approx(91.0)
    assert table.loc[("final_accuracy", "boba", "ipm"), "sd"] == pytest.approx(2**0.5)
    assert table.loc[("mrd", "average", "ipm"), "mean"] == pytest.approx(80.0)
    assert table.loc[("final_accuracy", "krum", "ipm"), "reason"] == "Krum needs n > 2f + 2, got n=4, f=2"
    assert table.loc[("final_accuracy", "krum", "none"), "state"] == "missing"
    assert set(table["unit"]) == {"%", "points"}


def test_markdown_is_a_table(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_cli(capsys, "table", "--format", "markdown", "--results-dir", results)
    rows = [line for line in out.splitlines() if line.startswith("|")]
    assert len(rows) == 5 and {line.count("|") for line in rows} == {6}
    assert "**91.0 (1.4)**" in out and r"92.0\*" in out and "n/a <sup>[1]</sup>" in out


def test_html_is_well_formed(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_cli(capsys, "table", "--format", "html", "--results-dir", results)
    opened: list[str] = []

    class Check(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            opened.extend([tag] if tag not in ("meta", "input") else [])

        def handle_endtag(self, tag: str) -> None:
            assert opened.pop() == tag

    Check().feed(out)
    assert not opened
    assert "<b>91.0 (1.4)</b>" in out and "n &gt; 2f + 2" in out
    frame = pd.read_html(StringIO(out))[0] if _has_lxml() else None
    assert frame is None or frame.shape == (3, 5)


def _has_lxml() -> bool:
    try:
        import lxml  # noqa: F401
    except ImportError:
        return False
    return True


SMALL = ("-m", "rounds=1", "model.hidden=[4]", "num_clients=8", "num_byzantine=1")


def test_the_commands_of_a_table_make_what_it_lacks(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert bench(*SMALL, "aggregator=krum", "attack=ipm", "aggregator.num_selected=2", "seed=0,1").code == 0
    assert bench(*SMALL, "aggregator=krum", "attack=none", "aggregator.num_selected=2", "seed=1").code == 0
    assert bench(*SMALL, "aggregator=coomed", "attack=none", "seed=0,1").code == 0
    for value in ("final_accuracy", "mrd"):
        assert results_cli.main(["table", "--value", value]) == 0
        commands = [shlex.split(line) for line in capfd.readouterr().out.splitlines() if "robustfl-bench" in line]
        assert len(commands) == (2 if value == "final_accuracy" else 1)
        for command in commands:
            outcome = bench(*command[1:])
            assert outcome.code == 0, outcome.err
    assert results_cli.main(["table", "--value", "final_accuracy", "--value", "mrd"]) == 0
    out = capfd.readouterr().out
    assert "missing    krum" not in out and "missing    coomed" not in out and "reference " not in out
    runs = records.load("results")
    assert set(runs[runs["aggregator"] == "krum"]["aggregator.num_selected"]) == {2}


def test_a_missing_cell_keeps_what_its_row_and_its_column_share(tmp_path: Path) -> None:
    make_run(tmp_path, "krum", "none")
    make_run(tmp_path, "boba", "none")
    folder = make_run(tmp_path, "boba", "ipm")
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("factor: 10.0", "factor: 3.0"))
    reseal(folder)
    (todo,) = pivot(records.load(tmp_path)).todos
    first, *rest = shlex.split(todo.command)[1:]
    assert "digits-krum-none-s0" in first and rest == [
        "attack=ipm", "attack.factor=3", "num_byzantine=2", f"results_dir={tmp_path}", "seed=0",
    ]  # fmt: skip
    archive.write(records.load(tmp_path), str(tmp_path / "runs.csv"))
    (todo,) = pivot(archive.read(str(tmp_path / "runs.csv"))).todos
    assert todo.command == "", "a run without its folder cannot be run again"


# --- plots and export ----------------------------------------------------------------------------------------------


def test_accuracy_plot_holds_the_data(results: Path) -> None:
    figure = plots.rounds(records.load(results))
    panels = {axis.get_title(): axis for axis in figure.axes}
    assert list(panels) == ["attack: none", "attack: IPM", "attack: LIE", ""], "the last place has the legend"
    lines = {line.get_label(): line for line in panels["attack: IPM"].get_lines()}
    assert list(lines) == ["average", "boba"]
    assert list(lines["boba"].get_xdata()) == [1, 2, 3, 4]
    assert list(lines["boba"].get_ydata()) == pytest.approx([22.75, 45.5, 68.25, 91.0])
    band = panels["attack: IPM"].collections[1].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(92.0) and band[band[:, 0] == 4][:, 1].min() == pytest.approx(90.0)
    assert panels["attack: none"].get_ylabel() == "Test accuracy [%]" and panels["attack: LIE"].get_xlabel() == "Round"
    heading = " ".join(figure.get_suptitle().split())
    assert heading == "digits; mean over 1 to 2 seeds, bands span lowest to highest"
    assert [text.get_text() for text in panels[""].get_legend().get_texts()] == ["average", "BOBA"]


def test_any_column_against_the_round(results: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    figure = plots.rounds(records.load(results), "test_loss", shown=plots.ShownRuns(conditions=["attack=ipm"]))
    assert figure.axes[0].get_ylabel() == "Test loss"
    assert [line.get_label() for line in figure.axes[0].get_lines()] == ["average", "boba"]
    shown = ("plot", "rounds", "--value", "test_los", "--results-dir", results, "--output", tmp_path / "x.png")
    code, _, err = run_cli(capsys, *shown)
    assert code == 2 and "unknown value 'test_los'" in err


def test_a_column_against_another_that_grows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Seeds reach their rounds at different times: at each time a run has the value of its last round."""
    for seed, times in ((0, (1.0, 4.0, 5.0, 9.0)), (1, (2.0, 3.0, 6.0, 8.0))):
        path = make_run(tmp_path, "krum", "ipm", seed, 0.8, metrics={"simulated_time": 0.0}) / "metrics.csv"
        header, *rows = path.read_text().splitlines()
        rows = [f"{row.rpartition(',')[0]},{time}" for row, time in zip(rows, times, strict=True)]
        path.write_text("\n".join([header, *rows]) + "\n")
        reseal(path.parent)
    figure = plots.rounds(records.load(tmp_path), x="simulated_time", shown=plots.ShownRuns(panels="attack,aggregator"))
    (axis,) = figure.axes
    (line,) = axis.get_lines()
    assert axis.get_title() == "IPM, Krum" and axis.get_xscale() == "log"
    assert axis.get_xlabel().startswith("Simulated time since the start")
    assert list(line.get_xdata()) == [2, 3, 4, 5, 6, 8]
    assert list(line.get_ydata()) == pytest.approx([20, 30, 40, 50, 60, 70])
    shown = ("plot", "accuracy", "--x", "test_loss", "--results-dir", tmp_path, "--output", tmp_path / "x.png")
    code, _, err = run_cli(capsys, *shown)
    assert code == 2 and "a column that grows from round to round, such as simulated_time; test_loss does not" in err


def test_band_of_one_sd(results: Path) -> None:
    figure = plots.rounds(records.load(results), shown=plots.ShownRuns(conditions=["attack=ipm"], band="sd"))
    band = figure.axes[0].collections[1].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(91.0 + 2**0.5) and "one sample sd" in figure.get_suptitle()


def test_recall_plot_holds_the_data(results: Path) -> None:
    figure = plots.recall(records.load(results), shown=plots.ShownRuns(conditions=["attack=ipm"]))
    shares = figure.axes[0].images[0].get_array()
    assert shares.ravel().tolist() == pytest.approx([85.0, 0.0, 100.0, 75.0])
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["average", "BOBA"]


def test_sweep_plot_holds_the_data(tmp_path: Path) -> None:
    for lr, accuracy in ((0.1, 0.5), (0.01, 0.7), (1.0, 0.2)):
        for seed in (0, 1):
            make_run(tmp_path, seed=seed, accuracy=accuracy + 0.1 * seed, lr=lr)
    make_run(tmp_path, "boba", accuracy=0.9, lr=0.1)
    figure = plots.sweep(records.load(tmp_path), "lr")
    lines = {line.get_label(): line.lines[0] for line in figure.axes[0].containers}
    assert list(lines["krum"].get_xdata()) == [0.01, 0.1, 1.0]
    assert list(lines["krum"].get_ydata()) == pytest.approx([75.0, 55.0, 25.0])
    assert list(lines["boba"].get_ydata()) == pytest.approx([90.0])
    whisker = figure.axes[0].containers[0].lines[2][0].get_segments()[0]
    assert whisker[:, 1].tolist() == pytest.approx([70.0, 80.0])
    assert (
        figure.axes[0].get_xlabel() == "Learning rate"
        and figure.axes[0].get_ylabel() == "Test accuracy, last\nround [%]"
    )


def test_the_heading_of_a_sweep_counts_the_seeds_of_each_point(tmp_path: Path) -> None:
    for lr, seeds in ((0.1, (0, 1, 2)), (0.01, (0, 1))):
        for seed in seeds:
            make_run(tmp_path, seed=seed, lr=lr)
    runs = records.load(tmp_path)
    assert "mean over 2 to 3 seeds" in " ".join(plots.sweep(runs, "lr").get_suptitle().split())
    assert "mean over 2 to 3 seeds" in " ".join(plots.matrix(runs, columns="lr").get_suptitle().split())


def test_sweep_over_words_has_one_step_each(tmp_path: Path) -> None:
    for alpha, loss in (("2", 0.4), ("inf", 0.3), ("10", 0.2)):
        make_run(tmp_path, metrics={"train_loss": loss}, alpha=alpha)
    figure = plots.sweep(records.load(tmp_path), "alpha", "train_loss")
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["2", "10", "inf"]
    assert list(figure.axes[0].containers[0].lines[0].get_ydata()) == pytest.approx([0.4, 0.2, 0.3])
    with pytest.raises(records.NoRuns, match="it does not apply"):
        plots.sweep(records.load(tmp_path), "alpha", "distance")


def test_a_class_without_samples_is_left_grey(tmp_path: Path) -> None:
    make_run(tmp_path, recall=[0.5, None])
    shares = plots.recall(records.load(tmp_path)).axes[0].images[0].get_array()
    assert shares.mask.tolist() == [[False, True]]


@pytest.mark.parametrize("kind", ["accuracy", "recall"])
def test_plot_files(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    starts = {"png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF-", "svg": b"<?xml"}
    for suffix, start in starts.items():
        output = tmp_path / "plots" / f"{kind}.{suffix}"
        code, out, err = run_cli(capsys, "plot", kind, "--results-dir", results, "--output", output)
        assert (code, out) == (0, f"{output}\n")
        assert err == "robustfl-results: not drawn: 2 failed, 2 infeasible, 1 unfinished\n"
        assert output.read_bytes().startswith(start)
    header = (tmp_path / "plots" / f"{kind}.png").read_bytes()[16:24]
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
    assert 900 < width < 3000 and 300 < height < 1500


@pytest.mark.parametrize(("kind", "option"), [("accuracy", "value"), ("recall", "x"), ("weights", "lines"),
                                              ("trajectory", "value"), ("heat", "band")])  # fmt: skip
def test_a_plot_refuses_an_option_that_it_would_not_read(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, option: str
) -> None:
    word = "sd" if option == "band" else "seed"
    code, _, err = run_cli(capsys, "plot", kind, f"--{option}", word, "--results-dir", results, "--output",
                           tmp_path / "x.png")  # fmt: skip
    assert (code, err) == (2, f"robustfl-results: plot {kind} takes no --{option}\n")


def test_damaged_metrics_do_not_stop_a_plot(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = next((results / "runs").glob("*average-ipm-s0*"))
    (folder / "metrics.csv").write_text("round,test_accuracy\n1,0.1\n2,oops\n")
    reseal(folder)
    output = tmp_path / "a.png"
    code, _, err = run_cli(capsys, "plot", "accuracy", "--results-dir", results, "--output", output)
    assert code == 0 and output.exists()
    assert err == "robustfl-results: not drawn: 1 damaged, 2 failed, 2 infeasible, 1 unfinished\n"


def test_nothing_is_cut_off_or_covers_something_else(tmp_path: Path) -> None:
    for name in ("average", "server", "coomed", "trmean", "krum", "mkrum", "geomed", "boba_wo_stage1", "boba"):
        for attack in ("none", "ipm", "lie", "mimic", "minmax"):
            make_run(tmp_path, name, attack)
    runs = records.load(tmp_path)
    for conditions in ([], ["attack=ipm"]):
        figure = plots.rounds(runs, shown=plots.ShownRuns(conditions=conditions))
        save(figure, tmp_path / "a.png")
        figure.draw_without_rendering()  # at the resolution that the extents below are measured in
        inside = figure.bbox
        (legend,) = filter(None, [*figure.legends, *(axis.get_legend() for axis in figure.axes)])
        others = [axis.get_tightbbox() for axis in figure.axes if legend not in axis.get_children()]
        legend = legend.get_window_extent()
        heading = figure._suptitle.get_window_extent()
        for box in (legend, heading, *others):
            assert inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
        assert not any(legend.overlaps(box) for box in (*others, heading))


def test_export(results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "runs.csv"
    code, out, _ = run_cli(capsys, "export", "--results-dir", results, "--output", output, "--where", "attack=ipm")
    assert (code, out) == (0, f"{output}: 24 rows\n")
    table = pd.read_csv(output)
    assert len(table) == 24 and {"aggregator", "attack.factor", "lr", "lr_config", "round", "state"} <= set(table)
    last = table[(table["aggregator"] == "boba") & (table["seed"] == 1) & (table["round"] == 4)]
    assert list(last["test_accuracy"]) == pytest.approx([0.92])
    assert run_cli(capsys, "export", "--results-dir", results, "--output", output)[0] == 0, "rows can be made again"
    for words in ("export --output", "export --summary", "report --output"):
        file = tmp_path / words.replace(" ", "_") / f"file.{'html' if 'report' in words else 'csv'}"
        assert run_cli(capsys, *words.split(), file, "--results-dir", results)[0] == 0 and file.is_file()


def test_export_of_rounds_replaces_no_kept_runs(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs.csv"
    archive.write(records.load(results), str(file))
    before = file.read_bytes()
    code, _, err = run_cli(capsys, "export", "--results-dir", results, "--output", file)
    assert code == 2 and "runs.csv holds a line for each of its runs" in err and err.count("\n") == 1
    assert file.read_bytes() == before


def test_an_export_that_is_interrupted_leaves_the_earlier_file(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, read = tmp_path / "rounds.csv", records.rounds
    runs = records.load(results)
    archive.write_rounds(runs, str(file))
    before, last = file.read_bytes(), runs["folder"].iloc[-1]

    def interrupted(folder: str) -> tuple[list[str], list[list[str]]]:
        if folder == last:
            raise KeyboardInterrupt
        return read(folder)

    monkeypatch.setattr(records, "rounds", interrupted)
    with pytest.raises(KeyboardInterrupt):
        archive.write_rounds(runs, str(file))
    assert file.read_bytes() == before and list(tmp_path.glob("*rounds*")) == [file]


def test_a_number_that_is_nan_stays_one_in_a_kept_file(tmp_path: Path) -> None:
    make_run(tmp_path, "krum", metrics={"train_loss": float("nan")})
    make_run(tmp_path, "boba", metrics={"train_loss": 0.5})
    make_run(tmp_path, "coomed")
    runs, file = records.load(tmp_path), str(tmp_path / "runs.csv")
    archive.write(runs, file)
    tables = [pivot(source, value="train_loss") for source in (runs, archive.read(file))]
    for table in tables:
        assert [cell(table, row, "ipm") for row in ("krum", "boba", "coomed")] == ["nan", "0.500", "-"]
    archive.write(archive.read(file), str(tmp_path / "again.csv"))
    assert (tmp_path / "again.csv").read_bytes() == Path(file).read_bytes()


def test_a_word_that_reads_as_a_number_stays_a_word(tmp_path: Path) -> None:
    for attack in ("none", "infinity", "ipm"):
        make_run(tmp_path, attack=attack, beta=float("inf"), version="1_0")
    runs = records.load(tmp_path)
    archive.write(runs, str(tmp_path / "runs.csv"))
    for source in (runs, archive.read(str(tmp_path / "runs.csv"))):
        assert set(where(source, ["attack=none,infinity", "beta=inf"])["attack"]) == {"none", "infinity"}
        assert set(source["version"]) == {"1_0"}


def test_lists_are_chosen_and_ordered_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for hidden in ([10, 5], [20], [30]):
        make_run(tmp_path, model={"hidden": hidden})
    asked = ("table", "--rows", "model.hidden", "--results-dir", tmp_path)
    _, out, err = run_cli(capsys, *asked, "--where", "model.hidden=[10,5],[20]", "--order", "[20],[10,5]")
    assert not err and [line.split()[0] for line in re.split("-{9,}\n", out)[1].splitlines()] == ["[20]", "[10,5]"]


def test_export_holds_one_run_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(200):
        make_run(tmp_path, seed=seed)
    read, rounds = [], records.rounds
    monkeypatch.setattr(records, "rounds", lambda folder: read.append(folder) or rounds(folder))
    lines = archive.tidy(records.load(tmp_path))
    header, *first = itertools.islice(lines, 1 + ROUNDS)
    assert len(read) == 1 and [line[header.index("round")] for line in first] == ["1", "2", "3", "4"]
    assert sum(1 for _ in lines) == 199 * ROUNDS and len(read) == 200


# --- bad arguments -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["table", "--rows", "agregator"], 2, "unknown key 'agregator'; did you mean aggregator"),
        (["table", "--value", "final_acuracy"], 2, "did you mean final_accuracy"),
        (["table", "--value", "accuracy"], 2, "did you mean test_accuracy or last_accuracy or best_accuracy?"),
        (["table", "--value", "FINAL_ACCURACY"], 2, "did you mean final_accuracy?"),
        (["table", "--where", "atack=ipm"], 2, "did you mean attack"),
        (["table", "--where", "attack"], 2, "--where takes key=value"),
        (["table", "--where", "attack=imp"], 3, "no run has attack=imp; attack is ipm, lie, none"),
        (["table", "--where", "attack=ipm,imp"], 3, "no run has attack=imp"),
        (["table", "--where", "attack=none", "--where", "seed=7"], 3, "no run has seed=7; seed is 0, 1"),
        (["table", "--rows", "attack"], 2, "rows and columns must differ"),
        (["table", "--format", "word"], 2, "invalid choice"),
        (["plot", "accuracy", "--output", "x.gif"], 2, "must end in .png, .pdf, .svg"),
        (["plot", "sweep", "--output", "x.png"], 2, "a sweep needs --x"),
        (["plot", "sweep", "--x", "rat", "--output", "x.png"], 2, "unknown key 'rat'"),
        (["plot", "accuracy", "--lines", "rule", "--output", "x.png"], 2, "unknown key 'rule'"),
        (["plot", "accuracy", "--where", "aggregator=krum", "--output", "x.png"], 3, "none of these runs is finished"),
        (["plot", "accuracy"], 2, "--output"),
        (["export", "--output", "runs.xlsx"], 2, "must end in .csv"),
        (["export", "--output", "/dev/null/runs.csv"], 2, "cannot write /dev/null/runs.csv"),
        (["stats"], 2, "invalid choice"),
        ([], 2, "required"),
    ],
)
def test_bad_arguments(
    results: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, told: str
) -> None:
    results_dir = ["--results-dir", str(results)] if arguments and arguments[0] != "stats" else []
    found, out, err = run_cli(capsys, *arguments, *results_dir)
    assert (found, out, err.count("\n")) == (code, "", 1), err
    assert told in err


@pytest.mark.parametrize("words", ["status", "table", "recommend --partition iid --attackers 5", "arena"])
def test_a_results_folder_without_a_name_is_refused(capsys: pytest.CaptureFixture[str], words: str) -> None:
    code, out, err = run_cli(capsys, *words.split(), "--results-dir", "")
    assert (code, out) == (2, "") and "--results-dir must name a folder, got ''" in err and err.count("\n") == 1


def test_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["status"], ["table"], ["plot", "recall", "--output", "x.png"], ["export", "--output", "x.csv"]):
        code, out, err = run_cli(capsys, *command, "--results-dir", tmp_path)
        assert (code, out, err.count("\n")) == (3, "", 1)
        assert f"no runs in {tmp_path / 'runs'}" in err


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, robustfl_bench.commands.results as cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'pandas', 'matplotlib', 'numpy', 'hydra', 'omegaconf'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.splitlines()[-1] == "[]"


def test_all_formats_print_every_label(results: Path) -> None:
    table = pivot(records.load(results))
    for form in ("text", "markdown", "latex", "csv", "html"):
        written = render([table], form)
        assert all(label in written for label in (*table.rows, *labels(table))) and written.endswith("\n")


def test_a_table_counts_rounds_until_an_accuracy_is_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, accuracy in enumerate((0.9, 0.6)):
        make_run(tmp_path, accuracy=accuracy, seed=seed)  # rises in equal steps
    asked = ("table", "--results-dir", tmp_path, "--where", "seed=0", "--value")
    for percent, round in (("45", 2), ("45.1", 3), ("89.9", 4), ("1", 1)):
        code, out, _ = run_cli(capsys, *asked, f"rounds_to_{percent}", "--format", "csv")
        assert code == 0 and float(pd.read_csv(StringIO(out))["mean"][0]) == round
    code, out, _ = run_cli(capsys, *asked, "rounds_to_91")
    assert code == 0 and "no evaluated round reached 91%" in out
    code, _, err = run_cli(capsys, *asked, "rounds_to_x")
    assert code == 2 and "rounds_to_x" in err
