"""Runs whose model has not learned: without attackers its accuracy stays at chance, so that the accuracies of its rule
under attack say nothing about robustness."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

SHARE = 0.05
"""An accuracy is at chance if it is below this share of the way from that of guessing, 1 / classes, to 1."""

UNLEARNED = "not learned (at chance without attack)"


def at_chance(accuracy: float, classes: int) -> bool:
    """Whether an accuracy, a fraction, is that of a model that has not learned to tell ``classes`` classes apart."""
    guessing = 1 / classes
    return accuracy < guessing + SHARE * (1 - guessing)


def unlearned(runs: pd.DataFrame) -> list[bool]:
    """For each of the ``runs`` of ``records.load``, whether it finished without attackers and its accuracy is at
    chance, even in its best evaluated round."""
    if "num_byzantine" not in runs:
        return [False] * len(runs)
    columns = (runs[name] for name in ("state", "num_byzantine", "recall", "best_accuracy"))
    return [state == "finished" and attackers == 0 and isinstance(recall, list) and at_chance(accuracy, len(recall))
            for state, attackers, recall, accuracy in zip(*columns, strict=True)]  # fmt: skip
