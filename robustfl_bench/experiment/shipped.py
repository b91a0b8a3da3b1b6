"""Kept results of this package, returned without training."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from robustfl_bench.experiment import provenance
from robustfl_bench.experiment.plan import Asked
from robustfl_bench.experiment.summary import shown, tuned_by, without_score
from robustfl_bench.runs import records
from robustfl_bench.store import folders, kept


@dataclass(frozen=True)
class Answer:
    """A kept result: status of the run, the result in words, its file, and the number that a sweep tunes by."""

    status: str
    words: str
    file: str
    value: float


def answer(asked: Asked, note: Callable[[str], None]) -> Answer | None:
    """The kept result of a run if it comes from today's code and data, else None.

    The code is that of ``package.files_of`` and of parts from outside. Data that cannot be loaded count as equal.
    ``note`` is called with one line if the code or the data differ. Runs that validate by a loss always train: kept
    files do not hold the least loss.
    """
    line = kept.find(asked.run_id) if asked.settings.use_kept else None
    if line is None or line["state"] not in folders.MEASURED or not (_final(line) or line["error"]):
        return None
    now = records.code_line(provenance.code(asked.config))
    if line.get("code") != now or not provenance.has_data(asked, line.get("data")):
        note(f"results of {line['file']} not used: made with other code or data than today's")
        return None
    return _answer(line, asked)


def _answer(line: Mapping[str, str], asked: Asked) -> Answer:
    if line["state"] == folders.DIVERGED:
        return Answer(line["state"], line["error"], line["file"], without_score(asked.dataset.source))
    final = _final(line)
    words = f"{shown(final)} after {line['rounds_done']} rounds"
    if line["best_accuracy"]:
        words += f" (best {shown({'test_accuracy': float(line['best_accuracy'])})})"
    validated = line.get("validation_accuracy")
    tuned = {"validation_accuracy": float(validated)} if validated else {}
    value = tuned_by({"status": line["state"], "final": final, "tuned": tuned})
    return Answer(line["state"], words, line["file"], value)


def _final(line: Mapping[str, str]) -> dict[str, float]:
    """The last evaluated round, as in a summary; empty if the line lacks the score of the run."""
    if line.get("validation_share", "null") not in ("", "null") and not line.get("validation_accuracy"):
        return {}
    columns = {"test_accuracy": "final_accuracy", "distance": "last.distance", "test_loss": "test_loss"}
    return {name: float(line[column]) for name, column in columns.items() if line.get(column)}


def tell(known: Answer) -> float:
    """Print a kept result in one line; returns the number that sweeps tune by."""
    print(f"kept result: {known.words}  {known.file}", flush=True)
    return known.value
