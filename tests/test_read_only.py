"""A part that writes into what it is given ends its run in one line that names both; no part of this package does."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from robustfl_bench.base import read_only
from robustfl_bench.base.abilities import Part
from robustfl_bench.base.errors import BrokenContract, ConfigError
from robustfl_bench.doors.testing import check_aggregator, example_round
from robustfl_bench.runner.config import options
from robustfl_bench.train.parts import GROUPS
from tests.conftest import Bench, contents, run_folders
from tests.presets import federation as of_words
from tests.presets import trained

PARTS = """
from dataclasses import dataclass

import torch
from robustfl_bench import Aggregate
from robustfl_bench.interfaces import (
    Aggregator, Attack, Crafted, LocalUpdate, Partition, PreAggregation, Protocol, ServerOptimizer
)
from robustfl_bench.parts.local_updates.fedsgd import FedSgd
from robustfl_bench.parts.partitions.iid import IID


@dataclass(frozen=True)
class Rule(Aggregator):
    kind: str = ""

    def aggregate(self, updates, server):
        if self.kind == "params":
            server.params.mul_(0)
        elif self.kind == "array":
            server.params.numpy()[:] = 0
        elif self.kind == "data":
            server.params.data.zero_()
        elif self.kind == "previous" and server.previous is not None:
            server.previous.add_(1)
        elif self.kind == "counts":
            updates.counts[0] = 7
        elif self.kind == "all_counts":
            server.counts.clamp_(max=1)
        elif self.kind == "losses":
            updates.losses.zero_()
        elif self.kind == "memory" and server.memory:
            server.memory["velocity"].zero_()
        elif self.kind == "late" and server.round == 2:
            updates.matrix.numpy()[0] = 0
        return Aggregate(updates.mean.clone(), memory={"velocity": updates.mean.clone()})


class Answers(Aggregator):
    def aggregate(self, updates, server):
        return updates.matrix.median(dim=0).values

    def aggregate_many(self, questions, server):
        return torch.stack([updates.matrix.median(dim=0).values for updates in questions])


@dataclass(frozen=True)
class Attacks(Attack):
    kind: str = ""

    def craft(self, view):
        if self.kind == "params":
            view.params.mul_(0)
        elif self.kind == "losses":
            view.honest.losses.fill_(9)
        elif self.kind == "label_counts":
            view.label_counts.zero_()
        elif self.kind == "memory" and view.memory:
            view.memory["round"].add_(1)
        return Crafted(-view.mean, {"round": torch.ones(1)})


class Aims(Attacks):
    def goal(self, shard):
        return shard.x.zero_(), shard.y


class Flips(Attack):
    def poison(self, shard):
        return shard.x, shard.y.zero_()


class Mixes(PreAggregation):
    def prepare(self, updates, rng):
        updates.counts.mul_(2)
        return updates


class Steps(ServerOptimizer):
    def __call__(self, params, aggregate, step_size, memory):
        return params.sub_(aggregate, alpha=step_size), {}


class Trains(FedSgd):
    def __call__(self, network, model, samples, lr, rows):
        losses = super().__call__(network, model, samples, lr, rows)
        model.add_(1)
        return losses


class Relabels(FedSgd):
    def __call__(self, network, model, samples, lr, rows):
        samples.population.y.zero_()
        return super().__call__(network, model, samples, lr, rows)


class Deals(IID):
    def __call__(self, targets, num_clients, rng):
        parts = super().__call__(targets, num_clients, rng)
        targets[:] = 0
        return parts


class Turns(Protocol):
    def step(self, engine, state):
        after = super().step(engine, state)
        state.params.neg_()
        return after
"""
RUN = ("rounds=4", "num_clients=6", "num_byzantine=2", "byzantine_placement=replace", "model.hidden=[4]",
       "partition=iid")  # fmt: skip
WRITES = {
    "aggregator=writing:Rule aggregator.kind=params": "aggregator Rule wrote into the params",
    "aggregator=writing:Rule aggregator.kind=array": "aggregator Rule wrote into the params",
    "aggregator=writing:Rule aggregator.kind=data": "aggregator Rule wrote into the params",
    "aggregator=writing:Rule aggregator.kind=previous": "aggregator Rule wrote into the previous",
    "aggregator=writing:Rule aggregator.kind=counts": "aggregator Rule wrote into the counts",
    "aggregator=writing:Rule aggregator.kind=all_counts": "aggregator Rule wrote into the counts",
    "aggregator=writing:Rule aggregator.kind=losses": "aggregator Rule wrote into the losses",
    "aggregator=writing:Rule aggregator.kind=memory": "aggregator Rule wrote into the memory",
    "aggregator=writing:Rule aggregator.kind=late": "aggregator Rule wrote into the updates",
    "attack=writing:Attacks attack.kind=params": "attack Attacks wrote into the params",
    "attack=writing:Attacks attack.kind=losses": "attack Attacks wrote into the losses",
    "attack=writing:Attacks attack.kind=label_counts": "attack Attacks wrote into the label_counts",
    "attack=writing:Attacks attack.kind=memory": "attack Attacks wrote into the memory",
    "attack=writing:Aims": "attack Aims wrote into the samples",
    "attack=writing:Flips": "attack Flips wrote into the labels",
    "pre_aggregation=writing:Mixes": "pre-aggregation Mixes wrote into the counts",
    "server_optimizer=writing:Steps": "server optimizer Steps wrote into the params",
    "local_update=writing:Trains": "local update Trains wrote into the params",
    "local_update=writing:Relabels": "local update Relabels wrote into the labels",
    "partition=writing:Deals": "partition Deals wrote into the labels",
    "protocol=writing:Turns": "protocol Turns wrote into the params",
}


@pytest.fixture(autouse=True)
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the parts above importable."""
    (tmp_path / "writing.py").write_text(PARTS)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("words", WRITES)
