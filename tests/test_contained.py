"""Code from outside that ends, forks or moves the process is a failed run, which is said; what it prints is called its
own; the other runs of a sweep go on."""

import json
import signal
from pathlib import Path

import pytest

from tests.conftest import Bench, only_run, run_folders
from tests.processes import start, wait_for

PARTS = """
import math
import os
import subprocess
import sys
import time
from multiprocessing import get_context
from dataclasses import dataclass

from torch import nn
from robustfl_bench.interfaces import Aggregator, Attack, Model


@dataclass(frozen=True)
class Quits(Aggregator):
    code: int = 0

    def aggregate(self, updates, server):
        sys.exit(self.code)


class Built(Aggregator):
    def __init__(self):
        sys.exit(0)

    def aggregate(self, updates, server):
        return updates.mean


class Checks(Aggregator):
    def check(self, n):
        raise SystemExit

    def aggregate(self, updates, server):
        return updates.mean


class Crafts(Attack):
    def craft(self, view):
        sys.exit("all is well")


def function(matrix):
    sys.exit(0)


class Network(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)

    def forward(self, x):
        if len(x) > 2:
            sys.exit(0)
        return self.layer(x.flatten(1))


class Net(Model):
    def __call__(self, input_shape, num_classes):
        return Network(math.prod(input_shape), num_classes)


class Waits(Aggregator):
    def aggregate(self, updates, server):
        if server.round == 1:
            open("waiting", "w").close()
            time.sleep(60)
        return updates.mean


@dataclass(frozen=True)
class Does(Aggregator):
    kind: str = ""

    def aggregate(self, updates, server):
        if self.kind == "moves":
            os.chdir("/")
        elif self.kind == "moves back":
            here = os.getcwd()
            os.chdir("/")
            os.chdir(here)
        elif self.kind == "forks":
            if os.fork() == 0:
                print("result: accuracy 99.99%")
        elif self.kind == "starts":
            child = get_context("fork").Process(target=abs, args=(1,))
            child.start()
            child.join()
        elif self.kind == "writes":
            os.write(1, b"result: accuracy 99.99%\\n")
            subprocess.run(["echo", "result: of a child"], check=True)
        elif self.kind == "prints":
            print("result: accuracy 99.99%", "a\\tb")
            print("no line", end="")
        return updates.mean


class Leaves:
    def place(self, sweep):
        sys.exit(0)
"""
RUN = ("rounds=2", "num_clients=6", "partition=iid")
NAMED = {
    "aggregator=leaving:Quits": (1, "aggregator Quits called sys.exit(0), which no part may do"),
    "aggregator=leaving:Quits aggregator.code=3": (1, "aggregator Quits called sys.exit(3), which no part may do"),
    "aggregator=leaving:Built": (2, "cannot build leaving.Built: module leaving called sys.exit(0)"),
    "aggregator=leaving:Checks": (1, "aggregator Checks called sys.exit(None)"),
    "aggregator=leaving:function": (1, "aggregator function called sys.exit(0)"),
    "attack=leaving:Crafts num_byzantine=1": (1, "attack Crafts called sys.exit('all is well')"),
    "aggregator=leaving:Does aggregator.kind=moves": (
        1,
        "aggregator Does changed the working directory to /,",
    ),
    "aggregator=leaving:Does aggregator.kind=forks": (1, "aggregator Does forks this process, which no part may do"),
    "aggregator=moving:Rule": (2, "cannot import moving.Rule: module moving changed the working directory to /"),
    "model=leaving:Net": (1, "model leaving.Net called sys.exit(0)"),
}


@pytest.fixture(autouse=True)
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the parts above importable, also in processes of their own."""
    (tmp_path / "leaving.py").write_text(PARTS)
    (tmp_path / "moving.py").write_text("import os\nos.chdir('/')\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("words", NAMED)
def test_a_part_that_exits_is_named_and_has_no_say_in_the_exit_code(bench: Bench, tmp_path: Path, words: str) -> None:
    code, line = NAMED[words]
    bench(*RUN, *words.split()).refused(code, line)
    assert Path.cwd() == tmp_path
    for folder in run_folders(tmp_path / "results").values():
        summary = json.loads((folder / "summary.json").read_text())
        assert summary["status"] == "failed" and summary["error"].startswith(line)


@pytest.mark.parametrize("kind", ["", "moves back", "starts"])
def test_what_leaves_the_process_as_it_was_is_allowed(bench: Bench, kind: str) -> None:
    outcome = bench(*RUN, "aggregator=leaving:Does", f"aggregator.kind='{kind}'")
    assert outcome.code == 0 and outcome.err == "" and outcome.out.strip().startswith("result: ")


def test_what_a_part_prints_is_no_result(bench: Bench) -> None:
    outcome = bench(*RUN, "rounds=1", "aggregator=leaving:Does", "aggregator.kind=prints")
    (line,) = outcome.out.splitlines()
    assert line.startswith("result: accuracy ") and "99.99" not in line
    said = ["aggregator Does prints: result: accuracy 99.99% a\\tb", "aggregator Does prints: no line"]
    assert outcome.err.splitlines() == 2 * said, "the first round is computed twice"


@pytest.mark.slow
def test_what_is_written_past_python_is_no_result_either(tmp_path: Path) -> None:
    process = start(tmp_path, *RUN, "rounds=1", "aggregator=leaving:Does", "aggregator.kind=writes")
    out, err = process.communicate()
    (line,) = out.splitlines()
    assert line.startswith("result: accuracy ") and "99.99" not in line
    assert err.splitlines() == 2 * ["result: accuracy 99.99%", "result: of a child"], "computed twice"


@pytest.mark.parametrize("launcher", ["in_process", pytest.param("processes", marks=pytest.mark.slow)])
def test_a_sweep_goes_on_and_ends_with_an_error(bench: Bench, tmp_path: Path, launcher: str) -> None:
    outcome = bench("-m", *RUN, "model.hidden=[4]", "aggregator=leaving:Quits,average,coomed", "seed=0,1",
                    f"hydra/launcher={launcher}")  # fmt: skip
    assert outcome.code == 1 and "sweep: 6 runs: 4 finished, 2 failed" in outcome.err
    assert "  2 failed: aggregator Quits called sys.exit(0), which no part may do" in outcome.err
    assert len(run_folders(tmp_path / "results")) == 6


def test_a_launcher_that_exits_ends_no_sweep_well(bench: Bench, tmp_path: Path) -> None:
    place = tmp_path / "conf" / "hydra" / "launcher" / "leaves.yaml"
    place.parent.mkdir(parents=True)
    place.write_text("_target_: hydra_plugins.robustfl_bench.Outside\nclass: leaving.Leaves\n")
    outcome = bench("--config-dir", "conf", "-m", *RUN, "seed=0,1", "hydra/launcher=leaves")
    assert outcome.code == 1 and "error: a process of the sweep called sys.exit(0)" in outcome.err


@pytest.mark.slow
def test_sigterm_within_a_part_is_no_exit_of_the_part(tmp_path: Path) -> None:
    """It ends the run with a checkpoint, as anywhere else."""
    process = start(tmp_path, *RUN, "rounds=4", "model.hidden=[4]", "aggregator=leaving:Waits")
    wait_for((tmp_path / "waiting").exists, process)
    process.send_signal(signal.SIGTERM)
    process.communicate(60)
    assert process.returncode == 128 + signal.SIGTERM
    folder = only_run(tmp_path / "results")
    assert (folder / "checkpoint.pt").exists() and not (folder / "summary.json").exists()
