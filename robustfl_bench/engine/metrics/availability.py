"""The clients whose updates arrive, and whether the round is skipped, if clients can drop out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustfl_bench.engine.metrics.base import Metric

if TYPE_CHECKING:
    from robustfl_bench.engine.evaluation import Evaluation


def _clients(evaluation: Evaluation) -> int | None:
    return sum(map(len, evaluation.round.cohorts)) if evaluation.clients_drop_out else None


def _skipped(evaluation: Evaluation) -> int | None:
    skipped = all(model.aggregate is None for model in evaluation.round.models)
    return int(skipped) if evaluation.clients_drop_out else None


METRICS = (
    Metric("clients", "Clients whose updates arrive", _clients, "clients", digits=1),
    Metric("skipped", "Whether the round is skipped", _skipped, digits=1),
)
