"""A run, and a table of runs, as functions of Python."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import robustfl_bench
from robustfl_bench.experiment.plan import InfeasibleError
from tests.conftest import Bench, contents

SMALL = ("rounds=2", "model.hidden=[8]", "num_clients=8", "num_byzantine=2")


def test_a_run_is_that_of_the_command_and_a_stored_one_is_read(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result = robustfl_bench.run("aggregator=krum", "attack=ipm", *SMALL, results_dir="python")
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")
    assert list(result.metrics["round"]) == [1, 2]
    assert result.metrics["test_accuracy"].iloc[-1] == result.summary["final"]["test_accuracy"]
    assert result.path.is_dir() and result.path.parent == Path("python/runs")
    command = bench("aggregator=krum", "attack=ipm", *SMALL, "results_dir=command")
    assert command.code == 0, command.err
    assert contents(Path("python")) == contents(Path("command"))
    again = bench(*shlex.split(result.summary["command"])[1:])
    assert again.out.startswith("stored result") and str(result.path) in again.out
    again_here = robustfl_bench.run("aggregator=krum", "attack=ipm", *SMALL, results_dir="python")
    assert again_here.summary == result.summary and again_here.metrics.equals(result.metrics)
    runs = robustfl_bench.results("python", where="aggregator=krum")
    assert list(runs["final_accuracy"]) == [result.summary["final"]["test_accuracy"]]


def test_the_config_of_a_run_folder_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = robustfl_bench.run("aggregator=krum", "attack=ipm", *SMALL, results_dir="a (b)")
    assert robustfl_bench.run(f"rerun='{first.path}'", results_dir="a (b)").path == first.path
    other = robustfl_bench.run(f"rerun='{first.path}'", "seed=3", results_dir="a (b)")
    assert other.path != first.path and other.summary["final"] != first.summary["final"]
    assert shlex.split(other.summary["command"])[1:] == [f"rerun='{first.path}'", "seed=3", "results_dir='a (b)'"]


def test_an_option_of_a_folder_of_the_users_own_is_run(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "conf" / "aggregator").mkdir(parents=True)
    option = "_target_: robustfl_bench.aggregators.Krum\nnum_byzantine: 1\n"
    (tmp_path / "conf" / "aggregator" / "near.yaml").write_text(option)
    result = robustfl_bench.run("aggregator=near", *SMALL, config_dir="conf")
    assert "-near-" in result.path.name
    assert bench("--config-dir", "conf", "aggregator=near", *SMALL).out.startswith("stored result")


def test_a_model_that_diverges_is_a_result_and_what_may_not_be_meant_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match=r"eval_every=5 is more than rounds=2"):
        result = robustfl_bench.run("lr=1e30", *SMALL, "eval_every=5")
    assert result.summary["status"] == "diverged" and result.metrics.empty


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        (["aggregator=krumm"], robustfl_bench.ConfigError, "unknown aggregator 'krumm' (did you mean krum"),
        (["lr=fast"], robustfl_bench.ConfigError, "lr must be of type float, got 'fast'"),
        (["krum"], robustfl_bench.ConfigError, "an override is KEY=VALUE, got 'krum'"),
        (
            ["aggregator=krum,boba", "seed=0,1"],
            robustfl_bench.ConfigError,
            "this sweeps aggregator, seed: 4 runs; add -m",
        ),
        (["+experiment=demo"], robustfl_bench.ConfigError, "this sweeps aggregator, attack, seed: 36 runs"),
        (["rerun=results/runs/x"], robustfl_bench.ConfigError, "no run folder results/runs/x"),
        (["hydra.run.dir=x"], robustfl_bench.ConfigError, "hydra.run.dir=x is for sweeps"),
        (["aggregator=krum", "num_byzantine=9"], InfeasibleError, "Krum needs n > 2f + 2"),
        (["dataset=mnist", "data_dir=nowhere"], robustfl_bench.DataError, "mnist"),
    ],
)
def test_what_cannot_be_run_raises_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: list[str], error: type[Exception], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as caught:
        robustfl_bench.run(*overrides)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not Path("results").exists()


def test_a_table_of_runs_raises_what_a_command_reports(tmp_path: Path) -> None:
    with pytest.raises(robustfl_bench.DataError, match="no runs in"):
        robustfl_bench.results(tmp_path)
    robustfl_bench.run(*SMALL, "rounds=1", results_dir=tmp_path)
    with pytest.raises(robustfl_bench.ConfigError, match="unknown key 'aggregatr'; did you mean aggregator"):
        robustfl_bench.results(tmp_path, where="aggregatr=krum")
    with pytest.raises(robustfl_bench.DataError, match="no run has aggregator=krum"):
        robustfl_bench.results(tmp_path, where=["seed=0", "aggregator=krum"])
    assert len(robustfl_bench.results(str(tmp_path), where=["seed=0", "aggregator=average"])) == 1


def test_importing_the_package_imports_nothing_heavy_and_its_names_are_all_there() -> None:
    code = (
        "import sys, robustfl_bench as r\n"
        "heavy = {'torch', 'numpy', 'pandas', 'hydra', 'omegaconf', 'matplotlib', 'yaml'}\n"
        "print(heavy & set(sys.modules))\n"
        "r.Aggregator, r.Attack, r.ConfigError\n"
        "print(heavy & set(sys.modules) - {'yaml'})\n"
        "import robustfl_bench.runs.where\n"
        "print(callable(r.results), set(r.__all__) <= set(dir(r)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["set()", "set()", "True True"]
    assert all(getattr(robustfl_bench, name).__doc__ for name in robustfl_bench.__all__)
    assert not set(robustfl_bench.__all__) & {path.stem for path in Path(robustfl_bench.__file__).parent.iterdir()}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = robustfl_bench.nothing
