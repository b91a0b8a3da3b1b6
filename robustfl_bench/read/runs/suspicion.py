"""How much a rule distrusted each client of a run, and how well that tells attackers from honest clients."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from robustfl_bench.read.runs import records
from robustfl_bench.read.runs.records import Damaged

if TYPE_CHECKING:
    import pandas as pd

BYZANTINE = "byzantine_"
"""Begins the names of attackers in ``weights.csv``."""


def suspicion(folder: str | Path) -> pd.Series[float]:
    """The suspicion of every client that took part in a recorded round, by its name.

    It is the mean over the client's rounds of -n w, where w is its weight among the n clients of the round: -1 for a
    client that counts as in the mean of all, 0 for one that is always dropped, more for a negative weight. Raises
    Damaged where the run has no weights, and where it has no attackers or no honest clients.
    """
    weights = records.weights(folder).set_index("round")
    found = weights.mul(-weights.notna().sum(axis=1), axis=0).mean().dropna()
    attackers = found.index.str.startswith(BYZANTINE)
    if attackers.all() or not attackers.any():
        raise Damaged(f"no ROC without {'honest clients' if attackers.any() else 'attackers'}")
    return found


def area(found: pd.Series[float]) -> float:
    """The area under the ROC curve of ``suspicion``: the share of pairs of an attacker and an honest client in which
    the attacker is the more suspicious one, ties counted by half (Mann and Whitney, 1947)."""
    from scipy.stats import mannwhitneyu

    attackers, honest = _two(found)
    return float(mannwhitneyu(attackers, honest, method="asymptotic").statistic) / (len(attackers) * len(honest))


def curve(found: pd.Series[float], places: Sequence[float]) -> pd.Series[float]:
    """The ROC curve of ``suspicion``: the share of attackers found, true positives, when a share of ``places`` of the
    honest clients are taken for attackers, false positives. Between two thresholds the curve is straight."""
    import numpy as np
    import pandas as pd

    attackers, honest = _two(found)
    thresholds = np.unique(found)[::-1]
    true, false = ([0.0, *(np.mean(side >= at) for at in thresholds)] for side in (attackers, honest))
    return pd.Series(np.interp(places, false, true), index=list(places))  # of a vertical step its top


def _two(found: pd.Series[float]) -> tuple[pd.Series[float], pd.Series[float]]:
    """The suspicion of attackers and of honest clients."""
    attackers = found.index.str.startswith(BYZANTINE)
    return found[attackers], found[~attackers]
