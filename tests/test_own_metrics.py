"""Metrics of the user: functions of an evaluated round, with their numbers in a file beside metrics.csv."""

import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from robustfl_bench.metrics import client_accuracy

import robustfl_bench as rb
from tests.conftest import Bench, contents, only_run
from tests.processes import die_after_checkpoint, start

TINY = ("rounds=4", "eval_every=2", "model.hidden=[4]", "num_clients=6", "partition=iid")
METRICS = """
import numpy as np


def worst(recall):
    return min(recall)


def by_client(clients, predict):
    return {i: (predict(x).argmax(axis=1) == y).mean() for i, (x, y) in enumerate(clients)}


def all_of_it(round, accuracy, loss, recall, confusion, x, y, params, weights):
    assert len(x) == len(y) == confusion.sum() and len(recall) == 10 and params.ndim == 1
    assert accuracy == confusion.trace() / confusion.sum() and weights.sum() > 0.99 and loss > 0
    return round


def word(accuracy):
    return "good"


def recall(accuracy):
    return 1


def words(round):
    return {"of": [round, 1]}


def asks(acc):
    return acc


def changes(round):
    return {"even" if round % 4 else "odd": 1.0}


def recall_0(accuracy):
    return 1


def lr(round):
    return 1


def worst_of(accuracy):
    return 1


def leaves():
    raise SystemExit(0)


def divides(round):
    return 1 / (round - 2)
"""


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = f"mine_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(METRICS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield name
    sys.modules.pop(name, None)


def test_numbers_are_in_a_file_beside_and_change_no_result(bench: Bench, tmp_path: Path, mine: str) -> None:
    assert bench(*TINY).code == 0
    before = contents(tmp_path / "results", "metrics.csv")
    words = f"metrics=[{mine}:worst,{mine}:by_client,{mine}:all_of_it]"
    outcome = bench(*TINY, words)
    assert outcome.code == 0 and "was made without, or with others than, these metrics; running again" in outcome.err
    assert contents(tmp_path / "results", "metrics.csv") == before
    folder = only_run(tmp_path / "results")
    own = pd.read_csv(folder / "own_metrics.csv")
    assert list(own["round"]) == list(own["all_of_it"]) == [2, 4]
    assert [*own] == ["round", "worst", *(f"by_client_{i}" for i in range(6)), "all_of_it"]
    shown = pd.read_csv(folder / "metrics.csv").filter(like="recall_").min(axis=1)
    assert list(own["worst"]) == pytest.approx(list(shown))
    assert bench(*TINY, words).out.startswith("stored result") and bench(*TINY).out.startswith("stored result")
    path = tmp_path / f"{mine}.py"
    path.write_text(path.read_text().replace("min(recall)", "max(recall)"))
    assert "running again" in start(tmp_path, *TINY, words).communicate()[1], "another metric"
    (folder / "own_metrics.csv").write_text("round,worst\n2,0.5\n4,0.5\n")
    assert "own_metrics.csv" in bench(*TINY, words).err


def test_functions_of_python_are_given_as_they_are(mine: str) -> None:
    module = __import__(mine)
    small = {"rounds": 2, "model.hidden": [4], "num_clients": 6, "partition": "iid"}
    result = rb.run(**small, metrics=[module.worst, module.by_client])
    assert result.own_metrics.shape == (2, 8)
    assert rb.run(**small, metrics=module.worst).own_metrics.shape == (2, 2)
    with pytest.raises(rb.ConfigError, match="this run has no metrics of yours"):
        _ = rb.run(**small, seed=1).own_metrics


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("metrics=worst", 2, "metrics takes functions, module:function or a list of them, got 'worst'"),
        ("metrics=mine_m:nothing", 2, "metrics: cannot import mine_m:nothing"),
        ("metrics=mine_m:recall", 2, "metrics: recall is the name of another metric"),
        ("metrics=mine_m:recall_0", 2, "metrics: recall_0 is the name of another metric"),
        ("metrics=mine_m:lr", 2, "metrics: lr is the name of another metric"),
        ("metrics=[mine_m:worst,mine_m:worst_of]", 2, "metrics: worst_of and worst would share columns"),
        (
            "metrics=mine_m:changes",
            1,
            "round 4 has other columns in own_metrics.csv than the first round: changes_even, ",
        ),
        (
            "metrics=mine_m:asks",
            2,
            "metric asks asks for acc (did you mean accuracy?); there are: round, accuracy, los",
        ),
        ("metrics=mine_m:word", 1, "metric word must return a number, or numbers by name, got 'good'"),
        (
            "metrics=robustfl_bench.metrics:client_accuracy dataset=linear_mixture partition=natural",
            2,
            "client_accuracy needs a data set with classes",
        ),
        ("metrics=mine_m:words", 1, "metric words must return a number, or numbers by name, got {'of': [2, 1]}"),
        ("metrics=mine_m:divides", 1, "metric divides raised ZeroDivisionError: division by zero"),
        ("metrics=mine_m:leaves", 1, "metric leaves called sys.exit(0)"),
    ],
)
def test_a_mistake_is_one_line(bench: Bench, mine: str, words: str, code: int, message: str) -> None:
    bench(*TINY, *words.replace("mine_m", mine).split()).refused(code, message.replace("mine_m", mine))


