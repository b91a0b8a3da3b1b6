"""Metrics: the columns of metrics.csv in their order, and that a new one is a file of its own."""

from pathlib import Path

import pytest

from robustfl_bench.base.errors import BrokenContract
from robustfl_bench.read.runs import records
from robustfl_bench.read.runs.values import KNOWN, describe
from robustfl_bench.train import code_digest
from robustfl_bench.train.loop import run
from robustfl_bench.train.metric import Metric
from robustfl_bench.train.metrics import METRICS
from robustfl_bench.train.rounds import initial_state
from tests.installed import copied, of_copy
from tests.presets import small as federation

RECALL = [f"recall_{i}" for i in range(10)]
WEIGHTS = ["byzantine_weight", "effective_clients", "byzantine_accepted", "honest_dropped"]
TESTED = ["round", "lr", "train_loss", "test_loss", "test_accuracy"]
COLUMNS = {
    ("aggregator=krum",): [*TESTED, *RECALL, *WEIGHTS, "non_finite_updates"],
    ("aggregator=coomed", "protocol=star", "validation_share=0.1"): [
        *TESTED, "validation_loss", "validation_accuracy", *RECALL, "non_finite_updates", "bits_per_client",
        "bits_total",
    ],
    ("availability=unreliable", "attack=worst", "aggregator=coomed"): [
        *TESTED, *RECALL, "clients", "byzantine_clients", "skipped", *WEIGHTS, "attack_choice", "attack_strength",
        "attack_harm", "non_finite_updates",
    ],
    ("dataset=rotated_digits", "partition=natural", "clustering=ifca", "aggregator=trmean"): [
        *TESTED, *RECALL, *[f"accuracy_cluster_{i}" for i in range(4)], "cluster_recovery", "non_finite_updates",
        "empty_clusters", "untrained_clusters",
    ],
    ("attack=backdoor", "byzantine_placement=replace", "protocol=buffered"): [
        *TESTED, *RECALL, "attack_success_rate", *WEIGHTS, "non_finite_updates", "simulated_time", "mean_staleness",
    ],
}  # fmt: skip


@pytest.mark.parametrize("overrides", COLUMNS, ids=lambda overrides: overrides[0])
def test_the_columns_of_a_run_and_their_order(overrides: tuple[str, ...]) -> None:
    f = federation("rounds=2", "num_byzantine=2", *overrides)
    for _, row in run(f, initial_state(f), metrics=METRICS):
        assert row is not None and list(row) == COLUMNS[overrides]


def test_the_loop_records_the_metrics_that_it_is_given() -> None:
    f = federation("rounds=1")
    chosen = [metric for metric in METRICS if metric.name in ("test_accuracy", "non_finite_updates")]
    ((_, row),) = run(f, initial_state(f), metrics=chosen)
    assert row is not None and list(row) == ["round", "lr", "test_accuracy", "non_finite_updates"]


def test_every_metric_is_described_and_known_to_tables() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names)) and all(metric.heading for metric in METRICS)
    assert {metric.name for metric in METRICS if metric.family is None} <= set(KNOWN)
    value = describe("simulated_time", records.nothing())
    assert (value.title, value.unit, value.better) == (
        "Simulated time since the start, last evaluated round",
        "mean trainings",
        -1,
    )


NEW = '''"""The length of the longest update."""

from robustfl_bench.train.metric import Metric

METRICS = (
    Metric("longest", "Length of the model", lambda evaluation: float(evaluation.state.params.norm()), "units", -1),
)
'''


LONGEST = ("results", "table", "--value", "longest", "--where", "seed=1")


def test_a_new_metric_is_one_file_and_orphans_no_stored_run(tmp_path: Path) -> None:
    package = copied(tmp_path)
    small = ("bench", "rounds=1", "model.hidden=[4]", "attack=none", "num_clients=5")
    (first,) = of_copy(tmp_path, small)
    (package / "train" / "metrics" / "longest.py").write_text(NEW)
    again, other, table = of_copy(tmp_path, small, (*small, "seed=1"), LONGEST)
    assert first.code == again.code == other.code == table.code == 0, (first, again, other, table)
    assert again.out == first.out.replace("result:", "stored result:") and other.out.startswith("result:")
    (rows,) = [path.read_text() for path in tmp_path.glob("results/runs/*-s1-*/metrics.csv")]
    heading, *_, row = rows.splitlines()
    assert heading.split(",")[-1] == "longest" and float(row.split(",")[-1]) > 0
    assert "Length of the model, last evaluated round" in table.out and "[units]" in table.out


def test_no_metric_is_in_the_digest_of_the_code() -> None:
    names = {unit.name for unit in code_digest.closure_of("robustfl_bench.aggregators.Krum").units}
    assert {"on_test_set", "on_goal", "recall_per_class"} <= names, "how a model is tested counts"
    assert not {"effective_clients", "bits_of_rounds", "METRICS"} & names


def test_an_error_in_a_metric_names_the_metric() -> None:
    f = federation("rounds=1", "attack=none")
    broken = Metric("worst_class", "worst class", lambda evaluation: max([]))
    with pytest.raises(BrokenContract, match=r"metric worst_class raised ValueError: max\(\)"):
        list(run(f, initial_state(f), metrics=[broken]))
