"""What users of Hydra do works with the real command, with `robustfl_bench.run`, and in apps of their own."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import hydra
import pytest
from hydra.core.config_store import ConfigStore
from hydra_plugins.robustfl_bench import RESOLVERS
from omegaconf import DictConfig, OmegaConf

import robustfl_bench as rb
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.docs import guides
from robustfl_bench.runner.config import compose, resolvers
from robustfl_bench.runner.experiment import rates
from scripts.checks import hydra_ids
from tests.conftest import Bench, config_of, only_run, run_folders
from tests.processes import ROOT, start

TINY = ("rounds=1", "num_clients=4", "num_byzantine=0", "partition=iid", "model.hidden=[4]")

FILES = {
    "mine/lab/site.yaml": "rate: 0.25\n",
    "mine/lab/home.yaml": "rate: 0.5\n",
    "mine/primary.yaml": """
defaults:
- config
- override aggregator: coomed
- _self_
my: {rate: 0.3}
lr: ${my.rate}
""",
    "mine/aggregator/relative.yaml": """
_target_: robustfl_bench.aggregators.Krum
num_byzantine: 1
num_selected: ${.num_byzantine}
""",
    "mine/aggregator/base/rule.yaml": "_target_: robustfl_bench.aggregators.TrMean\nnum_byzantine: 1\n",
    "mine/aggregator/listed.yaml": """
defaults:
- optional nothing@rule: absent
- base@rule: rule
- _self_
_target_: robustfl_bench.aggregators.PreAggregated
pre_aggregation: {_target_: robustfl_bench.pre_aggregations.Nnm, num_byzantine: 1}
""",
    "mine/aggregator/partial.yaml": "_target_: rules_for_hydra.trimmed\n_partial_: true\nf: 1\n",
    "mine/setting/saved.yaml": "# @package _global_\nhydra: {output_subdir: .hydra, run: {dir: out}}\n",
    "rules_for_hydra.py": """
import logging

import numpy as np


def trimmed(matrix, f=2):
    logging.getLogger("rules").info("asked")
    return np.sort(matrix, axis=0)[f : len(matrix) - f].mean(axis=0)
""",
    "callbacks_for_hydra.py": """
from hydra.experimental.callback import Callback


class Jobs(Callback):
    def on_job_end(self, config, job_return, **kwargs):
        print("ended", job_return.status.name)


class Sweeps(Callback):
    def on_multirun_end(self, config, **kwargs):
        print("all ended")
