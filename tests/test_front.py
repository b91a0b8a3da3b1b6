"""Hydra in front of the command: what it shows, which of its options there are, its sweeps and its launchers."""

import json
from pathlib import Path

import pytest

from robustfl_bench.runner.config import compose, options
from tests.conftest import Bench, contents, run_folders
from tests.processes import start

TINY = ("rounds=1", "num_clients=4", "num_byzantine=0", "partition=iid", "model.hidden=[4]")
RULE = ("aggregator=b_krum", "lr=5e-4", "data_dir='5e-4'")


def test_the_shown_config_is_the_composed_one(bench: Bench) -> None:
    shown = bench(*RULE, "--cfg", "job")
    assert (shown.code, shown.err) == (0, "")
    written = options.parse(shown.out)
    assert (
        written == compose.shown(RULE) and written["aggregator"]["rule"]["num_byzantine"] == "${num_byzantine_declared}"
    )
    assert written["data_dir"] == "5e-4" and written["lr"] == 5e-4
    resolved = options.parse(bench("--cfg", "job", "--resolve", *RULE).out)
    assert resolved == json.loads(json.dumps(compose.resolve(RULE).config))
    part = bench("-c", "job", "-p", "aggregator.rule", "--resolve", *RULE)
    assert (
        part.out.startswith("# @package aggregator.rule\n")
        and options.parse(part.out) == resolved["aggregator"]["rule"]
    )
    assert bench("--cfg", "job", "--package", "lr", *RULE).out == "0.0005\n"
    assert bench("--cfg", "job", "--package", "_global_", *RULE).out == shown.out


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--help"], "--list [GROUP [NAME]] describes the options"),
        (["--hydra-help"], "== Flags =="),
        (["--cfg", "hydra"], "_target_: hydra_plugins.robustfl_bench.Cells"),
        (["--cfg", "all", "aggregator=krum"], "_target_: robustfl_bench.aggregators.Krum"),
        (["rounds=1", "--info", "searchpath"], "robustfl://"),
    ],
)
def test_hydra_shows_its_own_settings(tmp_path: Path, arguments: list[str], shown: str) -> None:
    """In a process of its own, as Hydra sets up logging."""
    command = start(tmp_path, *arguments)
    printed, errors = command.communicate()
    assert command.returncode == 0 and shown in printed and not errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config-name", "mine"], "Cannot find primary config 'mine'"),
        (["--config-path=mine"], "--config-path must be a folder, with the file config.yaml in it or in conf/, got"),
        (["--experimental-rerun", "x"], "rerun=FOLDER runs the config of a run folder again"),
        (["-sc", "install=bash"], "-sc is not for this command: robustfl-bench completion prints"),
        (
            ["--config-dir", "nowhere"],
            "--config-dir must be a folder with groups such as aggregator/ in it, got",
        ),
        (["--multirun", "--cfg", "job"], "take one of --multirun and --cfg"),
        (["--resolve"], "--resolve goes with --cfg or --help"),
        (["--package", "lr"], "--package goes with --cfg"),
        (["--cfg", "job", "-p", "aggregatr"], "no package 'aggregatr' in the config (did you mean aggregator"),
        (["hydra/launcher=processes"], "hydra/launcher=processes is for sweeps, with -m"),
        (
            ["-m", "seed=0,1", "hydra.searchpath=[file://x]"],
            "hydra.searchpath names a place without options: provider=hydra.searchpath in command-line, path=x",
        ),
        (
            ["-m", "seed=0,1", "hydra/launcher=nothing"],
            "unknown hydra/launcher 'nothing'; there are: basic,",
        ),
        (["-m", "seed=0,1", "hydra.sweep.dirr=x"], "no setting 'hydra.sweep.dirr' (did you mean hydra.sweep.dir or"),
        (["-m", "lr=interval(0,1)"], "lr=interval(0,1): hydra/sweeper=cells needs values that it can list"),
        (["-m", "aggregator=average,krumm"], "unknown aggregator 'krumm' (did you mean krum"),
        (["-m", "rerun=nowhere,there"], "no run folder nowhere"),
        (["-m", "seed=0,1", "rounds=ten"], "rounds must be of type int, got 'ten'"),
        (["-m", "seed=0,1", "data_dir=é#"], "cannot read 'data_dir=é#'"),
    ],
)
def test_what_is_not_read_is_refused_in_one_line(bench: Bench, arguments: list[str], message: str) -> None:
    outcome = bench(*TINY, *arguments)
    assert (outcome.code, outcome.out, len(outcome.err.splitlines())) == (2, "", 1), outcome
    assert outcome.err.startswith("error: ") and message in outcome.err
    assert not Path("results").exists()


def test_a_sweep_has_the_values_that_hydra_reads(bench: Bench) -> None:
    outcome = bench(
        "-m", *TINY, "seed=range(0,5,2)", "lr=choice(0.1,1)", "aggregator=glob(*mkrum)", "dry_run=true", "-v"
    )
    cells = [line for line in outcome.out.splitlines() if line.startswith("to make: ")]
    assert outcome.code == 0 and len(cells) == 3 * 2 * 2, outcome
    assert "seed=4 lr=1 aggregator=mkrum dry_run=true" in cells[-1]


def test_a_launcher_of_hydra_makes_the_runs_that_are_composed_here(bench: Bench, tmp_path: Path) -> None:
    sweep = ("-m", *TINY, "wait=yes", "seed=0,1")  # Hydra alone would take the word yes
    assert bench(*sweep, "results_dir=ours").code == 0
    theirs = bench(*sweep, "results_dir=theirs", "hydra/launcher=basic")
    assert theirs.code == 0, theirs.err
    assert contents(tmp_path / "ours") == contents(tmp_path / "theirs") and len(run_folders(tmp_path / "ours")) == 2
    failing = bench(*sweep, "results_dir=theirs", "hydra/launcher=basic", "lr=-1,0.2")
    assert failing.code == 2 and failing.err.splitlines()[-1] == "error: lr must be > 0, got -1.0"
