"""The loop over rounds. It decides when to evaluate, and is the only place that creates records."""

import math
from collections.abc import Callable, Iterator

import torch

from robustfl_bench.base.errors import Diverged
from robustfl_bench.engine import rounds
from robustfl_bench.engine.evaluation import (
    WEIGHT_METRICS,
    Record,
    attack_notes,
    model_metrics,
    traffic,
    weight_metrics,
)
from robustfl_bench.engine.federation import Federation
from robustfl_bench.engine.rounds import Round
from robustfl_bench.engine.state import State

Step = Callable[[Federation, State], tuple[State, Round | None]]
"""Computes the next round. It may return None for a round that is not evaluated or that another process records."""


def run(federation: Federation, state: State, step: Step = rounds.step) -> Iterator[tuple[State, Record | None]]:
    """Continue from ``state`` to the last round; yield each new state, with a record if the round is evaluated.

    Raises Diverged for a model that can no longer be trained or tested; its last record is that of an earlier round.
    """
    while state.round < federation.settings.rounds:
        state, happened = step(federation, state)
        if happened is not None and federation.settings.is_evaluated(state.round):
            row = record(federation, state, happened)
            for name in ("test", "validation"):
                if not math.isfinite(row.get(f"{name}_loss", 0)):
                    raise Diverged(state.round, f"the {name} loss is not finite")
            yield state, row
        else:
            yield state, None


def record(federation: Federation, state: State, happened: Round) -> Record:
    """The row of metrics.csv for a round and the state after it."""
    row: Record = {"round": happened.number, "lr": happened.lr}
    losses = [model.losses for model in happened.models if model.losses is not None]
    if losses:
        row["train_loss"] = float(torch.cat(losses).mean())
    row |= model_metrics(federation, state.params, happened.cohorts)
    weighed = weight_metrics(happened.models)
    if federation.parts.availability is not None:  # a round may have no aggregate then, but every row needs all columns
        row["clients"] = sum(map(len, happened.cohorts))
        row["skipped"] = int(all(model.aggregate is None for model in happened.models))
        weighed = dict.fromkeys(WEIGHT_METRICS, math.nan) | weighed
    row |= weighed
    row |= attack_notes(federation.parts.attack, happened.models)
    row["non_finite_updates"] = sum(model.non_finite for model in happened.models)
    row |= traffic(federation, happened.number)
    if len(happened.models) > 1:
        row["empty_clusters"] = sum(not len(cohort) for cohort in happened.cohorts)
        row["untrained_clusters"] = sum(model.aggregate is None for model in happened.models)
    return row