""",
}


@pytest.fixture
def mine(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The command in a folder with configs and modules of a user."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content.lstrip())
    monkeypatch.syspath_prepend(tmp_path)
    return lambda *words: bench(*TINY, *words)


DEMO = ["aggregator=average", "attack=none", "seed=0", "eval_every=1"]
KRUM = ["--config-dir", "mine", "num_clients=8"]
HABITS: dict[str, tuple[list[str], list[str]]] = {
    "a function of the grammar": (["lr=float(1)"], ["lr=1.0"]),
    "a sorted list": (["model.hidden=sort([5,4])"], ["model.hidden=[4,5]"]),
    "an interpolation in brackets": (["lr=${my[rates][1]}", "+my.rates=[1,.5]"], ["lr=0.5"]),
    "a group of one's own": (["--config-dir", "mine", "+lab=site", "lab.rate=0.75", "lr=${lab.rate}"], ["lr=0.75"]),
    "a searchpath": (["hydra.searchpath=[file://mine]", "+lab=site", "lr=${lab.rate}"], ["lr=0.25"]),
    "a key of one's own": (["+my.note={who: me}", "+my.rate=.3", "lr=${my.rate}"], ["lr=0.3"]),
    "a bare key that is read": (["+momentum=.9", "lr=${momentum}"], ["lr=0.9"]),
    "a primary config": (["--config-dir", "mine", "--config-name", "primary"], ["lr=0.3", "aggregator=coomed"]),
    "its folder": (["--config-path", "mine", "-cn", "primary"], ["lr=0.3", "aggregator=coomed"]),
    "optional and nested defaults": ([*KRUM, "aggregator=listed"], ["num_clients=8", "aggregator=b_krum",
                                     "aggregator@aggregator.rule=trmean", "aggregator.rule.num_byzantine=1",
                                     "pre_aggregation@aggregator.pre_aggregation=nnm",
                                     "aggregator.pre_aggregation.num_byzantine=1"]),
    "a relative interpolation": ([*KRUM, "aggregator=relative"], ["num_clients=8", "aggregator=krum",
                                 "aggregator.num_byzantine=1"]),
    "a decoded value": (["model.hidden=${oc.decode:'[3]'}"], ["model.hidden=[3]"]),
    "a partial function": ([*KRUM, "aggregator=partial"], ["num_clients=8", "aggregator=rules_for_hydra:trimmed",
                           "aggregator.rule.f=1"]),
    "a preset without its plus": (["experiment=demo", *DEMO], ["+experiment=demo", *DEMO]),
}  # fmt: skip


@pytest.mark.parametrize("habit", HABITS)
def test_a_habit_makes_the_run_of_words_that_need_no_hydra(mine: Bench, tmp_path: Path, habit: str) -> None:
    words, same = HABITS[habit]
    outcome = mine(*words)
    assert outcome.code == 0 and not outcome.err, outcome
    assert only_run(tmp_path / "results").name.endswith(compose.resolve([*TINY, *same]).run_id)


@pytest.mark.parametrize(
    ("words", "made"),
    [
        (["hydra.run.dir=out"], "out"),
        (["hydra.output_subdir=.hydra", "hydra.run.dir=out"], "out/.hydra/overrides.yaml"),
        (["--config-dir", "mine", "+setting=saved"], "out/.hydra/hydra.yaml"),
        (["hydra.run.dir=out", "hydra.job.chdir=true"], "out/results/runs"),
        (["hydra.mode=MULTIRUN", "seed=3"], "results/runs"),
        (["results_dir=${hydra:runtime.cwd}/there"], "there/runs"),
        (["-m", "results_dir=at-${hydra:job.num}", "seed=3,4"], "at-1/runs"),
        (["-m", "seed=3,4", "hydra/launcher=basic", "hydra.sweep.dir=many", "hydra.output_subdir=.hydra",
          "hydra.sweep.subdir=${hydra.job.num}"], "many/1/.hydra/overrides.yaml"),
        (["-m", "seed=3", "hydra/launcher=basic", "hydra.sweep.dir=many", "hydra.job.chdir=true"], "many/results/runs"),
    ],
)  # fmt: skip
def test_hydra_obeys_its_own_settings(mine: Bench, tmp_path: Path, words: list[str], made: str) -> None:
    if "${hydra:runtime.cwd}" in words[0]:  # in a process of its own: within one it depended on the tests before
        command = start(tmp_path, *TINY, *words)
        _, errors = command.communicate()
        assert command.returncode == 0, errors
    else:
        outcome = mine(*words)
        assert outcome.code == 0, outcome
    assert (tmp_path / made).exists()


def test_the_log_of_a_job_has_what_a_rule_logs(mine: Bench, tmp_path: Path) -> None:
    """In processes of their own, as Hydra sets up logging."""
    rule = ("aggregator=rules_for_hydra:trimmed", "num_clients=8", "hydra.run.dir=out", "hydra/job_logging=default")
    command = start(tmp_path, *TINY, *rule, "hydra.verbose=[rules]")
    _, errors = command.communicate()
    assert command.returncode == 0, errors
    assert "[rules][INFO] - asked" in (tmp_path / "out" / "robustfl-bench.log").read_text()


def test_callbacks_are_called(mine: Bench) -> None:
    target = "+hydra.callbacks.mine._target_=callbacks_for_hydra"
    assert mine(f"{target}.Jobs").out.splitlines()[-1] == "ended COMPLETED"
    assert mine(f"{target}.Jobs", "lr=-1").out == "ended FAILED\n"
    assert mine("-m", "seed=0,1", f"{target}.Sweeps").out.splitlines()[-1] == "all ended"
    assert mine("-m", "seed=0,1", f"{target}.Jobs", "hydra/launcher=basic").out.count("ended COMPLETED") == 2


def test_cells_are_composed_by_hydra_where_they_need_it(mine: Bench, tmp_path: Path) -> None:
    sweep = ("-m", "--config-dir", "mine", "+lab=site,home", "lr=${lab.rate}", "results_dir=${now:made-%f}")
    outcome = mine(*sweep, "hydra/launcher=processes", "hydra.launcher.n_jobs=2")
    assert outcome.code == 0, outcome
    (folder,) = tmp_path.glob("made-*")  # one moment for all processes
    assert sorted(str(config_of(path)["lr"]) for path in run_folders(folder).values()) == ["0.25", "0.5"]
    again = mine(*sweep[:-1], f"results_dir={folder.name}")
    assert again.code == 0 and "2 were stored" in again.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["+momentum=.9"], "no setting 'momentum'; robustfl-bench --cfg job shows all, and +my.momentum is a key of y"),
        (["--config-dir", "mine", "+lab=site", "+aggregatr.f=1"], "no setting 'aggregatr' (did you mean aggregator"),
        (["--config-dir", "mine", "+lab=sight"], "unknown lab 'sight' (did you mean site?)"),
        (["lr=flot(1)"], "cannot read 'lr=flot(1)'"),
        (["lr=${rb.shar:1,2}"], "unknown resolver 'rb.shar' in ${rb.shar:1,2} (did you mean rb.share"),
        (["lr=${oc.decode:'[1'}"], "cannot resolve ${oc.decode:'[1'}: "),
        (["+aggregator._partial_=true"], "aggregator: no option '_partial_'"),
        (["hydra.run.dir=out", "+experiment=demo"], "this sweeps aggregator, attack, seed: 36 runs; add -m"),
        (["hydra.run.dir=out", "rerun=nowhere"], "no run folder nowhere"),
        (["-m", "seed=0,1", "hydra.sweep.dir=x"], "hydra.sweep.dir (results_dir=FOLDER is where runs go); hydra/la"),
        (["-m", "seed=0,1", "hydra.sweep.subdir=x"], "no jobs of Hydra: hydra.sweep.subdir"),
        (["-m", "seed=0,1", "hydra.run.dir=x"], "hydra.run.dir=x is for a single run; results_dir=FOLDER"),
        (["-m", "hydra.launcher.n_jobs=2"], "no setting 'hydra.launcher.n_jobs'; add hydra/launcher=processes"),
        (["-m", "hydra.launcher.n_job=2"], "no setting 'hydra.launcher.n_job'; robustfl-bench --cfg hydra shows all"),
        (["-m", "seed=0,1", "hydra.output_subdir=x", "hydra.job.chdir=true"], "hydra.output_subdir, hydra.job.chdir;"),
        (["-m", "seed=0,1", "hydra/job_logging=default"], "hydra/job_logging; hydra/launcher=basic obeys"),
        (["-m", "seed=0,1", "+hydra.callbacks.mine._target_=callbacks_for_hydra.Jobs"], "the callback Jobs of jobs"),
        (["-m", "aggregator=glob(zz*)"], "aggregator=glob(zz*) has no values: no option of aggregator has such a name"),
    ],
)  # fmt: skip
def test_nothing_is_ignored_in_silence(mine: Bench, tmp_path: Path, words: list[str], message: str) -> None:
    mine(*words).refused(2, message)
    assert not (tmp_path / "results" / "runs").exists()


def test_a_stored_config_is_not_mixed_with_what_hydra_composes(mine: Bench, tmp_path: Path) -> None:
    assert mine().code == 0
    rerun = f"rerun={only_run(tmp_path / 'results')}"
    assert mine(rerun, "hydra.run.dir=out").out.startswith("stored result")
    mine(rerun, "lr=float(1)").refused(2, f"{rerun} goes only with words that need no Hydra")


def test_a_sweeper_that_is_not_installed_names_its_extra(mine: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustfl_bench.base.errors.find_spec", lambda name: None)
    mine("-m", "hydra/sweeper=optuna", "seed=0,1").refused(2, 'pip install "robustfl-bench[optuna]"')


def test_options_and_schemas_of_the_config_store_and_resolvers_of_the_user(mine: Bench, tmp_path: Path) -> None:
    stored = {"_target_": "robustfl_bench.aggregators.Krum", "num_byzantine": 1, "num_selected": 2}
    ConfigStore.instance().store(group="aggregator", name="stored_for_hydra", node=stored)
    ConfigStore.instance().store(group="stored_lab", name="site", node={"rate": 0.25})
    OmegaConf.register_new_resolver("halved_for_hydra", lambda value: value / 2, replace=True)
    based = "defaults: [stored_for_hydra, _self_]\nnum_selected: 3\n"
    (tmp_path / "mine" / "aggregator" / "based.yaml").write_text(based)
    krum = ("num_clients=8", "aggregator=krum", "aggregator.num_byzantine=1")
    for words, same in (
        (["num_clients=8", "aggregator=stored_for_hydra"], [*krum, "aggregator.num_selected=2"]),
        (["--config-dir", "mine", "num_clients=8", "aggregator=based"], [*krum, "aggregator.num_selected=3"]),
        (["+stored_lab=site", "lr='${halved_for_hydra:${stored_lab.rate}}'"], ["lr=0.125"]),
    ):
        assert mine(*words, "results_dir=own").code == 0
        run_id = compose.resolve([*TINY, *same]).run_id
        assert any(name.endswith(run_id) for name in run_folders(tmp_path / "own")), words


# --- whole configs ----------------------------------------------------------------------------------------------------


def composed(*words: str) -> DictConfig:
    """The config of these words as any Hydra app composes it."""
    with hydra.initialize_config_module("robustfl_bench.conf", version_base="1.3"):
        return hydra.compose("config", [*TINY, *words])


@pytest.mark.usefixtures("mine")
def test_a_composed_config_makes_the_run_of_its_words(tmp_path: Path) -> None:
    words = ("aggregator=mkrum", "num_byzantine=1", "num_clients=9", "participation=0.5", "attack=ipm")
    config, run_id = composed(*words), compose.resolve([*TINY, *words]).run_id
    for result in (rb.run(config), rb.run(**config), rb.run(**OmegaConf.to_container(config))):
        assert result.name.endswith(f"mkrum-s0-{run_id}") and result.summary["choices"]["aggregator"] == "mkrum"
        assert compose.resolve(shlex.split(result.summary["command"])[1:]).run_id == run_id
    assert rb.run(config, seed=3).name.endswith(compose.resolve([*TINY, *words, "seed=3"]).run_id)
    few = composed("aggregator=trmean", "num_byzantine=3", "num_clients=9", "participation=0.3", "attack=ipm")
    with pytest.raises(ConfigError, match="num_byzantine_declared=3 of a resolved config may mean f=2 here"):
        rb.run(**OmegaConf.to_container(few, resolve=True))
    own = composed("+my.rate=0.3", "lr=${my.rate}")
    assert rb.run(own).name.endswith(compose.resolve([*TINY, "lr=0.3"]).run_id)
    assert len(run_folders(tmp_path / "results")) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: rb.run(3), "a run takes words such as seed=1, or a config, got 3"),
        (lambda: rb.run(["seed=1"]), "or a config, got ['seed=1']; a list of words is given as run(*words)"),
        (lambda: rb.run(composed("rerun=somewhere")), "rerun=FOLDER goes with words alone"),
        (lambda: rb.run("hydra.job.chdir=true"), "hydra.job.chdir=true is for the command robustfl-bench"),
        (lambda: rb.run(composed("+momentum=0.9")), "no setting 'momentum'"),
    ],
)
@pytest.mark.usefixtures("mine")
def test_a_config_that_is_none_is_refused(given: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        given()


def test_random_configs_are_the_same_run_by_words_by_hydra_and_by_their_config() -> None:
    assert rates  # brings a resolver
    for _, words in zip(range(12), hydra_ids.drawn(7), strict=False):
        assert [(way, wrong) for way, wrong in hydra_ids.compared(words) if wrong] == [], words


# --- other apps -------------------------------------------------------------------------------------------------------


def test_resolvers_are_registered_once_and_replace_nobodys(tmp_path: Path) -> None:
    code = """
