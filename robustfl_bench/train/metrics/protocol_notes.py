"""The numbers that the protocol reports."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robustfl_bench.train.evaluation import Evaluation

_SHARED = ("simulated_time", "mean_staleness")
"""The numbers that mean the same in every protocol that reports them; their columns have no prefix."""


def _notes(evaluation: Evaluation) -> dict[str, float]:
    """nan for a number that the protocol did not report in this round."""
    names, notes = evaluation.federation.parts.course.reports, evaluation.round.notes
    return {name: float(notes.get(name, math.nan)) for name in names}


def _note(name: str) -> Callable[[Evaluation], float | None]:
    return lambda evaluation: _notes(evaluation).get(name)


def _others(evaluation: Evaluation) -> Mapping[str, float]:
    return {name: value for name, value in _notes(evaluation).items() if name not in _SHARED}


METRICS = (
    Metric("simulated_time", "Simulated time since the start", _note("simulated_time"), "mean trainings", -1, digits=1),
    Metric("mean_staleness", "Mean staleness of the updates", _note("mean_staleness"), "rounds", digits=2),
    Metric("protocol_{}", "{} of the protocol", _others),
)
