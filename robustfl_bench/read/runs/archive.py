"""Finished runs in one small CSV, to be kept where run folders are not: every table can be made from it again. With
all rounds of runs as one tidy table, for other people's tools."""

from __future__ import annotations

import csv
import io
import math
import warnings
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from robustfl_bench.base import regular
from robustfl_bench.base.errors import ConfigError, DataError, writable
from robustfl_bench.base.late import pd
from robustfl_bench.read.runs import frames, kept_lines, records
from robustfl_bench.read.runs.kept_lines import FACTS, NUMBERS
from robustfl_bench.read.runs.records import (
    MEASURED,
    Damaged,
    NoRuns,
    all_settings,
    arrange,
    last_metrics,
    load,
    mapped_once,
    nothing,
    settings,
    written,
)
from robustfl_bench.runner.store.evidence import lock
from robustfl_bench.runner.store.kept import FOLDER, files, is_of_arena
from robustfl_bench.runner.store.lines import guarded, unguarded
from robustfl_bench.runner.store.writing import stream_atomically

KEPT = (*MEASURED, "infeasible")  # what is a result
_WORDS = ("run", "run_id", "state", "error", "scale", "reference_id", "commit", "device", "processor", "versions")
_TUNED = ("validation_accuracy", "last_validation_accuracy", "tuned_accuracy")
"""Facts of runs with validation; files without such runs, and those of older versions, lack some."""
_LATER = ("code", "data", "rounded")
"""Facts that files of older versions lack; ``rounded`` also those without runs whose products are not float32."""
_LAST = "last."  # begins the columns that hold the last line of metrics.csv
_ELSEWHERE = (
    "round",
    "lr",
    "test_accuracy",
    "test_loss",
    "recall_",
    "validation_accuracy",
)  # the columns that the facts already hold


def write(runs: pd.DataFrame, path: str) -> int:
    """Write the finished, the diverged and the infeasible runs of ``records.load``, one line each; their number.

    Facts first (accuracies as fractions, ``recall`` of all classes with blanks between), then the other numbers of the
    last evaluated round, then every setting. Lines are ordered by run, so that version control shows new runs as added
    lines. A name in .csv.gz makes a compressed file, a tenth of the size. A file in the index of kept evidence stays: a
    new part holds the lines that it lacks. Raises NoRuns, or ConfigError for a file that cannot be written or that
    holds runs which would be lost.
    """
    kept = runs[runs["state"].isin(KEPT)].sort_values(["run", "run_id"])
    if not len(kept):
        raise NoRuns("none of these runs is finished")
    names = [name for name in settings(kept) if kept[name].notna().any()]
    told = (*FACTS, *(name for name in (*_LATER, *_TUNED) if kept[name].notna().any()))
    facts = {name: kept[name].map(_fact) for name in told}
    lasts = [_last(run) for run in kept.to_dict("records")]
    columns = dict.fromkeys(name for last in lasts for name in last)
    others = {
        f"{_LAST}{name}": [_fact(last[name]) or "nan" if name in last else "" for last in lasts] for name in columns
    }
    table = facts | others | {guarded(name): kept[name].map(lambda value: guarded(written(value))) for name in names}
    if kept_lines.is_listed(path):
        kept_lines.add(path, pd.DataFrame(table))
    else:
        _refuse_loss(path, set(kept["run_id"]))
        kept_lines.write(path, pd.DataFrame(table))
    return len(kept)


def holds_runs(path: str) -> bool:
    """Whether there is a file, not compressed, with the columns of those that ``write`` makes."""
    try:
        with regular.opened(path) as file:
            return set(FACTS) <= set(next(csv.reader(io.TextIOWrapper(file, "utf-8", "replace", newline="")), ()))
    except (OSError, ValueError, csv.Error):
        return False


def put(runs: pd.DataFrame, path: str) -> None:
    """Write runs of ``records.load`` into a file that ``write`` made or makes now, each in place of its earlier line.

    Processes that share the disk take turns, so that none restores the lines that another has replaced. Raises NoRuns,
    DataError and ConfigError as ``read`` and ``write`` do.
    """
    if kept_lines.is_listed(path):
        write(runs, path)
        return
    with lock(Path(path)):
        write(join([runs, read(path)]) if Path(path).exists() else runs, path)


