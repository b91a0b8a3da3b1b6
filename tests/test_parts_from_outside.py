"""Parts given by ``_target_``: they remember over a kill; and a metric column, which is added in one place."""

import signal
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import Bench, contents, run_folders, state_of
from tests.processes import die_after_checkpoint, start

OWN_PARTS = '''
import torch
from robustfl_bench.train import loop
from robustfl_bench.interfaces import Attack, Crafted, ServerOptimizer
from robustfl_bench.parts.server_optimizers.sgd import Sgd


class Creep(Attack):
    """Sends the honest mean, turned further round by round."""

    def craft(self, view):
        rounds = view.memory.get("rounds", torch.zeros(1)) + 1
        view.aggregate(view.mean), view.aggregate(-view.mean)
        return Crafted(view.mean * (1 - 0.01 * rounds), {"rounds": rounds})


class Momentum(ServerOptimizer):
    """Heavy-ball momentum."""

    def __call__(self, params, aggregate, step_size, memory):
        velocity = aggregate + 0.5 * memory.get("velocity", torch.zeros_like(aggregate))
        return params - step_size * velocity, {"velocity": velocity}


class Recorded(Sgd):
    """Plain steps; importing its module adds columns to the records."""


made = loop.record


def record(evaluation, metrics):
    (model,) = evaluation.round.models
    return made(evaluation, metrics) | {
        "aggregate_norm": float(model.aggregate.vector.norm()),
        "loss_spread": float(model.losses.std()),
        "clients": len(evaluation.round.cohorts[0]),
    }


loop.record = record
'''
RUN = (
    "num_clients=10", "num_byzantine=2", "byzantine_placement=replace", "batch_size=8", "model.hidden=[8]",
    "attack._target_=own_parts.Creep", "server_optimizer._target_=own_parts.Momentum", "rounds=60",
    "eval_every=20", "checkpoint_seconds=0", "lr=0.05",
)  # fmt: skip
RING = (
    "num_clients=3", "partition=iid", "batch_size=8", "model.hidden=[8]", "attack=none", "aggregator=rar", "rounds=4",
    "eval_every=2", "protocol=ring", "device=cpu", "server_optimizer._target_=own_parts.Recorded",
)  # fmt: skip


def finished(folder: Path, *overrides: str, module: str = "robustfl_bench.commands.bench") -> None:
    process = start(folder, *overrides, module=module)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def test_an_attack_and_a_server_optimizer_remember_over_a_kill(tmp_path: Path) -> None:
    (tmp_path / "own_parts.py").write_text(OWN_PARTS)
    finished(tmp_path, *RUN, "results_dir=whole")
    process = start(tmp_path, *RUN, "results_dir=cut", first=partial(die_after_checkpoint, 0.0))
    process.communicate()
    assert process.returncode == -signal.SIGPROF
    (checkpoint,) = (tmp_path / "cut" / "runs").glob("*/checkpoint.pt")
    state = state_of(checkpoint)
    assert 0 < state["round"] < 60
    assert state["memory"][0]["attack"]["rounds"].item() == state["round"], "trials of the attacker count for nothing"
    assert state["memory"][0]["server"]["velocity"].norm() > 0
    finished(tmp_path, *RUN, "results_dir=cut")
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    finished(tmp_path, *RUN, "results_dir=plain", "server_optimizer._target_=own_parts.Recorded")
    plain, whole = (contents(tmp_path / name, "metrics.csv") for name in ("plain", "whole"))
    assert list(plain.values()) != list(whole.values()), "momentum makes a difference"


def test_a_metric_column_is_added_in_one_place(tmp_path: Path) -> None:
    (tmp_path / "own_parts.py").write_text(OWN_PARTS)
    finished(tmp_path, *RING, "results_dir=simulated")
    finished(tmp_path, *RING, "results_dir=real", module="robustfl_bench.commands.ring")
    assert contents(tmp_path / "simulated") == contents(tmp_path / "real")
    ((_, folder),) = run_folders(tmp_path / "real").items()
    header, *rows = (folder / "metrics.csv").read_text().splitlines()
    assert header.endswith(",aggregate_norm,loss_spread,clients") and len(rows) == 2
    assert all(row.endswith(",3") for row in rows)


def test_the_ring_takes_steps_of_the_servers_optimizer(tmp_path: Path) -> None:
    (tmp_path / "own_parts.py").write_text(OWN_PARTS)
    run = (*RING, "server_optimizer._target_=own_parts.Momentum")
    finished(tmp_path, *run, "results_dir=simulated")
    finished(tmp_path, *run, "results_dir=real", module="robustfl_bench.commands.ring")
    assert contents(tmp_path / "simulated") == contents(tmp_path / "real")


def test_a_part_of_the_wrong_kind_is_an_error_in_one_line(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stranger.py").write_text("class Rule:\n    weighted = False\n")
    monkeypatch.syspath_prepend(tmp_path)
    outcome = bench("aggregator._target_=stranger.Rule", "~aggregator.weighted", "rounds=1")
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert "aggregator must be a subclass of robustfl_bench.interfaces.Aggregator, got stranger.Rule" in line


def test_a_module_that_exits_is_an_error_in_one_line(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    outcome = bench("aggregator=script:Rule", "rounds=1")
    assert (outcome.code, outcome.err) == (
        2,
        "error: aggregator: cannot import script.Rule: module script called sys.exit(0), which no part may do\n",
    )
