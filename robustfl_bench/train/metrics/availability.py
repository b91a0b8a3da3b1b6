"""The clients whose updates arrive, the attackers among them, and whether the round is skipped, if these can vary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from robustfl_bench.train.evaluation import Evaluation


def _clients(evaluation: Evaluation) -> int | None:
    return sum(map(len, evaluation.round.cohorts)) if evaluation.clients_drop_out else None


def _byzantine_clients(evaluation: Evaluation) -> int | None:
    settings = evaluation.federation.settings
    varies = evaluation.clients_drop_out or settings.clients_per_round < settings.total_clients
    return sum(len(cohort.byzantine) for cohort in evaluation.round.cohorts) if varies else None


def _skipped(evaluation: Evaluation) -> int | None:
    skipped = all(model.aggregate is None for model in evaluation.round.models)
    return int(skipped) if evaluation.clients_drop_out else None


METRICS = (
    Metric("clients", "Clients whose updates arrive", _clients, "clients", digits=1),
    Metric("byzantine_clients", "Byzantine clients that take part", _byzantine_clients, "clients", digits=1),
    Metric("skipped", "Whether the round is skipped", _skipped, digits=1),
)
