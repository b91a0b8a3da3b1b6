"""What the kept runs say, for the facts of more than one page."""

from collections.abc import Iterable, Sequence
from functools import cache
from io import BytesIO, StringIO
from typing import Any

import pandas as pd

from robustfl_bench.read.runs import kept_lines
from robustfl_bench.runner.store.evidence import index_of
from robustfl_bench.runner.store.kept import sealed_content
from scripts.checks.facts.fact import RESULTS

PAPERS = ("arfl", "boba", "brace", "brifca", "raga")


@cache
def runs(path: str) -> pd.DataFrame:
    """The kept runs of a CSV file in results/, and of the parts that were added to it, or the lines of a benchmark."""
    if len(index_of(RESULTS).parts(RESULTS / path)) == 1:
        return measured_in(path)
    return pd.read_csv(StringIO(kept_lines.read(str(RESULTS / path)).to_csv(index=False)), low_memory=False)


def measured_in(path: str, **options: Any) -> pd.DataFrame:
    """A CSV file in results/, which is what the index says; ``options`` are those of pandas."""
    return pd.read_csv(BytesIO(sealed_content(RESULTS / path)), low_memory=False, comment="#", **options)


def percent(path: str, *conditions: str, column: str = "final_accuracy") -> list[float]:
    """The number of the only run that meets each condition, in percent."""
    return [100 * float(runs(path).query(condition)[column].item()) for condition in conditions]


def means_of(path: str, *conditions: str) -> list[float]:
    """The mean accuracy of the runs that meet each condition, in percent."""
    return [100 * float(runs(path).query(condition)["final_accuracy"].mean()) for condition in conditions]


def extremes(path: str, condition: str, column: str = "final_accuracy", factor: float = 100) -> list[float]:
    """The least and the largest number of the runs that meet a condition, in percent."""
    return ends(factor * runs(path).query(condition)[column])


@cache
def _tables() -> dict[str, Any]:
    """The tables of the five papers, filled with the kept runs, by name."""
    from scripts.generators.agreement import measured

    return {name: table for paper in PAPERS for name, table in measured(paper).tables.items()}


def reproduced() -> tuple[int, ...]:
    """Of the five papers' numbers: how many need runs, follow from formulas, are measured, measured with one seed,
    inside, and by each of the parts of that."""
    from robustfl_bench.read.tables.table import PARTS

    whole = [(table, cell) for table in _tables().values() for cell in table.cells.values()]
    published = [(table, cell) for table, cell in whole if cell.against is not None]
    formulas = [cell for table, cell in published if "Mbit" in {column.value.unit for column in table.columns}]
    kept = [(table, cell) for table, cell in published if cell not in formulas and not table.order_only]
    measured = [(table, cell) for table, cell in kept if cell.inside is not None and not cell.stand_in]
    return (
        len(kept),
        len(formulas),
        len(measured),
        sum(len(cell.numbers) == 1 for _, cell in measured),
        sum(bool(cell.inside) for _, cell in measured),
        *(sum(cell.inside_by == part for _, cell in measured) for part in PARTS),
    )


def agreeing(name: str, block: str | None = None) -> list[int]:
    """Of the cells of a paper's table, or of one block: how many are measured beside a printed number, in how many of
    these a model diverged, how many are inside, and by each of the parts of that."""
    from robustfl_bench.read.tables.table import PARTS

    chosen = [cell for (part, _, _), cell in _tables()[name].cells.items() if block in (None, part)]
    cells = [cell for cell in chosen if cell.inside is not None]
    parts = [sum(cell.inside_by == part for cell in cells) for part in PARTS]
    return [len(cells), sum(cell.diverged for cell in cells), sum(parts), *parts]


def above(name: str, row: str) -> list[float]:
    """Of a row of a paper's table: in how many cells the number is above the printed one, of how many that have both,
    and by how much at most."""
    cells = [cell for key, cell in _tables()[name].cells.items() if key[1] == row]
    differences = [cell.difference for cell in cells if cell.difference is not None and not cell.stand_in]
    return [sum(number > 0 for number in differences), len(differences), max(differences)]


def measured(name: str, column: str, *rows: str) -> list[float]:
    """The numbers of rows in one column of a paper's table without blocks."""
    return [_tables()[name].cells["", row, column].mean for row in rows]


def column(name: str, label: str) -> dict[str, float]:
    """The numbers of a column of a paper's table without blocks, by row, without models that diverged."""
    cells = {row: cell for (_, row, other), cell in _tables()[name].cells.items() if other == label}
    return {row: cell.mean for row, cell in cells.items() if cell.seeds and not cell.diverged}


def before(path: str, column: str, names: Sequence[str], by: str = "model") -> list[float]:
    """Numbers of a column of a benchmark's CSV file, by the names of its rows."""
    table = runs(f"bench/{path}.csv").set_index(by)[column]
    return [float(table[name]) for name in names]


def ends(values: Iterable[float]) -> list[float]:
    """The least and the largest of some numbers, without those that are unknown."""
    numbers = pd.Series([*values], dtype=float)
    return [float(numbers.min()), float(numbers.max())]


def diverged_in(path: str, *conditions: str) -> list[str]:
    """The round in which each of the runs that meet a condition diverged, by its message."""
    messages = (str(runs(path).query(condition)["error"].item()) for condition in conditions)
    return [message.split("round ")[1].split(":")[0] for message in messages]


def arena_of(track: str) -> Any:
    from scripts.generators.arena import shipped

    return shipped(track)


def tuned_arena_of(track: str) -> Any:
    from robustfl_bench.lab.arena.tuned import TunedTrack
    from scripts.generators.arena import shipped

    return shipped(track, TunedTrack)


NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def word(number: int) -> str:
    """A number in a sentence: up to ten as a word."""
    return NUMBERS[number] if number < len(NUMBERS) else str(number)


CHANCE = 0.1  # of ten classes


def interval(first: "pd.Series[float]", second: "pd.Series[float]") -> list[float]:
    """By how much the first numbers are larger than the second over shared seeds, with the ends of the interval."""
    from robustfl_bench.read.runs.statistics import paired

    between = paired(dict(first), dict(second))
    assert between is not None
    return [between.mean, between.low, between.high]
