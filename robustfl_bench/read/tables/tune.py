"""Settings chosen by validation: for each method and attack the value of a swept setting, and the test number there."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.read.runs.records import ENDED, MEASURED, NoRuns, text
from robustfl_bench.read.runs.values import Measured, describe, measure
from robustfl_bench.read.runs.where import canonical, check_name, keys, natural, order, require_comparable, where
from robustfl_bench.read.tables.sheets import Printed, Sheet

if TYPE_CHECKING:
    import pandas as pd

CHOOSER, SHOWN = "validation_accuracy", "tuned_accuracy"
_AXES = ("aggregator", "attack")


def tuned(runs: pd.DataFrame, over: str, conditions: Sequence[str] = ()) -> Sheet:
    """The value of the setting ``over`` with the best mean validation accuracy over seeds, for every cell. Beside it is
    the mean (sample sd) over seeds of the test accuracy at that value, each in the round of its best validation
    accuracy. The choice uses no test number. Values are compared over all seeds of the cell: a value that lacks a seed,
    or whose model diverged for one, is not chosen. Of equal values, the smallest is chosen.

    Raises ConfigError for unknown names and for runs that differ in more than these settings and the seed, NoRuns
    when no run has a validation accuracy.
    """
    check_name(over, keys(runs), "key")
    if over in (*_AXES, "seed"):
        raise ConfigError(f"--over takes a setting that was swept, such as lr, not {over}")
    chosen = where(runs, conditions)
    chosen = chosen[chosen["state"].isin(ENDED) & chosen[[*_AXES, over]].notna().all(axis=1)]
    if not chosen[CHOOSER].notna().any():
        raise NoRuns("none of these runs has a validation accuracy; make them with validation_share=0.1")
    require_comparable(chosen, (*_AXES, over))
    notes: list[str] = []
    cells = {place: _cell(group, over, notes) for place, group in _by(chosen, *_AXES)}
    rows = sorted({row for row, _ in cells}, key=order)
    columns = sorted({column for _, column in cells}, key=order)
    return Sheet(
        above=[
            f"{describe(SHOWN, chosen).title} [%], at the {over} of the best mean validation accuracy over seeds",
            f"{over}: mean (sample sd) over seeds; no test number takes part in the choice",
            *([f"where {', '.join(conditions)}"] if conditions else []),
        ],
        heading=["aggregator / attack", *columns],
        rows=[[Printed(row), *(cells.get((row, column), Printed("missing")) for column in columns)] for row in rows],
        footnotes=[f"[{number}] {note}" for number, note in enumerate(notes, 1)],
    )


def _by(runs: pd.DataFrame, *names: str) -> list[tuple[tuple[str, ...], pd.DataFrame]]:
    """The runs by the values of settings, as text."""
    groups = runs.groupby([runs[name].map(text) for name in names])
    return [(tuple(map(str, place)), group) for place, group in groups]


def _cell(runs: pd.DataFrame, over: str, notes: list[str]) -> Printed:
    """The chosen value and the test accuracy at that value, or why no value is chosen."""
    seeds = set(runs["seed"].map(text))
    validated: dict[str, float] = {}
    left_out = []
    for (value,), group in sorted(_by(runs, over), key=lambda item: natural(item[0][0])):
        numbers = _numbers(CHOOSER, group)
        if len(numbers) == len(seeds) == len(group):
            validated[value] = statistics.fmean(numbers)
        else:
            diverged = int((group["state"] == "diverged").sum())
            why = f"{diverged} diverged" if diverged else f"{len(numbers)} of {len(seeds)} seeds"
            left_out.append(f"{canonical(value)} ({why})")
    note = None
    if left_out:
        line = f"not chosen among: {', '.join(left_out)}"
        if line not in notes:
            notes.append(line)
        note = notes.index(line) + 1
    if not validated:
        return Printed("none", note=note)
    best = max(validated, key=lambda value: validated[value])
    return Printed(f"{best}: {_spread(_numbers(SHOWN, runs[runs[over].map(text) == best]))}", note=note)


def _numbers(name: str, runs: pd.DataFrame) -> list[float]:
    """A value of the runs that have it, in its unit."""
    finished = runs[runs["state"].isin(MEASURED)]
    measured: Mapping[str, Measured] = measure(describe(name, runs), finished, runs)
    return [value.number for value in measured.values() if not value.reason]


def _spread(numbers: Sequence[float]) -> str:
    spread = f" ({statistics.stdev(numbers):.1f})" if len(numbers) > 1 else ""
    return f"{statistics.fmean(numbers):.1f}{spread}"
