"""Runs of a sweep that are trained together give the same bytes as alone, whatever happens to the others."""

import json
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from robustfl_bench.base.errors import Terminated
from robustfl_bench.base.parallel import workers
from robustfl_bench.numerics.network import stacked
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.aggregators.trmean import TrMean
from robustfl_bench.parts.models import Mlp
from robustfl_bench.parts.protocols.state import State
from robustfl_bench.runner.config import compose, options
from robustfl_bench.runner.experiment.execute import _federation, _load
from robustfl_bench.runner.experiment.plan import InfeasibleError, plan
from robustfl_bench.runner.experiment.samples import Steps, Waiting, alike, alone, at_once, together
from robustfl_bench.runner.store.folders import DEATHS
from robustfl_bench.runner.sweeps.cells import Sweep, stacks
from robustfl_bench.train import loop
from robustfl_bench.train.evaluation import Record
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.metrics import METRICS
from robustfl_bench.train.rounds import initial_state
from tests.conftest import Bench, contents, run_folders
from tests.processes import start

CELL = ("rounds=3", "num_clients=12", "num_byzantine=3", "byzantine_placement=replace", "model.hidden=[16]",
        "batch_size=24")  # fmt: skip
SWEEP = ("-m", *CELL, "aggregator=trmean,krum", "attack=none,ipm,label_flip", "lr=0.1,0.5")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of models in each stacked computation."""
    computed, found = stacked.gradients, list[int]()

    def gradients(network: Network, models: Tensor, batches: Sequence[Batch], out: Tensor) -> Tensor:
        found.append(len(models))
        return computed(network, models, batches, out)

    monkeypatch.setattr(stacked, "gradients", gradients)
    return found


def steps(federation: Federation) -> Steps[tuple[State, list[Record | None]]]:
    """The rounds of a run without a folder."""
    state, rows = initial_state(federation), list[Record | None]()
    rounds = loop.run(federation, state, metrics=METRICS)
    while state.round < federation.settings.rounds:
        yield Waiting(federation, state)
        state, row = next(rounds)
        rows.append(row)
    return state, rows


def run_of(*overrides: str) -> Steps[Any]:
    planned = plan(compose.resolve([*CELL, *overrides]).config)
    return steps(_federation(planned, _load(planned)))


# --- the gradients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [(32,), (10,), (48, 16)])
@pytest.mark.parametrize("samples", [1, 57])
def test_gradients_have_the_bytes_of_one_model_at_a_time(hidden: tuple[int, ...], samples: int) -> None:
    network = Network(Mlp(hidden), (1, 8, 8), 10, seed=0)
    sizes = tuple(samples + i % 7 for i in range(25))
    draws = torch.Generator().manual_seed(0)
    x, y = torch.randn(sum(sizes), 1, 8, 8, generator=draws), torch.arange(sum(sizes)) % 10
    models = network.initial + 0.1 * torch.randn(19, network.dim, generator=draws)
    one_by_one, at_once = (torch.empty(len(models), len(sizes), network.dim) for _ in range(2))
    batches = [Batch(x, (y + i % 3) % 10, sizes) for i in range(len(models))]
    with workers(1):
        expected = torch.stack([network.gradients(*each) for each in zip(models, batches, one_by_one, strict=True)])
        losses = stacked.gradients(network, models, batches, at_once)
    assert torch.equal(losses, expected)
    torch.testing.assert_close(at_once, one_by_one, rtol=1e-5, atol=1e-7)
    if samples > 1:  # a product of a single sample is computed otherwise
        assert torch.equal(at_once, one_by_one)


@pytest.mark.parametrize("group", ["aggregator", "attack"])
def test_every_rule_and_every_attack_has_the_bytes_that_it_has_alone(group: str, counted: list[int]) -> None:
    beside = {"aggregator": "attack=ipm", "attack": "aggregator=trmean"}[group]
    runs, others = [], []
    for name in set(options.names(group)) - {"brifca_outlier", "dba"}:  # which need other data
        try:
            runs.append(run_of(f"{group}={name}", beside))
            others.append(run_of(f"{group}={name}", beside))
        except InfeasibleError:
            continue
    with workers(1):
        for (state, rows), (own_state, own_rows) in zip(together(runs), map(alone, others), strict=True):
            assert torch.equal(state.params, own_state.params)
            assert str(rows) == str(own_rows)
    assert max(counted) > 30


@pytest.mark.parametrize(
    "overrides",
    ["local_update=momentum", "participation=0.5", "+local_update.weight_decay=0.1", "availability=unreliable",
     "batch_size=null", "protocol=star", "validation_share=0.2"],
)  # fmt: skip
def test_what_runs_share_may_be_anything(overrides: str, counted: list[int]) -> None:
    def made() -> list[Steps[Any]]:
        return [run_of(overrides, "attack=ipm", f"lr={lr}", "aggregator=coomed") for lr in (0.1, 0.7)]

    with workers(1):
        for (state, _), (own, _) in zip(together(made()), map(alone, made()), strict=True):
            assert torch.equal(state.params, own.params)
    assert counted == [2, 2, 2]


def test_attackers_and_servers_with_the_same_samples_are_trained_together(counted: list[int]) -> None:
    attacks = ("label_flip", "label_shuffle", "sign_flip", "noisy")  # the last one changes inputs, not labels

    def made() -> list[Steps[Any]]:
        return [run_of(f"attack={name}", f"aggregator={rule}") for name in attacks for rule in ("fltrust", "bygars")]

    with workers(1):
        for (state, _), (own, _) in zip(together(made()), map(alone, made()), strict=True):
            assert torch.equal(state.params, own.params)
    assert sorted(counted) == sorted([8] * 3 + [6, 2, 4] * 2)  # honest clients; those of noisy and the others, a server


def test_a_stack_with_other_bytes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    computed, called = stacked.gradients, []

    def gradients(network: Network, models: Tensor, batches: Sequence[Batch], out: Tensor) -> Tensor:
        losses = computed(network, models, batches, out)
        out.view(torch.int32)[-1, 0, 0] ^= 1  # the last bit of a number
        called.append(len(models))
        return losses

    monkeypatch.setattr(stacked, "gradients", gradients)
    with workers(1):
        (first, _), (second, _) = together([run_of("lr=0.1"), run_of("lr=0.5")])
        assert torch.equal(first.params, alone(run_of("lr=0.1"))[0].params)
        assert torch.equal(second.params, alone(run_of("lr=0.5"))[0].params)
    assert called == [2]


@pytest.mark.parametrize("before", [True, False])
def test_a_signal_at_the_edge_of_a_round_reaches_all_runs(before: bool) -> None:
    """It raises Terminated in the caller of a run, just before the run goes on, or just after it has stopped."""
    left: list[str] = []

    class Signalled:
        def __init__(self, name: str) -> None:
            self.name, self.run = name, run_of("lr=0.1")

        def send(self, seconds: float | None) -> Waiting:
            if self.name == "second" and before and seconds is not None:
                raise Terminated
            waiting = self.run.send(seconds)
            if self.name == "second" and not before and seconds is not None:
                raise Terminated
            return waiting

        def throw(self, error: BaseException) -> None:
            left.append(self.name)
            self.run.throw(error)

    runs: Any = [Signalled("first"), Signalled("second"), Signalled("third")]
    with workers(1), pytest.raises(Terminated):
        together(runs)
    assert left == ["first", "second", "third"]


# --- sweeps -----------------------------------------------------------------------------------------------------------


def test_a_mixed_sweep_has_the_bytes_of_its_runs_alone(bench: Bench, tmp_path: Path, counted: list[int]) -> None:
    assert bench(*SWEEP, "results_dir=apart", "stack=false").code == 0
    assert not counted
    began = time.monotonic()
    assert bench(*SWEEP, "results_dir=stacked").code == 0
    elapsed = time.monotonic() - began
    assert counted == [4] * 3 + [8] + [8, 4] * 2  # no attackers: other honest clients; from round 2, label flippers
    assert contents(tmp_path / "stacked") == contents(tmp_path / "apart")
    stacked_runs, runs_apart = (
        [json.loads((path / "summary.json").read_text()) for path in run_folders(tmp_path / name).values()]
        for name in ("stacked", "apart")
    )
    assert [each["model_sha256"] for each in stacked_runs] == [each["model_sha256"] for each in runs_apart]
    assert 0 < sum(each["seconds"] for each in stacked_runs) < elapsed, "a run counts the time that others take"


def test_a_run_that_two_cells_ask_for_is_made_once(bench: Bench, tmp_path: Path) -> None:
    outcome = bench("-m", *CELL, "aggregator=average", "attack=none", "num_byzantine=2,3", "lr=0.1,0.2")
    assert outcome.code == 0 and "4 finished" in outcome.err
    assert len(run_folders(tmp_path / "results")) == 2


def test_runs_that_diverge_or_fail_leave_the_others_as_they_are(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aggregate = TrMean.aggregate

    def failing(rule: TrMean, updates: Any, server: Any) -> Any:
        if server.round == 1:
            raise KeyError("broken")
        return aggregate(rule, updates, server)

    sweep = ("-m", *CELL, "attack=ipm", "aggregator=average,krum", "lr=0.1,1e30")
    assert bench(*sweep, "results_dir=apart", "stack=false").code == 0
    monkeypatch.setattr(TrMean, "aggregate", failing)
    outcome = bench(*(word.replace("average,", "average,trmean,") for word in sweep), "results_dir=stacked")
    assert outcome.code == 1 and "KeyError: 'broken'" in outcome.err
    states = {path.name: json.loads((path / "summary.json").read_text())["status"]
              for path in run_folders(tmp_path / "stacked").values()}  # fmt: skip
    assert sorted(states.values()).count("diverged") >= 1 and "failed" in states.values()
    ended = contents(tmp_path / "stacked", "config.yaml") | {
        f"{path.name}/metrics.csv": (path / "metrics.csv").read_bytes()
        for path in run_folders(tmp_path / "stacked").values()
        if (path / "metrics.csv").exists()
    }
    for path in run_folders(tmp_path / "apart").values():
        assert states[path.name] == json.loads((path / "summary.json").read_text())["status"]
        if (path / "metrics.csv").exists():
            assert ended[f"{path.name}/metrics.csv"] == (path / "metrics.csv").read_bytes()


def test_an_interrupted_stack_leaves_a_checkpoint_of_each_run(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = ("-m", *CELL, "rounds=6", "attack=ipm", "aggregator=average,coomed,krum")
    assert bench(*sweep, "results_dir=whole").code == 0
    stop = _interrupting(monkeypatch, in_round=3)
    assert bench(*sweep, "results_dir=cut").code == 130
    stop()
    folders = run_folders(tmp_path / "cut").values()
    assert len(folders) == 3 and all((path / "checkpoint.pt").exists() for path in folders)
    assert not any((path / ".claim").exists() for path in folders)
    assert bench(*sweep, "results_dir=cut").code == 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def _interrupting(monkeypatch: pytest.MonkeyPatch, in_round: int) -> Callable[[], None]:
    """Let krum, which comes last, be interrupted in a round (from 0); returns what ends that."""
    aggregate = Krum.aggregate

    def interrupted(rule: Krum, updates: Any, server: Any) -> Any:
        if server.round == in_round:
            raise KeyboardInterrupt
        return aggregate(rule, updates, server)

    monkeypatch.setattr(Krum, "aggregate", interrupted)
    return lambda: monkeypatch.setattr(Krum, "aggregate", aggregate)


@pytest.mark.slow
def test_a_killed_stack_resumes_to_the_same_bytes(bench: Bench, tmp_path: Path) -> None:
    sweep = ("-m", *CELL, "rounds=80", "attack=ipm", "aggregator=average,coomed,krum", "checkpoint_seconds=0")
    assert bench(*sweep, "results_dir=whole").code == 0
    killed = start(tmp_path, *sweep, "results_dir=cut")
    while not all((path / "checkpoint.pt").exists() for path in run_folders(tmp_path / "cut").values() or [tmp_path]):
        assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert bench(*sweep, "results_dir=cut").code == 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


# --- which cells are together -----------------------------------------------------------------------------------------


def stacks_of(folder: Path, *overrides: str, takers: int = 1) -> list[int]:
    cells = [tuple(cell) for cell in compose.sweep([*CELL, f"results_dir={folder}", *overrides])]
    return [len(cells) for cells in stacks(Sweep(tuple(cells)).listed, takers)]


def test_cells_are_together_if_their_clients_data_and_batches_are_the_same(tmp_path: Path) -> None:
    assert stacks_of(tmp_path, "seed=0,1", "lr=0.1,0.2,0.3", "aggregator=average,krum") == [6, 6]
    assert stacks_of(tmp_path, "num_byzantine=2,3", "attack=ipm,lie", "aggregator=average,krum") == [4, 4]
    assert stacks_of(tmp_path, "lr=0.1,0.2", "batch_size=8,16", "stack=false") == [1, 1, 1, 1]
    assert stacks_of(tmp_path, "lr=0.1,0.2", "model.hidden=[3000]") == [1, 1]
    assert stacks_of(tmp_path, "lr=0.1,0.2", "model.hidden=[]") == [1, 1]
    assert stacks_of(tmp_path, "lr=0.1,0.2", "local_update=fedavg") == [1, 1]
    assert stacks_of(tmp_path, "lr=0.1,0.2", "protocol=buffered") == [1, 1]
    assert stacks_of(tmp_path, "lr=0.1,0.2", "tracker=tensorboard") == [1, 1]
    assert stacks_of(tmp_path, "lr=range(1,41)") == [32, 8]
    assert stacks_of(tmp_path, "lr=range(1,41)", takers=4) == [10, 10, 10, 10]


def test_a_run_in_which_a_process_died_is_alone_until_its_next_checkpoint(tmp_path: Path) -> None:
    cells = [tuple(cell) for cell in compose.sweep([*CELL, f"results_dir={tmp_path}", "lr=0.1,0.2,0.3"])]
    listed = Sweep(tuple(cells)).listed
    path = listed[1].folder().path
    path.mkdir(parents=True)
    (path / DEATHS).write_text("1 0")
    assert [len(some) for some in stacks(Sweep(tuple(cells)).listed, 1)] == [2, 1]
    (path / DEATHS).write_text("1 12345")
    assert [len(some) for some in stacks(Sweep(tuple(cells)).listed, 1)] == [3]


def test_runs_that_share_clients_are_alike() -> None:
    first, second, other = (
        plan(compose.resolve([*CELL, *words.split()]).config)
        for words in ("aggregator=krum lr=0.3", "aggregator=boba pre_aggregation=nnm", "batch_size=25")
    )
    assert alike(first) == alike(second) != alike(other)
    assert at_once(first) == 32
