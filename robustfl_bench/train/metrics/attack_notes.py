"""The numbers that the attack reports, for each model if there are several."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robustfl_bench.train.evaluation import Evaluation


def _notes(evaluation: Evaluation) -> Mapping[str, float]:
    """nan if no attacker took part."""
    models, names = evaluation.round.models, evaluation.federation.parts.attack.reports
    ends = [""] if len(models) == 1 else [f"_model_{i}" for i in range(len(models))]
    pairs = zip(ends, models, strict=True)
    return {f"{name}{end}": float(model.notes.get(name, math.nan)) for end, model in pairs for name in names}


METRICS = (Metric("attack_{}", "{} of the attack", _notes),)
