"""A run over several processes: the record of one process, also after one of them was killed."""

import json
import os
import signal
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config import request
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.runner.processes import launch
from robustfl_bench.runner.processes.columns import Share, SpreadRounds
from robustfl_bench.runner.processes.launch import check_spread
from robustfl_bench.train.rounds import Rounds, initial_state
from robustfl_bench.train.sight import train_byzantine
from tests import processes
from tests.conftest import Bench, contents, run_folders
from tests.presets import small

pytestmark = pytest.mark.slow

RUN = ("partition=iid", "num_clients=10", "num_byzantine=2", "aggregator=krum", "attack=lie",
       "local_update=momentum", "participation=0.8", "pre_aggregation=nnm")  # fmt: skip


def started(folder: Path, *overrides: str) -> processes.Command:
    return processes.start(folder, *RUN, "processes=3", "checkpoint_seconds=0", *overrides)


def _rounds(folder: Path) -> set[int]:
    """The rounds of which process 1 has a checkpoint."""
    return {int(path.stem.rpartition("_")[2]) for path in folder.glob("runs/*/ring/client_1_round_*.pt")}


def test_a_killed_process_is_named_and_the_run_goes_on_to_the_same_bytes(bench: Bench, tmp_path: Path) -> None:
    whole = started(tmp_path, "rounds=30", "results_dir=whole")
    killed = started(tmp_path, "rounds=30", "results_dir=killed")
    pid = int(next(line for line in killed.lines(2) if line.startswith("process 1 of 3")).rpartition(" ")[2])
    processes.wait_for(lambda: _rounds(tmp_path / "killed") & {*range(5, 25)}, killed)
    os.kill(pid, signal.SIGKILL)
    told = killed.communicate(120)[1].splitlines()[-1]
    assert killed.returncode == 1
    assert told == "error: process 1 was ended by signal 9; the same command goes on from the last checkpoint"
    again = started(tmp_path, "rounds=30", "results_dir=killed")
    for process in (whole, again):
        assert "error" not in process.communicate(120)[1] and process.returncode == 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    (folder,) = run_folders(tmp_path / "whole").values()
    assert json.loads((folder / "summary.json").read_text())["processes"]["number"] == 3
    assert not list(tmp_path.glob("*/runs/*/ring"))

    assert bench(*RUN, "rounds=30", "results_dir=alone").code == 0
    (alone,) = run_folders(tmp_path / "alone").values()
    rows, expected = (pd.read_csv(found / "metrics.csv") for found in (folder, alone))
    assert list(rows) == list(expected)
    np.testing.assert_allclose(rows["test_loss"], expected["test_loss"], rtol=1e-4)
    assert (rows["test_accuracy"] - expected["test_accuracy"]).abs().max() < 0.01


def _impatient() -> None:
    launch.GRACE = 0.3


def test_the_first_process_does_not_wait_for_one_that_waits_for_the_killed_one(tmp_path: Path) -> None:
    """Stopped, process 2 closes no connection and says nothing."""
    running = processes.start(tmp_path, *RUN, "processes=3", "rounds=3000", first=_impatient)
    pids = [int(line.rpartition(" ")[2]) for line in running.lines(2)]
    processes.wait_for(lambda: processes.lines_of_metrics(tmp_path / "results") > 3, running)
    os.kill(pids[1], signal.SIGSTOP)
    os.kill(pids[0], signal.SIGKILL)
    told = running.communicate(60)[1].splitlines()[-1]
    assert running.returncode == 1
    assert told == "error: process 1 was ended by signal 9; the same command goes on from the last checkpoint"


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("attack=worst", "attack Worst needs whole updates"),
        ("attack=planned", "attack Planned needs whole updates"),
        ("protocol=ring", "needs rounds with a server"),
        ("clustering=ifca", "a clustering has several"),
        ("device=cuda", "trains on the CPU"),
        ("knowledge=own", "needs knowledge=all"),
    ],
)
def test_what_several_processes_cannot_do_is_said_before_data_are_read(override: str, reason: str) -> None:
    usual = () if override.startswith("attack") else ("attack=label_flip", "byzantine_placement=replace")
    config, _ = request.composed(["processes=2", *usual, override])
    with pytest.raises(ConfigError, match=reason):
        check_spread(plan(config))


class Alone:
    """A group of one process."""

    rank, size = 0, 1

    def swap(self, outgoing: list[Tensor], incoming: list[Tensor]) -> None:
        incoming[0].copy_(outgoing[0])

    def sum(self, numbers: Tensor) -> Tensor:
        return numbers


def test_attackers_train_from_the_model_that_they_received_and_no_other() -> None:
    federation = small("attack=sign_flip", "byzantine_placement=replace", "num_byzantine=2", "partition=iid")
    state = initial_state(federation)
    rounds = SpreadRounds(federation, Share(cast("Any", Alone()), federation.network.dim))
    context = rounds.context(state, rounds.cohorts(state))
    view = context._attack_view(context.train(), context.aggregate, cast("Any", None))
    assert torch.equal(view.own, train_byzantine(Rounds(federation).context(state, rounds.cohorts(state)), view.params))
    with pytest.raises(ConfigError, match="need it whole: set processes=1"):
        view.train_own(2 * view.params)
