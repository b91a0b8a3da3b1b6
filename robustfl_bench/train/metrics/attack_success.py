"""The share of the attackers' goal samples that are classified as the attackers want."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from robustfl_bench.train.evaluation import Evaluation


def _rate(evaluation: Evaluation) -> float | None:
    from robustfl_bench.train.evaluation import on_goal

    return on_goal(evaluation.federation, evaluation.state.params, evaluation.round.cohorts)


METRICS = (Metric("attack_success_rate", "Attack success rate", _rate, "fraction", -1),)
