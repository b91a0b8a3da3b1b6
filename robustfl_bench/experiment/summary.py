"""What a result is: what is kept of the records of a run, and the line that is printed of it."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

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
    return f"accuracy {record[key]:.2%}" if key == "test_accuracy" else f"{key.removeprefix('test_')} {record[key]:.4f}"


def results(folder: store.RunFolder) -> dict[str, Any]:
    """The last evaluated round, the best one, and the mean of the last few."""
    rows = folder.rows()
    last, score = rows[-1], _score(rows[-1])
    best = max(rows, key=lambda row: row[score] if score == "test_accuracy" else -row[score])
    clustered = [key for key in last if key in CLUSTERED or key.startswith("accuracy_cluster_")]
    final: dict[str, Any] = {key: last[key] for key in dict.fromkeys([score, "test_loss", *clustered])}
    if recall := [last[key] for key in last if key.startswith("recall_")]:
        final |= {"recall": recall}
    return {
        "final": {"round": int(last["round"])} | final,
        "best": {"round": int(best["round"]), score: best[score]},
        f"last_{LAST}": {score: float(np.mean([row[score] for row in rows[-LAST:]]))},
    }


def tell(folder: store.RunFolder, summary: Mapping[str, Any], what: str) -> float:
    """Print a run's result in one line; returns what it is judged by, nan where the model diverged."""
    if summary["status"] == store.DIVERGED:
        print(f"{what}: {summary['error']}  {folder.path}", flush=True)
        return float("nan")
    final, best = summary["final"], summary["best"]
    rounds = f"after {final['round']} rounds (best {shown(best)} at {best['round']})"
    print(f"{what}: {shown(final)} {rounds}  {folder.path}", flush=True)
    return float(final[_score(final)])
