"""What a result is: what is kept of the records of a run, and the line that is printed of it."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from robustfl_bench.results import store

LAST = 10  # evaluated rounds of `last_10`
CLUSTERED = ("distance", "distance_nearest", "cluster_recovery")  # columns of metrics.csv that the summary has too


def digest(params: Any) -> str:
    """SHA-256 of models (k, d), to the bit."""
    return hashlib.sha256(params.cpu().contiguous().numpy().tobytes()).hexdigest()


def _score(record: Mapping[str, Any]) -> str:
    """What a run is judged by: accuracy; where there are no classes, distance from the true parameters, else loss."""
    return next(key for key in ("test_accuracy", "distance", "test_loss") if key in record)


def shown(record: Mapping[str, Any]) -> str:
    """The score of a round in words."""
    key = _score(record)
    value = _number(record[key])
    return f"accuracy {value:.2%}" if key == "test_accuracy" else f"{key.removeprefix('test_')} {value:.4f}"


def _number(value: float | None) -> float:
    """A number of a summary, where null stands for one that is not finite."""
    return math.nan if value is None else float(value)


def results(rows: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """The last evaluated round, the best one, and the mean of the last few."""
    last, score = rows[-1], _score(rows[-1])
    sign = 1 if score == "test_accuracy" else -1
    best = max(rows, key=lambda row: -math.inf if math.isnan(row[score]) else sign * row[score])
    clustered = [key for key in last if key in CLUSTERED or key.startswith("accuracy_cluster_")]
    final: dict[str, Any] = {key: last[key] for key in dict.fromkeys([score, "test_loss", *clustered])}
    if recall := [last[key] for key in last if key.startswith("recall_")]:
        final |= {"recall": recall}
    return {
        "final": {"round": int(last["round"])} | final,
        "best": {"round": int(best["round"]), score: best[score]},
        f"last_{LAST}": {score: fmean(row[score] for row in rows[-LAST:])},
    }


def words(summary: Mapping[str, Any]) -> str:
    """The result of a finished run in words."""
    final, best = summary["final"], summary["best"]
    return f"{shown(final)} after {final['round']} rounds (best {shown(best)} at {best['round']})"


def tell(folder: store.RunFolder, summary: Mapping[str, Any], what: str) -> float:
    """Print a finished run's result in one line; returns what it is judged by."""
    print(f"{what}: {words(summary)}  {folder.path}", flush=True)
    final = summary["final"]
    return _number(final[_score(final)])