def read(path: str, unsealed: bool = False) -> pd.DataFrame:
    """The runs of a file made by ``write``, as ``records.load`` gives them, but without commands and run folders.

    A repeated line counts once. Raises NoRuns where there is no file, and DataError for one that cannot be read, has
    different lines of one run, or is not sealed as ``kept_lines.read`` says, unless it is read ``unsealed``.
    """

    def of_file() -> pd.DataFrame:
        try:
            return _typed(_columns(path, unsealed))
        except ValueError as error:
            raise DataError(f"{path} is damaged: {error}") from error

    return frames.read_once([path], of_file)


def _columns(path: str, unsealed: bool = False) -> dict[str, list[Any]]:
    """The columns of a file as text, ``folder``, and the other numbers of the last round as ``last``."""
    columns = {str(name): values.tolist() for name, values in kept_lines.read(path, unsealed).items()}
    lasts = [name for name in columns if name.startswith(_LAST)]
    rows = zip(*map(columns.pop, lasts), strict=True) if lasts else iter([()] * len(columns["run_id"]))
    metrics = [name.removeprefix(_LAST) for name in lasts]
    last = [{name: float(value) for name, value in zip(metrics, row, strict=True) if value} for row in rows]
    return columns | {"folder": [f"{path}/{run_id}" for run_id in columns["run_id"]], "last": last}


