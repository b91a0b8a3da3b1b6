"""``robustfl-bench fill``: what is worth making, how long it takes, and a limit that cuts a queue and loses nothing."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from robustfl_bench.commands.lab import fill
from robustfl_bench.lab import queue
from robustfl_bench.lab.agreement.measured import Evidence, scored
from robustfl_bench.lab.queue import CELL, CLAIM, PANEL, WantedStack
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.tables.described import papers
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment import networks, speed
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.runner.experiment.speed import STATED, Speed
from robustfl_bench.runner.store.folders import RunFolder
from tests.conftest import Bench

TINY = """
title: A tiny queue
tables:
  rules:
    base: ["model.hidden=[16]", num_clients=10, num_byzantine=2, batch_size=32, rounds=30, eval_every=2]
    looks: [2, 3]
    rows: [average, krum, coomed]
    columns: [ipm]
claims:
  robust: {claim: Robust rules withstand IPM, place: here, table: rules, holds: krum | coomed / ipm > average / ipm}
"""
RUNS = 9  # three rules at the look of three seeds

OF_THE_MOMENT = ["folder", "seconds"]
"""Columns that differ between two runs of the same config."""


@pytest.fixture
def filled(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Call ``fill`` for the tiny queue without kept runs, on a machine whose speed lets all of it fit."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    monkeypatch.setattr(speed, "known", lambda *_: Speed(1e12, 1e-2, "as a test says"))
    monkeypatch.setattr(archive, "kept", lambda *_: records.nothing())
    return lambda *words: bench("fill", "tiny.yaml", *words)


def rows(file: Path) -> pd.DataFrame:
    return archive.read(str(file)).drop(columns=OF_THE_MOMENT).sort_values("run_id", ignore_index=True)


def test_a_queue_that_the_limit_cuts_goes_on_to_the_rows_of_an_unbroken_one(
    filled: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours_later = _cut_in_training(tmp_path / "cut", monkeypatch)
    cut = filled("--minutes", "5", "--output", "cut.csv", "--results-dir", "cut")
    assert cut.code == 0 and "the time is over; the same command goes on" in cut.err
    assert hours_later() > 1000 and 0 < len(rows(tmp_path / "cut.csv")) < RUNS
    monkeypatch.setattr(fill, "time", time)
    assert filled("--minutes", "5", "--output", "cut.csv", "--results-dir", "cut").code == 0
    whole = filled("--minutes", "5", "--output", "whole.csv", "--results-dir", "whole")
    assert "whole.csv: the rows of 9 runs" in whole.err and "tiny/rules: 3 runs in 1 stack" in whole.out
    pd.testing.assert_frame_equal(rows(tmp_path / "cut.csv"), rows(tmp_path / "whole.csv"))
    assert len(rows(tmp_path / "whole.csv")) == RUNS


def _cut_in_training(results: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """Let the limit come while a run is trained, after another has ended; returns what then passed, in seconds."""
    passed, append = [0.0], RunFolder.append

    def cutting(folder: RunFolder, name: str, row: Mapping[str, float]) -> None:
        append(folder, name, row)
        if not passed[0] and any(results.glob("runs/*/summary.json")):
            passed[0] = 1e4
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(RunFolder, "append", cutting)
    monkeypatch.setattr(fill, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0]))
    return lambda: passed[0]


def test_a_dry_run_says_what_it_would_do_and_makes_nothing(filled: Bench, tmp_path: Path) -> None:
    said = filled("--minutes", "1", "--dry-run", "--device", "cuda")
    assert said.code == 0 and {path.name for path in tmp_path.iterdir()} == {"tiny.yaml"}
    assert "6 runs, 2 s in one process" in said.out and "value 5 (as a test says)" in said.out
    assert "an open claim 5, shared by the runs that its next look lacks" in said.err
    said = filled("--minutes", "0.0001", "--dry-run")
    assert (said.code, said.out) == (0, "nothing that is missing fits into 0.0001 minutes\n")


def test_rows_are_kept_while_other_processes_make_runs(
    filled: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, keep = list[int](), fill.keep
    monkeypatch.setattr(fill, "_EVERY", 0.05)
    monkeypatch.setattr(fill, "keep", lambda *asked: numbers.append(keep(*asked)) or numbers[-1])
    assert filled("--minutes", "5", "--jobs", "2", "--output", "of_two.csv").code == 0
    assert len(numbers) > 4 and numbers[-1] == len(rows(tmp_path / "of_two.csv")) == RUNS


def test_processes_share_the_operations_of_a_gpu_and_wait_for_the_host_apart() -> None:
    gpu, cpu = Speed(1e12, 1e-2, "of a test", is_gpu=True), Speed(1e12, 1e-2, "of a test")
    assert gpu.among(4).seconds(100, 3e11) == pytest.approx(100 * 1e-2 / 4 + 1)
    assert cpu.among(4) is cpu


@pytest.mark.parametrize("minutes", ["0", "-3", "nan", "inf", "soon"])
def test_minutes_that_are_none_take_one_line(filled: Bench, minutes: str) -> None:
    refused = filled(f"--minutes={minutes}")
    assert refused.code == 2 and f"must be a number of minutes > 0; got {minutes}" in refused.err
    assert refused.err.count("\n") == 1


def test_a_missing_cell_and_the_runs_of_a_claim_have_their_values() -> None:
    evidence = Evidence(records.nothing(), STATED["cpu"])
    found = queue.queue(
        scored({name: papers()[name] for name in ("byzfl", "brifca")}, evidence), [], evidence.costs, ""
    )
    (cell,) = (stack for stack in found if stack.name.startswith("byzfl/"))
    assert (len(cell.cells), cell.value) == (1, CELL) and cell.cells[0][-1] == "seed=0"
    claims = [stack for stack in found if stack.name.startswith("brifca/")]
    assert claims and sum(stack.value for stack in claims) == pytest.approx(CLAIM * len(papers()["brifca"].claims))
    assert all(len({word for *_, word in stack.cells}) == 1 for stack in found), "a stack has one seed"


def test_the_runs_of_a_panel_wait_for_those_that_choose_its_rates(tmp_path: Path) -> None:
    evidence = Evidence(records.nothing(), STATED["cpu"])
    found = queue.queue([], ["fashion"], evidence.costs, str(tmp_path))
    experiments = {word for stack in found for cell in stack.cells for word in cell if word.startswith("+experiment=")}
    assert found and {name.endswith("_rates") for name in experiments} == {True}
    assert all(stack.value == pytest.approx(PANEL * len(stack.cells)) and stack.seconds > 0 for stack in found)
    assert len({cell for stack in found for cell in stack.cells}) == sum(len(stack.cells) for stack in found)


def test_papers_come_first_then_value_a_second_and_the_shortest_of_what_fits_is_made_first() -> None:
    def stack(name: str, value: float, seconds: float, rank: int = 0) -> WantedStack:
        return WantedStack(name, [(name,)], value, seconds, "", rank)

    slow, quick, panel = stack("slow", 1, 100), stack("quick", 1, 20), stack("panel", 9, 5, rank=1)
    unknown, rich = stack("unknown", 9, float("nan")), stack("rich", 9, 60)
    ordered = sorted([panel, unknown, slow, rich, quick], key=lambda one: one.order)
    assert ordered == [rich, quick, slow, unknown, panel]
    assert queue.affordable(ordered, 90) == [panel, quick, rich] and queue.affordable(ordered, 4) == []


def test_times_without_similar_runs_follow_from_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand = {"lenet": None, "linear": 6 * 784 * 10, "mlp": 6 * (784 * 200 + 200 * 200 + 200 * 10)}
    first, second = 20 * 25 * 24 * 24, 50 * 20 * 25 * 8 * 8  # places of its convolutions, of 24 x 24 and 8 x 8
    for name, operations in by_hand.items():
        parts = plan(compose.resolve(["dataset=mnist", f"model={name}"]).config).parts
        found = networks.operations_per_sample(parts.model, parts.dataset)
        assert found == operations or (operations is None and found > 6 * (first + second) / 10), name


def test_a_device_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUSTFL_CACHE", str(tmp_path))
    monkeypatch.setattr(speed, "_SECONDS", 0.0)
    assert "not measured" in speed.known("cpu", may_measure=False).source
    measured = speed.known("cpu", may_measure=True)
    assert measured.source.startswith("measured on ") and measured.operations > 1e8 and measured.step > 0
    monkeypatch.setattr(speed, "_products", _refuse)
    assert speed.known("cpu", may_measure=True) == speed.known("auto", may_measure=False) == measured
    assert "H100's peak" in speed.known("cuda", may_measure=False).source


def _refuse(*_: Any) -> None:
    raise AssertionError("measured again")
