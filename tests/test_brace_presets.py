"""The presets of BRACE's tables and figures, and whole runs of its methods on a small data set."""

import csv
from pathlib import Path
from typing import Any

import pytest

from robustfl_bench.read.runs.records import last_metrics
from scripts.generators import brace_bytes
from tests import presets
from tests.conftest import Bench, run_folders

METHODS = ["rar", "krum", "median", "trimmed_mean", "signsgd", "rlr", "brace"]
NAMES = ("table2a", "table2b", "fig3a", "fig3b", "fig3c", "fig4")
jobs, planned = presets.of("brace")


@pytest.mark.parametrize("name", NAMES)
def test_clients_rounds_and_batches(name: str) -> None:
    runs = jobs(name)
    last = planned(name, runs[-1])
    s, identity = last.settings, last.config
    assert s.byzantine_placement == "replace" and identity["aggregator"]["_target_"].endswith("Brace")
    assert (s.num_byzantine == 45) if name == "fig3a" else s.num_byzantine * 5 == s.num_clients
    assert (s.num_clients == 300) if name == "fig3c" else s.num_clients == 100
    assert (s.rounds, s.batch_size) == ((500, 64) if name == "table2b" else (300, 32))
    quick = planned(name, jobs(name, "scale=quick")[-1], "scale=quick").settings
    assert quick.rounds <= 100 and quick.batch_size is not None and quick.batch_size <= 8


def test_methods_of_the_table() -> None:
    """Each with its own step: the size of a mean-like one is that of a gradient, of a sign 1."""
    found: dict[str, Any] = {}
    for job in jobs("table2a")[::9]:
        made = planned("table2a", job)
        found[job["+method"].rpartition("/")[2]] = (made.settings.lr, made.config["aggregator"])
    assert list(found) == METHODS
    assert {method for method, (lr, _) in found.items() if lr < 0.01} == {"signsgd", "rlr", "brace"}
    assert found["krum"][1]["num_byzantine"] == found["trimmed_mean"][1]["num_byzantine"] == 20
    assert found["brace"][1]["threshold"] == found["rlr"][1]["threshold"] == 5


def last_row(folder: Path) -> dict[str, float]:
    (path,) = run_folders(folder).values()
    return last_metrics(path)


SMALL = ["num_clients=10", "num_byzantine=2", "byzantine_placement=replace", "partition=fang", "partition.q=0.3"]


@pytest.mark.parametrize(("rule", "fooled"), [("rar", True), ("median", False)])
def test_a_backdoor_opens_an_average_only(bench: Bench, tmp_path: Path, rule: str, fooled: bool) -> None:
    outcome = bench(*SMALL, f"aggregator={rule}", "attack=backdoor", "attack.size=2", "attack.margin=0", "rounds=60",
                    "eval_every=60", f"results_dir={tmp_path}")  # fmt: skip
    assert outcome.code == 0, outcome.err
    row = last_row(tmp_path)
    assert row["test_accuracy"] > 0.7
    assert row["attack_success_rate"] > 0.8 if fooled else row["attack_success_rate"] < 0.3


@pytest.mark.parametrize("rule", ["brace aggregator.threshold=1", "signsgd", "rlr aggregator.threshold=2"])
def test_sign_rules_learn_under_the_attack_made_for_them(bench: Bench, tmp_path: Path, rule: str) -> None:
    outcome = bench(*SMALL, *f"aggregator={rule}".split(), "attack=adaptive", "attack.threshold=1", "rounds=40",
                    "lr=0.003", "eval_every=40", f"results_dir={tmp_path}")  # fmt: skip
    assert outcome.code == 0, outcome.err
    row = last_row(tmp_path)
    assert row["test_accuracy"] > 0.6 and "attack_success_rate" not in row


def test_the_committed_bytes_are_those_of_todays_messages() -> None:
    with brace_bytes.OUTPUT.open() as file:
        committed = [(row["way"], row["rule"], float(row["bytes"])) for row in csv.DictReader(file)]
    assert committed == [(way, rule, round(size)) for way, rule, size in brace_bytes.lines()]
