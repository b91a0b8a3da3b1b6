"""Launchers: the old name of one, and classes of the user."""

import re
from pathlib import Path

import pytest

from robustfl_bench.commands.docs import guides
from tests.conftest import Bench, contents, run_folders

SWEEP = ("-m", "rounds=2", "num_clients=4", "partition=iid", "model.hidden=[4]", "seed=0,1")
PAGE = guides()["howto"].read_text(encoding="utf-8").partition("## A launcher of your own")[2].partition("\n## ")[0]
MINE = """
from dataclasses import dataclass

from robustfl_bench.runner.sweeps.take import take


@dataclass
class Here:
    words: list[str]
    most: int = 1

    def place(self, sweep):
        print(len(sweep.cells), type(self.words).__name__, *self.words, self.most)
        take(sweep)


class Idle:
    def place(self, sweep):
        pass


class Deaf:
    pass
"""
YAML = "_target_: hydra_plugins.robustfl_bench.Outside\nclass: {}\n"


@pytest.fixture
def here(bench: Bench, tmp_path: Path) -> Bench:
    """The command in a folder with launchers of the user."""
    (tmp_path / "launchers_of_mine.py").write_text(MINE)
    group = tmp_path / "conf" / "hydra" / "launcher"
    group.mkdir(parents=True)
    (group / "here.yaml").write_text(YAML.format("launchers_of_mine.Here") + "words: [a, b]\nmost: 1\n")
    for name in ("Idle", "Deaf", "Absent"):
        (group / f"{name.lower()}.yaml").write_text(YAML.format(f"launchers_of_mine.{name}"))
    (group / "nothing.yaml").write_text(YAML.partition("class")[0])
    return lambda *words: bench("--config-dir", "conf", *words)


def test_a_class_of_the_user_takes_the_runs_that_are_left(here: Bench, tmp_path: Path) -> None:
    mine = ("hydra/launcher=here", "hydra.launcher.most=3", "results_dir=mine")
    first = here(*SWEEP, "results_dir=whole")
    outcome = here(*SWEEP, *mine)
    assert first.code == outcome.code == 0, outcome.err
    assert "2 list a b 3" in outcome.out.splitlines() and "sweep: 2 runs: 2 finished" in outcome.err
    assert contents(tmp_path / "mine") == contents(tmp_path / "whole")
    more = here(*SWEEP[:-1], "seed=0,1,2", *mine)
    assert "1 list a b 3" in more.out.splitlines() and "sweep: 3 runs: 3 finished; 2 were stored" in more.err
    again = here(*SWEEP, *mine)
    assert again.code == 0 and "list a b" not in again.out and "2 were stored" in again.err


@pytest.mark.parametrize(
    ("launcher", "code", "phrase"),
    [
        ("idle", 1, "sweep: 2 runs: 2 missing"),
        ("deaf", 2, "launchers_of_mine.Deaf needs a method place(sweep)"),
        ("absent", 2, "has no attribute 'Absent'"),
        ("nothing", 2, "hydra.launcher.class must be a dotted name such as my_module.MyLauncher, got None"),
        ("here +hydra.launcher.least=1", 2, "no option 'least'"),
    ],
)
def test_a_launcher_that_does_not_work_is_reported_in_one_line(
    here: Bench, launcher: str, code: int, phrase: str
) -> None:
    outcome = here(*SWEEP, *f"hydra/launcher={launcher}".split())
    outcome.refused(code, phrase)


QSUB = """#!/bin/sh
echo "$@" > asked
cat > job
for number in 1 2; do sh job & done
wait
"""


@pytest.mark.slow
def test_the_launcher_of_the_page_submits_its_jobs(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a ``qsub`` that starts two jobs here."""
    (code,), (yaml,) = (re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S) for kind in ("python", "yaml"))
    place = tmp_path / "my_conf" / "hydra" / "launcher" / "pbs.yaml"
    place.parent.mkdir(parents=True)
    place.write_text(yaml)
    (tmp_path / "pbs.py").write_text(code)
    (tmp_path / "qsub").write_text(QSUB)
    (tmp_path / "qsub").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    outcome = bench("--config-dir", "my_conf", *SWEEP, "hydra/launcher=pbs", "hydra.launcher.jobs=2")
    assert outcome.code == 0 and "sweep: 2 runs: 2 finished" in outcome.err, outcome.err
    asked = (tmp_path / "asked").read_text()
    assert asked == "-V -W block=true -J 1-2 -l select=1:ncpus=2,walltime=24:00:00\n"
    assert len(run_folders(tmp_path / "results")) == 2


@pytest.mark.slow
def test_the_old_name_of_processes_says_the_new_one(bench: Bench, tmp_path: Path) -> None:
    outcome = bench(*SWEEP, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    assert outcome.code == 0 and len(run_folders(tmp_path / "results")) == 2
    assert outcome.err.splitlines()[0].startswith("note: hydra/launcher=joblib is now hydra/launcher=processes")
    assert "joblib" not in bench(*SWEEP, "hydra/launcher=processes", "hydra.launcher.n_jobs=2").err
