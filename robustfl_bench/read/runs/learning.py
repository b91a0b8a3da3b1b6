"""Whether models have learned: single runs without attackers, and runs that stand in for those of a paper; and what a
model reaches that answers the same for every sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

SHARE = 0.05
"""An accuracy is at chance if it is below this share of the way from that of guessing, 1 / classes, to 1."""

UNLEARNED = "not learned (at chance without attack)"

LEARNED = 0.8
"""The share of the printed accuracy of Average without attack that runs must reach to stand in for a paper's."""

TOO_SMALL = "too small a scale to say"
"""What runs are that do not reach it: they count in no sum, and decide no claim."""

TEST_SAMPLES: Mapping[str, tuple[int, ...]] = {
    "Mnist": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    "FashionMnist": (1000,) * 10,
    "Cifar10": (1000,) * 10,
    "Cifar100": (100,) * 100,
    "AgNews": (1900,) * 4,
}
"""The test samples of each class, by the class of a data set."""


def has_learned(clean: float, printed: float | None) -> bool:
    """Whether runs may stand in for a paper's: the accuracy of their Average without attack, a fraction, reaches
    LEARNED of the ``printed`` one. Where none is printed it must reach LEARNED of 1, which is more than any printed one
    asks; nan, an unknown accuracy, reaches nothing."""
    return clean >= LEARNED * (1 if printed is None else printed)


def constant_accuracies(dataset: str) -> list[float]:
    """The accuracies, fractions, of models that answer one class for every test sample of a data set, by the name of
    its class; empty where the sizes of the classes are not known."""
    samples = TEST_SAMPLES.get(dataset, ())
    return [count / sum(samples) for count in samples]


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
