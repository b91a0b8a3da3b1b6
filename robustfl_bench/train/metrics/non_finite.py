"""Updates with an entry that is not finite, which the server replaces by zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from robustfl_bench.train.evaluation import Evaluation


def _number(evaluation: Evaluation) -> int:
    return sum(model.non_finite for model in evaluation.round.models)


METRICS = (Metric("non_finite_updates", "Non-finite updates", _number, "clients", digits=1),)
