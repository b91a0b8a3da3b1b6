"""A run whose result comes with this package is answered without being made."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from robustfl_bench import kept
from robustfl_bench.experiment import provenance
from robustfl_bench.experiment.plan import Asked
from robustfl_bench.experiment.summary import shown
from robustfl_bench.results import records, store


@dataclass(frozen=True)
class Answer:
    """A kept result: status of the run, the result in words, its file, and the number that a sweep tunes by."""

    status: str
    words: str
    file: str
    value: float


def answer(asked: Asked, note: Callable[[str], None]) -> Answer | None:
    """The kept result of a run, if it was made with the same code and data as a run would be now; else None.

    Code is that of ``package.files_of`` and of parts from outside. Data that cannot be loaded here count as the same.
    ``note`` is given a line where a kept result was made with other code or data. Runs that are judged by something
    else than accuracy are not answered.
    """
    line = kept.find(asked.run_id) if asked.settings.use_kept else None
    if line is None or line["state"] not in store.MEASURED or not (line["final_accuracy"] or line["error"]):
        return None
    now = records.code_line(provenance.code(asked.config))
    if line.get("code") != now or not provenance.has_data(asked, line.get("data")):
        note(f"results of {line['file']} not used: made with other code or data than today's")
        return None
    return _answer(line)


def _answer(line: Mapping[str, str]) -> Answer:
    if line["state"] == store.DIVERGED:
        return Answer(line["state"], line["error"], line["file"], -math.inf)
    final, best = (shown({"test_accuracy": float(line[f"{name}_accuracy"])}) for name in ("final", "best"))
    value = line.get("validation_accuracy") or line["final_accuracy"]
    return Answer(
        line["state"], f"{final} after {line['rounds_done']} rounds (best {best})", line["file"], float(value)
    )


def tell(known: Answer) -> float:
    """Print a kept result in one line; returns what it is tuned by."""
    print(f"kept result: {known.words}  {known.file}", flush=True)
    return known.value
