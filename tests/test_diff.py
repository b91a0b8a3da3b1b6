"""``robustfl-results diff``: two runs, or a run and a command."""

import json
from pathlib import Path

import pytest

from robustfl_bench.runner.store import folders
from tests.conftest import Bench, run_cli, run_folders

RUN = ("rounds=2", "num_clients=12", "num_byzantine_declared=2", "model.hidden=[4]", "partition=iid")


def made(bench: Bench, results: Path, *overrides: str) -> Path:
    before = {*run_folders(results).values()}
    assert bench(*RUN, f"results_dir={results}", *overrides).code == 0
    (folder,) = {*run_folders(results).values()} - before
    return folder


def test_two_runs_differ_in_settings_and_numbers(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    krum, coomed = (made(bench, tmp_path / "a", f"aggregator={name}", "lr=0.5") for name in ("krum", "coomed"))
    capfd.readouterr()
    code, out, err = run_cli(capfd, "diff", str(krum), str(coomed))
    assert (code, err) == (0, "") and "different runs" in out
    lines = {line.split("  ")[0].strip(): line for line in out.splitlines()}
    assert "Krum" in lines["aggregator._target_"] and "lr" not in lines
    assert any(name.startswith("metrics.csv, first") for name in lines) and "parameters" in lines


def test_a_run_made_twice_differs_in_nothing(bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first, again = (made(bench, tmp_path / name) for name in "ab")
    capfd.readouterr()
    _, out, _ = run_cli(capfd, "diff", str(first), str(again))
    assert "one identity" in out and "\nnothing" in out
    (again / "metrics.csv").write_text((again / "metrics.csv").read_text().replace("\n1,", "\n1,9", 1))
    _, out, _ = run_cli(capfd, "diff", str(first), str(again))
    assert "is run again: metrics.csv has" in out and "metrics.csv, first lr of round 1" in out


def test_a_run_beside_a_command_says_why_it_is_not_its_stored_result(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = made(bench, tmp_path)
    capfd.readouterr()
    _, same, _ = run_cli(capfd, "diff", str(folder), *RUN)
    assert "one identity" in same and "\nnothing" in same
    _, other, _ = run_cli(capfd, "diff", str(folder), *RUN, "lr=0.3")
    assert "different runs" in other and "\nlr " in other
    summary = json.loads((folder / "summary.json").read_text())
    summary["code"]["package"] = "0" * 64
    (folder / "summary.json").write_text(json.dumps(folders.seal(summary)))
    _, older, _ = run_cli(capfd, "diff", str(folder), *RUN)
    assert "\ncode " in older and "000000000000" in older


def test_what_is_no_run_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = run_cli(capfd, "diff", str(tmp_path / "nowhere"), str(tmp_path))
    assert code == 2 and err.count("\n") == 1 and "no run folder" in err
