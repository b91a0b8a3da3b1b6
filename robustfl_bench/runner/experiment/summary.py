"""The result of a run in words, and the number that sweeps tune by."""

import hashlib
import math
from collections.abc import Mapping
from typing import Any

from robustfl_bench.base.console import counted
from robustfl_bench.parts.datasets.files import Source
from robustfl_bench.runner.store import folders
from robustfl_bench.runner.store.results import score_name, validation_name


def digest(params: Any) -> str:
    """SHA-256 of models (k, d), to the bit."""
    return hashlib.sha256(params.cpu().contiguous().numpy().tobytes()).hexdigest()


def shown(record: Mapping[str, Any]) -> str:
    """The score of a round in words."""
    key = score_name(record)
    value = _number(record[key])
    return f"accuracy {value:.2%}" if key == "test_accuracy" else f"{key.removeprefix('test_')} {value:.4f}"


def _number(value: float | None) -> float:
    """A number of a summary, in which null stands for a number that is not finite."""
    return math.nan if value is None else float(value)


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
        return _number(tuned[validation_name(tuned)])
    return _number(final[score_name(final)])


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