from omegaconf import OmegaConf
OmegaConf.register_new_resolver("share", lambda value: value)
import robustfl_bench, hydra.core.plugins
hydra.core.plugins.Plugins.instance()
config = OmegaConf.create({"scale": "quick", "a": "${at_scale:1,2}", "b": "${rb.share:0.5,8}", "c": "${share:x}"})
print(OmegaConf.to_container(config, resolve=True))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "{'scale': 'quick', 'a': 2, 'b': 4, 'c': 'x'}\n"
    assert {*RESOLVERS} == {*resolvers.PLAIN, *resolvers.BY_ROOT}


APP = """
import sys

import hydra
import robustfl_bench as rb


@hydra.main(version_base="1.3", config_path="pkg://robustfl_bench.conf", config_name="config")
def main(config):
    return rb.run(config).accuracy


if __name__ == "__main__":
    main()
"""


def in_python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, which finds this package as the tests do."""
    paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)


def test_an_app_of_a_user_over_our_config(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    for said in ("2 finished", "2 finished; 2 were stored"):
        done = in_python(tmp_path, "app.py", "-m", *TINY, "seed=0,1")
        assert done.returncode == 0 and done.stderr.endswith(f"sweep: 2 runs: {said}\n"), done.stderr
    ids = {compose.resolve([*TINY, f"seed={seed}"]).run_id for seed in (0, 1)}
    assert {name.rpartition("-")[2] for name in run_folders(tmp_path / "results")} == ids
    swept = in_python(tmp_path, "app.py", *TINY, "+experiment=demo")
    assert swept.returncode == 1 and "this config sweeps aggregator, attack, seed: add --multirun" in swept.stderr


PAGE = guides()["howto"].read_text(encoding="utf-8").partition("## Anybody's Hydra app")[2]


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """The app of the page, in a folder."""
    (code,), (yaml,) = (re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S) for kind in ("python", "yaml"))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text(yaml)
    (tmp_path / "train.py").write_text(code)
    return tmp_path


@pytest.mark.slow
def test_our_sweeper_and_launchers_serve_anybodys_app(app: Path) -> None:
    assert in_python(app, "train.py", "lr=0.2").returncode == 0
    first = in_python(app, "train.py", "-m", "lr=0.1,0.2")
    assert first.returncode == 0 and first.stderr.endswith("sweep: 2 runs: 2 finished\n"), first.stderr
    more = in_python(app, "train.py", "-m", "lr=0.1,0.2,0.3", "hydra.launcher.n_jobs=2")
    assert more.stderr.endswith("sweep: 3 runs: 3 finished; 2 were stored\n"), more.stderr
    assert {path.parent.name for path in app.glob("jobs/*/.hydra")} == {"lr=0.1", "lr=0.2", "lr=0.3"}
    (app / "train.py").write_text((app / "train.py").read_text() + "# changed\n")
    assert in_python(app, "train.py", "-m", "lr=0.1").stderr.endswith("sweep: 1 run: 1 finished\n")
    for stored in ("", "; 2 were stored"):  # of a key that this package does not have
        known = in_python(app, "train.py", "-m", "+width=1,2", "hydra/launcher=rb_in_process")
        assert known.stderr.endswith(f"sweep: 2 runs: 2 finished{stored}\n"), known.stderr


@pytest.mark.slow
def test_a_call_that_fails_is_recorded_and_repeated(app: Path) -> None:
    code = (app / "train.py").read_text()
    (app / "train.py").write_text(code.replace("    return", "    if cfg.lr > 1:\n        sys.exit(0)\n    return"))
    (app / "train.py").write_text("import sys\n" + (app / "train.py").read_text())
    for launcher in ("rb_in_process", "rb_processes"):
        failing = in_python(app, "train.py", "-m", "lr=0.1,2", f"hydra/launcher={launcher}")
        assert failing.returncode == 1 and "1 finished, 1 failed" in failing.stderr
        assert "the task ended its process with exit code 0" in failing.stderr and "Traceback" not in failing.stderr
    timed = in_python(app, "train.py", "-m", "lr=0.1", "hydra.sweep.dir=${now:%H}")
    assert timed.returncode == 1 and "\nhydra.sweep.dir must be the same each time" in f"\n{timed.stderr}"