def test_what_a_part_writes_into_is_named_and_its_run_fails(bench: Bench, tmp_path: Path, words: str) -> None:
    line = f"{WRITES[words]} that it was given"
    bench(*RUN, *words.split()).refused(1, line)
    for folder in run_folders(tmp_path / "results").values():
        summary = json.loads((folder / "summary.json").read_text())
        assert (summary["status"], summary["error"]) == ("failed", line)
    assert bool(run_folders(tmp_path / "results")) != words.startswith("partition"), "nothing has begun there"


@pytest.mark.parametrize(("group", "bad", "good"), [("attack", "Aims", "ipm"), ("partition", "Deals", "iid")])
def test_the_other_runs_of_a_sweep_have_none_of_it(
    bench: Bench, tmp_path: Path, group: str, bad: str, good: str
) -> None:
    outcome = bench("-m", *RUN, f"{group}=writing:{bad},{good}", "results_dir=sweep")
    assert outcome.code == 1 and "sweep: 2 runs: 1 finished, 1 failed" in outcome.err
    assert bench(*RUN, f"{group}={good}", "results_dir=alone").code == 0
    ((name, alone),) = contents(tmp_path / "alone", "metrics.csv").items()
    assert (tmp_path / "sweep" / "runs" / name).read_bytes() == alone


@pytest.mark.parametrize(
    "words", ["aggregator=writing:Rule", "attack=writing:Attacks", "aggregator=writing:Answers attack=worst"]
)
def test_a_part_that_only_reads_is_not_stopped(bench: Bench, words: str) -> None:
    assert bench(*RUN, *words.split()).code == 0


def test_the_checks_of_a_rule_find_it_too() -> None:
    from writing import Rule  # type: ignore[import-not-found]

    with pytest.raises(AssertionError, match="aggregator Rule wrote into the params that it was given"):
        check_aggregator(Rule(kind="params"))


def test_large_tensors_are_compared_too_and_small_ones_restored() -> None:
    from writing import Rule  # type: ignore[import-not-found]

    updates, server = example_round(0, d=2 * read_only.WHOLE)
    server.params.fill_(1)
    Rule()(updates, server)
    for kind in ("params", "array", "data", "late"):
        server.round = 2
        what = "updates" if kind == "late" else "params"
        with pytest.raises(BrokenContract, match=f"wrote into the {what} that"):
            Rule(kind=kind)(updates, server)
        assert server.params.equal(torch.ones_like(server.params)), "it gets its numbers back"


@pytest.fixture(scope="module")
def compared() -> Iterator[None]:
    """All parts of this package are compared as those from outside are."""
    with pytest.MonkeyPatch.context() as patch:
        waiting = Part.__subclasses__()
        while waiting:
            cls = waiting.pop()
            waiting += cls.__subclasses__()
            if Part not in cls.__bases__ and not read_only.is_outside(cls):
                for name, method in read_only.guarded(cls).items():
                    patch.setattr(cls, name, method)
        yield


ABSENT = ("attack=dba", "dataset", "model", "tracker")  # needs larger images than digits; or has no part in a round
OPTIONS = [option for group in GROUPS for name in options.names(group) if group not in ABSENT
           and (option := f"{group}={name}") not in ABSENT]  # fmt: skip


MIXTURE = ("dataset=linear_mixture", "model=linear_regression", "partition=natural", "aggregator=average")
SPECIAL = {
    "attack=brifca_outlier": (*MIXTURE, "num_clients=40"),
    "attack=planned": ("rounds=1",),
    "clustering=ifca": ("aggregator=average", "num_clients=40"),
    "clustering=three_stage": MIXTURE,
    "partition=natural": MIXTURE,
    "partition=natural_parts": MIXTURE,
    "partition=from_file": ("partition.path=partition.csv",),
    "protocol=gossip": ("protocol.topology=complete",),
}


@pytest.mark.usefixtures("compared")
@pytest.mark.parametrize("option", OPTIONS)
def test_no_part_of_this_package_writes_into_what_it_is_given(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "partition.csv").write_text("".join(["sample,client\n", *(f"{i},{i % 12}\n" for i in range(1437))]))
    words = ["num_clients=12", "num_byzantine=2", "byzantine_placement=replace", "rounds=2", "batch_size=8", "lr=0.01",
             f"attack={'opt_ipm_grid' if option.startswith('aggregator') else 'lie'}", "aggregator=krum",
             "pre_aggregation=bucketing", *SPECIAL.get(option, ()), option]  # fmt: skip
    try:
        federation = of_words(*words)
    except ConfigError:
        federation = of_words(*words, "attack=ipm", "aggregator=average", "pre_aggregation=none", option)
    trained(federation)
