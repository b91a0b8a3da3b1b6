"""Every aggregator under every attack, alone and behind pre-aggregations, runs or says in one line why it cannot.

Two rounds of digits on a linear model. With ROBUSTFL_MATRIX=full all cells are tried; else a third of them, in which
every aggregator meets every attack once and every pre-aggregation equally often. ``planned`` and ``blindspot``, which
simulate a pool of attacks and would take as long as all others together, then simulate one or two of the pool, and
``blindspot`` one of its headings, by turns: each of them meets several aggregators.
"""

import math
import os
from copy import copy
from dataclasses import replace
from functools import cache

import pytest
import torch

from robustfl_bench.base.errors import ConfigError, Diverged
from robustfl_bench.parts import datasets
from robustfl_bench.parts.attacks import blindspot, pool
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.plan import InfeasibleError, Request, plan
from robustfl_bench.train.federation import Federation, federation_of
from robustfl_bench.train.loop import run
from robustfl_bench.train.metrics import METRICS
from robustfl_bench.train.rounds import initial_state
from tests.rounds import names

FULL = os.environ.get("ROBUSTFL_MATRIX") == "full"
MIXINGS = ("none", "nnm", "[clipping,bucketing]")
BASE = (
    "dataset=digits",
    "partition=iid",
    "model.hidden=[]",
    "num_clients=11",  # Bulyan needs 4f + 3
    "num_byzantine=2",
    "byzantine_placement=replace",
    "batch_size=4",
    "rounds=2",
    "eval_every=2",
    "server_data.samples_per_class=1",
)
FEWER = {"planned": ["attack.streams=2"], "blindspot": ["attack.streams=2", "attack.best=2", "attack.others=1"]}
AGGREGATORS, ATTACKS = names("aggregator"), names("attack")


@cache
def planned(*overrides: str) -> Request:
    return plan(compose.resolve([*BASE, *overrides]).config)


@cache
def federation(attack: str) -> Federation:
    """What does not depend on the rule: the clients with their data, poisoned by the attack."""
    setup = planned(f"attack={attack}", *([] if FULL else FEWER.get(attack, [])))
    data = datasets.load(setup.parts.dataset, None, torch.device("cpu"))
    few = {name: getattr(data, name)[:count] for name, count in (("train_x", 110), ("train_y", 110))}
    few |= {name: getattr(data, name)[:60] for name in ("test_x", "test_y")}
    return federation_of(setup.settings, setup.parts, replace(data, **few))


def outcome(aggregator: str, attack: str, mixing: str) -> str:
    """What became of two rounds: finished, or the reason why there is no result."""
    try:
        parts = planned(f"aggregator={aggregator}", f"pre_aggregation={mixing}", "attack=ipm").parts
    except InfeasibleError as error:
        return f"infeasible: {error}"
    cell = copy(federation(attack))
    cell.__dict__.pop("contract", None)  # what the parts return is checked anew
    vars(cell)["parts"] = replace(parts, attack=cell.parts.attack)
    try:
        rows = [(state, row) for state, row in run(cell, initial_state(cell), metrics=METRICS) if row is not None]
    except Diverged as error:
        return f"diverged: {error}"
    ((state, row),) = rows
    assert state.params.isfinite().all() and all(map(math.isfinite, row.values())), (aggregator, attack, mixing, row)
    return "finished"


@cache
def refusal(attack: str) -> str:
    """Why an attack does not work on these data, whatever the rule; empty for one that does."""
    try:
        outcome("average", attack, "none")
    except ConfigError as error:
        return str(error)
    return ""


def test_nearly_every_attack_works_on_digits_and_the_others_say_why() -> None:
    reasons = {attack: reason for attack in ATTACKS if (reason := refusal(attack))}
    assert len(reasons) <= len(ATTACKS) // 10, reasons
    assert all(len(reason) > 20 and "\n" not in reason for reason in reasons.values()), reasons


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_two_rounds_under_every_attack_end_with_a_result_or_a_reason(
    aggregator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, outcomes = AGGREGATORS.index(aggregator), dict[tuple[str, str], str]()
    if not FULL:
        for module, name, turns in ((pool, "POOL", 21), (blindspot, "POOL", 21), (blindspot, "HEADINGS", 5)):
            whole = getattr(module, name)
            monkeypatch.setattr(module, name, dict([*whole.items()][place % turns :: turns]))
    for number, attack in enumerate(ATTACKS):
        for mixing in MIXINGS if FULL else [MIXINGS[(place + number) % len(MIXINGS)]]:
            if not refusal(attack):
                outcomes[attack, mixing] = outcome(aggregator, attack, mixing)
    reasons = {cell: reason for cell, reason in outcomes.items() if reason != "finished"}
    assert all(len(reason) > 20 and "\n" not in reason for reason in reasons.values()), reasons
    alone = {attack: reason for (attack, mixing), reason in outcomes.items() if mixing == "none"}
    assert not any(reason.startswith("infeasible") for reason in alone.values()), alone
    assert sum(reason == "finished" for reason in alone.values()) > len(alone) / 2, reasons