def test_a_metric_that_raises_leaves_the_result_that_was_there(bench: Bench, tmp_path: Path, mine: str) -> None:
    assert bench(*TINY).code == 0
    folder = only_run(tmp_path / "results")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    outcome = bench(*TINY, f"metrics=[{mine}:worst,{mine}:divides]")
    assert outcome.code == 1 and "the result that was there stays" in outcome.err
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "error.txt"} == before
    assert "ZeroDivisionError" in (folder / "error.txt").read_text()
    assert bench(*TINY).out.startswith("stored result")


@pytest.mark.slow
def test_they_survive_a_kill(bench: Bench, tmp_path: Path, mine: str) -> None:
    words = (*TINY, "rounds=100", "checkpoint_seconds=0", f"metrics={mine}:worst")
    assert bench(*words, "results_dir=whole").code == 0
    process = start(tmp_path, *words, "results_dir=killed", first=partial(die_after_checkpoint, 0.0))
    process.communicate()
    assert process.returncode == -signal.SIGPROF
    assert bench(*words, "results_dir=killed").code == 0
    assert contents(Path("killed"), "own_metrics.csv") == contents(Path("whole"), "own_metrics.csv")


CLIENT = "robustfl_bench.metrics:client_accuracy"


def test_a_ready_made_metric_is_the_same_from_python_and_on_the_command_line(bench: Bench) -> None:
    rb.run(rounds=2, num_clients=6, num_byzantine=0, partition="iid", metrics=[client_accuracy])
    asked = bench("rounds=2", "num_clients=6", "num_byzantine=0", "partition=iid", f"metrics={CLIENT}")
    assert asked.code == 0 and asked.out.startswith("stored result") and not asked.err


OF_CLIENTS = """
def samples(clients, ids, held_out):
    owned = {f"own_{i}": x.flat[0] for i, (x, y) in zip(ids, clients)}
    held = {f"held_{i}": x.flat[0] for i, (x, y) in zip(ids, held_out or ())}
    sizes = {f"held_samples_{i}": len(y) for i, (x, y) in zip(ids, held_out or ())}
    return owned | held | sizes | {f"own_samples_{i}": len(y) for i, (x, y) in zip(ids, clients)}


def expected(clients, ids, held_out, recall, predict):
    if held_out is not None:
        return {i: sum(predict(x).argmax(axis=1) == y) / len(y) for i, (x, y) in zip(ids, held_out)}
    return {i: sum(recall[int(label)] for label in y) / len(y) for i, (x, y) in zip(ids, clients)}
"""


@pytest.mark.parametrize("natural", [False, True])
def test_the_accuracy_of_every_client_is_on_samples_that_nobody_trained_on(
    natural: bool, tmp_path: Path, mine: str
) -> None:
    """By its shares of the classes; of clients with data of their own, on what validation holds out of these."""
    module = Path(f"{mine}_of_clients.py")
    module.write_text(OF_CLIENTS)
    settings = {"num_clients": 5, "num_byzantine": 1, "byzantine_placement": "replace", "attack": "label_flip",
                "rounds": 20, "eval_every": 20, "lr": 0.2, "model.hidden": [8], "partition": "dirichlet"}  # fmt: skip
    if natural:
        rng, site = np.random.default_rng(0), np.repeat([3, 1, 4, 0, 2], [40, 30, 50, 60, 20])
        data = pd.DataFrame({"x": site, "z": rng.normal(size=200), "y": rng.integers(0, 2, 200), "site": site})
        settings |= {"dataset": data, "dataset.client": "site", "dataset.scaling": "none", "partition": "natural",
                     "validation_share": 0.2}  # fmt: skip
    words = [CLIENT, f"{module.stem}:samples", f"{module.stem}:expected"]
    row = rb.run(**settings, metrics=words).own_metrics.iloc[-1]
    ids = [name.rpartition("_")[2] for name in row.index if name.startswith("expected_")]
    assert len(ids) == 4
    found = [row[f"client_accuracy_{i}"] for i in ids]
    assert found == pytest.approx([row[f"expected_{i}"] for i in ids]) and len(set(found)) > 1
    assert row["client_accuracy_worst"] == row["client_accuracy_worst_tenth"] == min(found)
    assert row["client_accuracy_mean"] == pytest.approx(sum(found) / 4)
    sizes = {i: (row.get(f"samples_held_samples_{i}", 0), row[f"samples_own_samples_{i}"]) for i in ids}
    assert all(held == (int(0.2 * (held + own)) if natural else 0) for held, own in sizes.values())
    if natural:
        assert all(row[f"samples_own_{i}"] == row[f"samples_held_{i}"] == float(i) for i in ids)


def test_a_client_too_small_to_hold_samples_out_leaves_the_others_their_own(mine: str) -> None:
    """Of the last of four sites, whose labels are turned around, nothing is learned by who looks at all test data."""
    rng, site = np.random.default_rng(0), np.repeat(["a", "b", "c", "d", "tiny"], [120, 80, 80, 60, 2])
    x = rng.normal(size=len(site))
    data = pd.DataFrame({"x": x, "label": (x > 0) ^ (site == "d"), "site": site}).astype({"label": int})
    row = rb.run(dataset=data, partition="natural", num_clients=5, num_byzantine=0, rounds=20, eval_every=20, lr=0.3,
                 validation_share=0.2, metrics=client_accuracy, **{"dataset.client": "site", "model.hidden": []}
                 ).own_metrics.iloc[-1].to_numpy()  # fmt: skip
    _, worst, worst_tenth, mean, *clients = row
    assert max(clients[3], worst, worst_tenth) < 0.2 and min(clients[:3]) > 0.8 and np.isnan(clients[4])
    assert mean == pytest.approx(np.mean(clients[:4]))
