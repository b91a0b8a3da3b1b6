"""The result of a run: the numbers kept from its records, and the line that is printed."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from robustfl_bench.base.console import counted
from robustfl_bench.parts.datasets.files import Source
from robustfl_bench.runner.store import folders

CLUSTERED = ("distance", "distance_nearest", "cluster_recovery")  # columns of metrics.csv that are also in the summary


def digest(params: Any) -> str:
    """SHA-256 of models (k, d), to the bit."""
    return hashlib.sha256(params.cpu().contiguous().numpy().tobytes()).hexdigest()


def _score(record: Mapping[str, Any]) -> str:
    """The score of a run: accuracy; without classes, the distance from the true parameters, else the loss."""
    return next(key for key in ("test_accuracy", "distance", "test_loss") if key in record)


def shown(record: Mapping[str, Any]) -> str:
    """The score of a round in words."""
    key = _score(record)
    value = _number(record[key])
    return f"accuracy {value:.2%}" if key == "test_accuracy" else f"{key.removeprefix('test_')} {value:.4f}"


def _number(value: float | None) -> float:
    """A number of a summary, in which null stands for a number that is not finite."""
    return math.nan if value is None else float(value)


def _validated(record: Mapping[str, Any]) -> str | None:
    """The validation score by which a round is chosen; None if nothing was held out for validation."""
    return next((key for key in ("validation_accuracy", "validation_loss") if key in record), None)


def _best(rows: Sequence[Mapping[str, float]], key: str) -> Mapping[str, float]:
    """The first row with the highest accuracy, or the least of anything else; nan is never the best."""
    sign = 1 if key.endswith("_accuracy") else -1
    return max(rows, key=lambda row: -math.inf if math.isnan(row[key]) else sign * row[key])


def results(rows: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Scores of the last evaluated round, of the best one, of the last few (mean), and of the one that validation
    chooses."""
    last, score = rows[-1], _score(rows[-1])
    best, validated = _best(rows, score), _validated(last)
    clustered = [key for key in last if key in CLUSTERED or key.startswith("accuracy_cluster_")]
    final: dict[str, Any] = {key: last[key] for key in dict.fromkeys([score, "test_loss", *clustered])}
    if recall := [last[key] for key in last if key.startswith("recall_")]:
        final |= {"recall": recall}
    chosen: dict[str, Any] = {}
    if validated is not None:
        tuned = _best(rows, validated)
        chosen = {"tuned": {"round": int(tuned["round"]), score: tuned[score], validated: tuned[validated]}}
    averaged = [key for key in (score, validated) if key is not None]
    return {
        "final": {"round": int(last["round"])} | final,
        "best": {"round": int(best["round"]), score: best[score]},
        f"last_{folders.LAST}": {key: fmean(row[key] for row in rows[-folders.LAST :]) for key in averaged},
    } | chosen


def words(summary: Mapping[str, Any]) -> str:
    """The result of a run in words."""
    if summary["status"] == folders.DIVERGED:
        return str(summary["error"])
    final, best, tuned = summary["final"], summary["best"], summary.get("tuned")
    others = f"best {shown(best)} at {best['round']}"
    if tuned:
        others += f"; by validation {shown(tuned)} at {tuned['round']}"
    return f"{shown(final)} after {counted(final['round'], 'round')} ({others})"


def tuned_by(summary: Mapping[str, Any]) -> float:
    """The number that sweepers compare: the best validation accuracy, or the least validation loss.

    If nothing was held out for validation, the score of the last round. A diverged model is infinitely bad: sweepers
    accept no nan.
    """
    if summary["status"] == folders.DIVERGED:
        return _least(summary["judged_by"] == "loss")
    final, tuned = summary["final"], summary.get("tuned")
    if tuned:
        return _number(tuned[_validated(tuned)])
    return _number(final[_score(final)])


def _final_of_line(line: Mapping[str, str]) -> dict[str, float]:
    """The last evaluated round of a kept run, as in a summary; empty if its line lacks the score of the run."""
    if line.get("validation_share", "null") not in ("", "null") and not line.get("validation_accuracy"):
        return {}
    columns = {"test_accuracy": "final_accuracy", "distance": "last.distance", "test_loss": "test_loss"}
    return {name: float(line[column]) for name, column in columns.items() if line.get(column)}


def words_of_line(line: Mapping[str, str]) -> str:
    """The result of a kept run in words."""
    if line["state"] == folders.DIVERGED:
        return line["error"]
    text = f"{shown(_final_of_line(line))} after {counted(int(line['rounds_done']), 'round')}"
    if line["best_accuracy"]:
        text += f" (best {shown({'test_accuracy': float(line['best_accuracy'])})})"
    return text


def score_of_line(line: Mapping[str, str], source: Source | None) -> float | None:
    """The number that sweepers compare for a kept run, as ``tuned_by``; None if its line lacks it."""
    if line["state"] == folders.DIVERGED:
        return without_score(source) if line["error"] else None
    if not (final := _final_of_line(line)):
        return None
    validated = line.get("validation_accuracy")
    tuned = {"validation_accuracy": float(validated)} if validated else {}
    return tuned_by({"status": line["state"], "final": final, "tuned": tuned})


def without_score(source: Source | None) -> float:
    """The number that sweepers compare for a run without a score on these data; drawn data are judged by a distance."""
    return _least(source is not None and source.is_drawn)


def _least(by_loss: bool) -> float:
    return math.inf if by_loss else -math.inf
