"""The loop over rounds. It decides when to evaluate, and is the only place that creates records."""

import math
from collections.abc import Callable, Iterator, Sequence

from robustfl_bench.base.errors import Diverged
from robustfl_bench.parts.protocols.state import Round, State
from robustfl_bench.train import rounds
from robustfl_bench.train.evaluation import Evaluation, Record
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.metric import Metric

Step = Callable[[Federation, State], tuple[State, Round | None]]
"""Computes the next round. It may return None for a round that is not evaluated or that another process records."""


def run(
    federation: Federation, state: State, step: Step = rounds.step, metrics: Sequence[Metric] = ()
) -> Iterator[tuple[State, Record | None]]:
    """Continue from ``state`` to the last round; yield each new state, with a record of ``metrics`` if the round is
    evaluated.

    Raises Diverged for a model that can no longer be trained, or where a loss that it records is not finite; its last
    record is that of an earlier round.
    """
    while state.round < federation.settings.rounds:
        state, happened = step(federation, state)
        if happened is not None and federation.settings.is_evaluated(state.round):
            row = record(Evaluation(federation, state, happened), metrics)
            for name in ("test", "validation"):
                if not math.isfinite(row.get(f"{name}_loss", 0)):
                    raise Diverged(state.round, f"the {name} loss is not finite")
            yield state, row
        else:
            yield state, None


def record(evaluation: Evaluation, metrics: Sequence[Metric]) -> Record:
    """The row of metrics.csv for an evaluated round."""
    row: Record = {"round": evaluation.round.number, "lr": evaluation.round.lr}
    for metric in metrics:
        row |= metric.columns(evaluation)
    return row
