"""Nothing is lost: a run killed at any moment ends with the bytes of an undisturbed one."""

import random
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from robustfl_bench.base.errors import TERMINATED, DataError
from robustfl_bench.parts import datasets
from robustfl_bench.parts.protocols.state import State
from robustfl_bench.runner.config import request
from robustfl_bench.runner.experiment import answers
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.runner.store.folders import RunFolder
from robustfl_bench.train import loop
from tests.conftest import Bench, contents, run_folders, state_of
from tests.processes import die_after_checkpoint, lines_of_metrics, start, wait_for

RUN = (
    "rounds=200",
    "num_clients=12",
    "num_byzantine=2",
    "attack=gauss",
    "aggregator=krum",
    "batch_size=16",
    "participation=0.8",
    "eval_every=3",
    "model.hidden=[16]",
    "checkpoint_seconds=0",
)
CLUSTERED = (
    "dataset=linear_mixture",
    "model=linear_regression",
    "partition=natural",
    "byzantine_placement=replace",
    "attack=brifca_outlier",
    "num_clients=12",
    "num_byzantine=2",
    "dataset.num_clusters=3",
    "rounds=100",
    "participation=0.8",
    "checkpoint_seconds=0",
)


@pytest.mark.parametrize(
    ("run", "wanted"),
    [
        (RUN, 10),
        ((*RUN, "rounds=200", "local_update=momentum", "server_optimizer=adam", "lr=0.01"), 1),
        ((*RUN, "rounds=200", "protocol=buffered", "protocol.buffer=7"), 2),
        ((*CLUSTERED, "clustering=ifca", "clustering.empty=random", "aggregator=coomed"), 3),
        ((*CLUSTERED, "clustering=three_stage", "aggregator=beta_trmean"), 2),
    ],
    ids=["one model", "momentum", "buffered", "ifca", "three_stage"],
)
def test_kills_at_random_rounds_change_no_byte(bench: Bench, tmp_path: Path, run: tuple[str, ...], wanted: int) -> None:
    assert bench(*run, "results_dir=whole").code == 0
    rng, kills, resumed_from = random.Random(0), 0, set()
    while kills < wanted:
        killed = partial(die_after_checkpoint, rng.uniform(0.0, 0.15))
        process = start(tmp_path, *run, "results_dir=cut", first=killed)
        process.communicate()
        assert process.returncode in (0, -signal.SIGPROF)
        if any((tmp_path / "cut").glob("runs/*/summary.json")):  # it had come to its end: begin again
            shutil.rmtree(tmp_path / "cut")
            continue
        kills += 1
        (checkpoint,) = (tmp_path / "cut").glob("runs/*/checkpoint.pt")
        resumed_from.add(state_of(checkpoint)["round"])
    assert len(resumed_from) >= min(3, wanted - 1), "the kills should hit different rounds"
    assert bench(*run, "results_dir=cut").code == 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


DAMAGES = ("truncated", "garbage", "metrics lost", "metrics changed", "another shape", "another round")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_starts_the_run_again(bench: Bench, tmp_path: Path, damage: str) -> None:
    small = (*RUN[1:], "rounds=9")
    assert bench(*small, "results_dir=whole").code == 0
    assert bench(*small, "results_dir=cut").code == 0
    ((_, folder),) = run_folders(tmp_path / "cut").items()
    (folder / "summary.json").unlink()
    store = RunFolder(tmp_path / "cut", ["any"], folder.name.rpartition("-")[2])
    planned = plan(request.composed(small)[0])
    stamp = answers.stamp(planned, datasets.load(planned.parts.dataset, None, torch.device("cpu")))
    state = State.start(torch.zeros(1, 5) if damage == "another shape" else torch.zeros(1, 64 * 16 + 16 + 170))
    store.save_checkpoint({"state": replace(state, round=10 if damage == "another round" else 3).stored()}, stamp)
    checkpoint = folder / "checkpoint.pt"
    if damage == "truncated":
        checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    elif damage == "garbage":
        checkpoint.write_bytes(b"\x80\x04garbage")
    elif damage == "metrics lost":
        (folder / "metrics.csv").unlink()
    elif damage == "metrics changed":
        rows = (folder / "metrics.csv").read_bytes()
        (folder / "metrics.csv").write_bytes(rows[:-8] + b"\0" * 8)
    outcome = bench(*small, "results_dir=cut")
    assert outcome.code == 0 and outcome.err.startswith("starts again: ") and outcome.err.count("\n") == 1
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_sigterm_leaves_a_checkpoint_to_go_on_from(bench: Bench, tmp_path: Path) -> None:
    long = (*RUN[1:-1], "rounds=100000", "checkpoint_seconds=1000")
    process = start(tmp_path, *long)
    wait_for(lambda: lines_of_metrics(tmp_path / "results") > 5, process)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 143
    ((_, folder),) = run_folders(tmp_path / "results").items()
    # The row of round 15 was seen; the signal may still have come before the state of that round was passed on.
    assert state_of(folder / "checkpoint.pt")["round"] >= 14
    assert not (folder / "summary.json").exists()


def test_a_library_that_turns_the_end_of_sigterm_into_an_error_makes_no_failed_run(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = (*RUN[1:-1], "rounds=9")
    assert bench(*small, "results_dir=whole").code == 0
    run = loop.run

    def interrupted(*given: Any) -> Iterator[tuple[Any, Any]]:
        for number, step in enumerate(run(*given), 1):
            yield step
            if number == 4:
                try:
                    signal.raise_signal(signal.SIGTERM)
                except SystemExit as error:
                    raise RuntimeError("between two modes") from error

    monkeypatch.setattr(loop, "run", interrupted)
    assert bench(*small, "results_dir=cut").code == TERMINATED
    (folder,) = (tmp_path / "cut").glob("runs/*")
    assert state_of(folder / "checkpoint.pt")["round"] == 4 and not (folder / "summary.json").exists()
    monkeypatch.setattr(loop, "run", run)
    assert bench(*small, "results_dir=cut").code == 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_a_checkpoint_outlives_a_start_that_finds_no_data(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = (*RUN, "eval_every=200")  # nothing but the checkpoint is there before the last round
    start(tmp_path, *run, first=partial(die_after_checkpoint, 0.0)).communicate()
    ((_, folder),) = run_folders(tmp_path / "results").items()
    before = (folder / "checkpoint.pt").read_bytes()
    assert not (folder / "metrics.csv").exists()

    def gone(*_: object) -> None:
        raise DataError("no digits here")

    monkeypatch.setattr(datasets, "load", gone)
    outcome = bench(*run)
    assert (outcome.code, outcome.err) == (3, "error: no digits here\n")
    assert (folder / "checkpoint.pt").read_bytes() == before
