"""A run, and a table of runs, as functions of Python."""

import importlib
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import robustfl_bench
from robustfl_bench.doors.api import objects
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.plan import InfeasibleError
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
        (["hydra.run.dir=x"], robustfl_bench.ConfigError, "hydra.run.dir=x is for the command robustfl-bench"),
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
    with pytest.raises(robustfl_bench.ConfigError, match=r"path of a results folder, got \['aggregator=krum'\]"):
        robustfl_bench.results(["aggregator=krum"])  # type: ignore[arg-type]
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
        "import robustfl_bench.read.runs.where\n"
        "print(callable(r.results), set(r.__all__) <= set(dir(r)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["set()", "set()", "True True"]
    assert all(getattr(robustfl_bench, name).__doc__ for name in robustfl_bench.__all__)
    assert not set(robustfl_bench.__all__) & {path.stem for path in Path(robustfl_bench.__file__).parent.iterdir()}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = robustfl_bench.nothing


def test_a_class_of_the_package_is_the_option_of_its_name(tmp_path: Path) -> None:
    first = robustfl_bench.run(*SMALL, aggregator=robustfl_bench.CooMed, results_dir=tmp_path)
    again = robustfl_bench.run(*SMALL, aggregator="coomed", results_dir=tmp_path)
    assert first.path == again.path
    assert len(robustfl_bench.results(tmp_path, where="aggregator=coomed")) == 1


@pytest.mark.parametrize(("group", "target", "option"), [
    ("model", "models.Mlp", "mlp"),
    ("model", "models.LeNet", "lenet"),
    ("attack", "attacks.Held", "held"),
    ("aggregator", "aggregators.SequentialClipping", "sequential_clipping"),
])  # fmt: skip
def test_of_options_of_one_class_it_is_the_one_with_its_defaults(group: str, target: str, option: str) -> None:
    """``linear`` is an Mlp, too, and ``drift_4`` is Held."""
    module, _, name = f"robustfl_bench.{target}".rpartition(".")
    (word,) = objects.overrides({group: getattr(importlib.import_module(module), name)})
    of_class = compose.resolve([f"{group}={module}:{name}"])
    assert word == f"{group}={option}" and compose.resolve([word]).run_id == of_class.run_id


def test_a_run_that_is_asked_for_twice_has_one_row(tmp_path: Path) -> None:
    """``coomed`` is another name of ``median``; the seed is given twice. Two rows would count it twice in a mean."""
    twice = robustfl_bench.sweep(*SMALL, aggregator=["coomed", "median"], seed=[0, 0], results_dir=tmp_path)
    assert len(twice) == 1 and {*twice["state"]} == {"finished"}


def test_columns_of_all_kinds_are_drawn(tmp_path: Path) -> None:
    gossip = robustfl_bench.run(*SMALL, "protocol=gossip", "topology=ring", results_dir=tmp_path)
    for column in ("recall_0", "node_accuracy_mean"):
        assert gossip.plot(value=column).lines
    with pytest.raises(robustfl_bench.ConfigError, match="draws a table of runs, got a Result; a Result has a method"):
        robustfl_bench.plot.accuracy(gossip)  # type: ignore[arg-type]
    runs = robustfl_bench.results(tmp_path)
    assert robustfl_bench.plot.accuracy(runs, lines=["aggregator", "lr"]).lines


def test_labels_of_words_tensors_and_several_data_sets_are_taken(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((60, 4)), rng.integers(3, size=60)
    words = pd.Series(np.array(["a", "b", "c"])[y]).astype(object)
    tensor = torch.tensor(x, requires_grad=True)
    small = {"rounds": 1, "num_clients": 4, "num_byzantine": 1, "partition": "iid", "results_dir": tmp_path}
    named = robustfl_bench.run(dataset=(tensor, words), **small)
    assert len(named.summary["final"]["recall"]) == 3
    swept = robustfl_bench.sweep(dataset=[(x, y), (1 - x, y)], **small)
    assert swept["state"].tolist() == ["finished"] * 2 and swept["run_id"].nunique() == 2
    with pytest.raises(robustfl_bench.ConfigError, match="seed has no values to sweep"):
        robustfl_bench.sweep(seed=[], **small)
    with pytest.raises(robustfl_bench.ConfigError, match=r"got a ndarray$"):
        robustfl_bench.run(dataset=[x, y], **small)


def test_numbers_of_numpy_are_numbers() -> None:
    assert robustfl_bench.Krum(np.int64(2)).num_byzantine == 2  # type: ignore[arg-type]
    assert robustfl_bench.FromFile(Path("x.csv")).path == Path("x.csv")  # type: ignore[arg-type,comparison-overlap]
