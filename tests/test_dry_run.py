"""What ``dry_run=true`` says, with and without ``-m``: it makes no run."""

import re
from pathlib import Path

import pytest

from robustfl_bench.base.code_digest import Closure, Computing
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.doors.api.run import run
from robustfl_bench.runner.experiment import machine
from tests.conftest import Bench, run_folders

TINY = ("rounds=2", "num_clients=4", "partition=iid", "model.hidden=[4]")


def test_a_dry_run_counts_runs_estimates_their_time_and_runs_nothing(bench: Bench, tmp_path: Path) -> None:
    outcome = bench("-m", *TINY, "seed=0", "rounds=120", "dry_run=true")
    assert outcome.out.splitlines()[0] == "1 run: 1 to make (time unknown)", "no run like it was ever made"
    assert bench("-m", *TINY, "seed=0", "rounds=4").code == 0
    ((_, folder),) = run_folders(tmp_path / "results").items()
    (folder / "timings.csv").write_text("round,seconds\n1,30\n2,30\n3,30\n4,30\n")
    asked = ("-m", *TINY, "seed=0,1", "rounds=120", "dry_run=true")
    outcome = bench(*asked)
    assert outcome.code == 0 and len(run_folders(tmp_path / "results")) == 1
    assert outcome.out == "2 runs: 2 to make (about 2.0 h in one process)\n  -v lists the runs\n"
    total, first, second = bench(*asked, "-v").out.splitlines()
    assert total == outcome.out.splitlines()[0]
    assert first.startswith("to make: ") and "seed=0" in first and "seed=1" in second
    assert second.endswith("(about 60 min in one process)")
    larger = bench("-m", *TINY, "model.hidden=[400]", "seed=0", "dry_run=true").out
    assert larger.startswith("1 run: 1 to make (time unknown)"), "the rounds of another model say nothing"


def test_a_dry_run_tells_kept_stored_and_changed_results_and_refused_runs_apart(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = ("-m", "+experiment=arena/digits", "aggregator=krum", "attack=ipm", "seed=0,1", "dry_run=true")
    (line, *_) = bench(*kept).out.splitlines()
    assert re.fullmatch(r"(\d+) runs: \1 kept", line)
    assert bench("-m", *TINY, "seed=0", "rounds=4").code == 0
    asked = ("-m", *TINY, "rounds=4", "dry_run=true")
    assert bench(*asked, "seed=0,1").out.startswith("2 runs: 1 stored, 1 to make (about ")
    first, second, _ = bench(*asked, "seed=0", "aggregator=average,nowhere_known:Rule").out.splitlines()
    assert first == "2 runs: 1 stored, 1 refused"
    assert second.startswith("  1 refused: aggregator: cannot import nowhere_known.Rule")
    monkeypatch.setattr(Closure, "digest", property(lambda _: "1" * 64))
    monkeypatch.setattr(Computing, "digest", lambda *_: "1" * 64)
    first, second = bench(*asked, "seed=0").out.splitlines()
    assert first.startswith("1 run: 1 to make (about ")
    assert second == "  -v lists the runs and 1 results that do not count any more"


def test_a_dry_run_remarks_on_results_of_other_libraries(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count."""
    assert bench("-m", *TINY, "rounds=4", "seed=0,1").code == 0
    monkeypatch.setattr(machine, "libraries", lambda: {"torch": "1.0", "numpy": "2.0"})
    asked = ("-m", *TINY, "rounds=4", "dry_run=true", "seed=0,1")
    assert bench(*asked).out == "2 runs: 2 stored\n  -v lists the runs and remarks on 2 results\n"
    _, first, second, *cells = bench(*asked, "-v").out.splitlines()
    assert "now 1.0" in first and "now 1.0" in second and [line[:7] for line in cells] == ["stored:"] * 2


def test_a_dry_run_names_the_runs_that_choose_a_rate(bench: Bench, tmp_path: Path) -> None:
    own = ("aggregator=krum", "aggregator.num_selected=2", "attack=ipm,none", "seed=0,1")
    outcome = bench("-m", "+experiment=arena/digits", *own, "dry_run=true")
    first, second, *_ = outcome.out.splitlines()
    total = int(first.split()[0])
    assert outcome.code == 0 and first == f"{total} runs: {total} waiting for other runs"
    assert re.search(r"\d+ of the runs that choose the learning rate .* are missing; first: robustfl-bench -m ", second)


def test_a_dry_run_of_one_run_makes_none(bench: Bench, tmp_path: Path) -> None:
    outcome = bench(*TINY, "dry_run=true")
    assert (outcome.code, outcome.out) == (0, "1 run: 1 to make (time unknown)\n  -v lists the runs\n")
    assert bench(*TINY, "dry_run=true", "lr=-1").code == 2, "what the run would refuse"
    outcome = bench("-m", *TINY, "dry_run=true", "hydra/launcher=basic")
    assert outcome.code == 2 and "dry_run=true makes no run" in outcome.err
    with pytest.raises(ConfigError, match="dry_run=true makes no run"):
        run(*TINY, "dry_run=true")
    assert not (tmp_path / "results" / "runs").exists()