def _typed(columns: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """The columns of ``_columns`` in their types. Raises ValueError for a number that is none."""
    numbers = [name for name in (*NUMBERS, *_TUNED) if name in columns]
    words = [name for name in (*_WORDS, *_LATER) if name in columns]
    facts: dict[str, Any] = {name: _column(columns[name], _number) for name in numbers}
    facts |= {name: _column(columns[name], lambda value: unguarded(value) or None) for name in words}
    facts["error"] = _column(columns["error"], unguarded)
    facts["recall"] = [[float(part) for part in value.split()] or None for value in columns["recall"]]
    facts |= {name: columns[name] for name in ("folder", "last")}
    others = (name for name in columns if name not in facts)
    values = {unguarded(name): _column(columns[name], _parsed) for name in others}
    return arrange(pd.DataFrame(facts | values))


def _column(texts: Sequence[str], of: Callable[[str], object]) -> Any:
    """``of`` applied to every text, an array of the type that suits all."""
    results, places = mapped_once(texts, of)
    return pd.Series(results).array.take(places)


@cache
def kept_points() -> tuple[Path, ...]:
    """The files of points of figures that come with the package."""
    return tuple(path for path in sorted(FOLDER.glob("*/*.csv")) if path.read_bytes()[:2] == b"# ")


def kept(arena: bool = False, folders: Collection[str] = ()) -> pd.DataFrame:
    """The kept runs that come with the package: those of papers, or those of the arena, where those in ``folders`` of
    these names are enough, if there are any."""
    found = [path for path in files() if is_of_arena(path) == arena]
    own = [path for path in found if path.parent.name in folders]
    paths = [str(path) for path in own or found]
    return frames.read_once(paths, lambda: join([nothing(), _read_all(paths)]))


def _read_all(paths: Sequence[str]) -> pd.DataFrame:
    """The runs of several files as one table, typed once; the first file with a run counts."""
    columns: dict[str, list[Any]] = {}
    count = 0
    for path in paths:
        new = _columns(path)
        columns |= {name: [""] * count for name in new if name not in columns}
        for name, values in columns.items():
            values += new.get(name, [""] * len(new["run_id"]))
        count = len(columns["run_id"])
    try:
        return _typed(columns).drop_duplicates("run_id", ignore_index=True)
    except ValueError:
        for path in paths:
            read(path)  # names the damaged file
        raise


def with_kept(results_dir: str, arena: bool = False, folders: Collection[str] = ()) -> pd.DataFrame:
    """The runs of a folder, if there is one, and those of ``kept``.

    Of a run, a finished folder comes before a kept result, which comes before an unfinished folder. Nobody changes the
    table: it may be that of other callers.
    """
    try:
        runs = load(results_dir)
    except NoRuns:
        return kept(arena, folders)
    ended = runs["state"].isin(KEPT)
    return join([runs[ended], kept(arena, folders), runs[~ended]])


def join(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Runs from several tables as one; the first table with a run counts."""
    seen: set[str] = set()
    new = []
    for table in tables:
        here = set(table["run_id"])
        new.append(table[~table["run_id"].isin(seen & here)])
        seen |= here
    return arrange(pd.concat(new, ignore_index=True)).copy()  # one block: pandas warns about a hundred


def _refuse_loss(path: str, run_ids: set[str]) -> None:
    """Raise ConfigError if writing would drop runs of the file, which is often their only copy."""
    if not Path(path).exists():
        return
    lost = [run for run, run_id in zip(*(read(path)[name] for name in ("run", "run_id")), strict=True)
            if run_id not in run_ids]  # fmt: skip
    if lost:
        plural = "s" if len(lost) > 1 else ""
        raise ConfigError(
            f"{path} holds {len(lost)} run{plural} that would be lost ({lost[0]}{' ...' if plural else ''}); "
            f"add --from {path} to keep them, or remove the file"
        )


def _last(run: Mapping[Hashable, Any]) -> dict[str, float]:
    """The numbers in ``metrics.csv`` for the last evaluated round that the facts lack."""
    if isinstance(run["last"], dict):
        return run["last"]
    if run["state"] != "finished":
        return {}
    try:
        last = last_metrics(run["folder"])
    except Damaged as error:
        warnings.warn(f"{run['run']} is kept without its other numbers: {error}", stacklevel=2)
        return {}
    return {name: value for name, value in last.items() if not name.startswith(_ELSEWHERE)}


def _fact(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(repr(float(part)) for part in value)
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return guarded(str(value))


def _number(value: str) -> float:
    return float(value) if value else math.nan


def _parsed(value: str) -> Any:
    """A setting as YAML would have given it: absent, a number as ``written`` writes it, or words."""
    if not value:
        return math.nan
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        if written(number) == value:
            return number
    return unguarded(value)


_KEPT_FACTS = ("run", "run_id", "state", "scale", "experiment")


def write_rounds(runs: pd.DataFrame, path: str) -> int:
    """Write the rows of ``tidy`` as CSV; their number.

    Raises NoRuns, and ConfigError for a file that cannot be written or that holds kept runs.
    """
    if holds_runs(path):
        raise ConfigError(f"{path} holds a line for each of its runs, often the only copy; name another file")
    count = 0

    def lines() -> Iterator[bytes]:
        nonlocal count
        count = -1  # the header is no row
        for values in tidy(runs):
            count += 1
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerow(map(guarded, values))
            yield text.getvalue().encode()

    with writable(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        stream_atomically(Path(path), lines)
    return count


def tidy(runs: pd.DataFrame) -> Iterator[list[str]]:
    """A header, then a row per run of ``load`` and evaluated round: the run, its settings, its metrics.

    A setting that is called like a metric gets ``_config`` at its end (``lr_config``: the initial rate). Runs of every
    state are included with the rounds they have; a warning names those without readable metrics. Holds one run at a
    time. Raises NoRuns when there is no round at all.
    """
    headers = {folder: header for folder in runs["folder"] if (header := _header(folder))}
    metrics = list(dict.fromkeys(name for header in headers.values() for name in header))
    if not metrics:
        raise NoRuns("none of these runs has an evaluated round yet")
    names = [*_KEPT_FACTS, *all_settings(runs)]
    yield [*(f"{name}_config" if name in metrics else name for name in names), *metrics]
    texts = runs[names].map(written)
    for folder, *setting in zip(runs["folder"], *(texts[name] for name in names), strict=True):
        try:
            header, rows = records.rounds(folder)
        except Damaged as error:
            warnings.warn(f"left out {setting[0]}: {error}", stacklevel=2)
            continue
        places = [header.index(name) if name in header else None for name in metrics]
        for row in rows:
            yield [*setting, *("" if place is None else row[place] for place in places)]


def _header(folder: str) -> list[str]:
    try:
        return records.columns(folder)
    except Damaged:
        return []
