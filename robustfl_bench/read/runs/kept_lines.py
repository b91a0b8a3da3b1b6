"""Files of kept runs as text: a line for each run, the seals of lines, and the parts that are added to a file.

A file in the index of kept evidence (``store.evidence``) is never written again. Lines that are new, or that replace
earlier ones, go into a part beside it: the last line of a run counts, and it has the seal of the line that it replaces.
"""

from __future__ import annotations

import gzip
import io
import warnings
import zlib
from pathlib import Path

from robustfl_bench.base.console import counted, say
from robustfl_bench.base.errors import DataError, one_line, reason, writable
from robustfl_bench.base.late import pd
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.runner.store import evidence, kept
from robustfl_bench.runner.store.kept import SEAL, SUPERSEDES, sealer
from robustfl_bench.runner.store.results import fault_of_lines
from robustfl_bench.runner.store.writing import Damaged, write_output

NUMBERS = ("rounds_done", "final_accuracy", "best_accuracy", "last_accuracy", "test_loss", "seconds", "num_threads")
FACTS = ("run", "run_id", "state", "scale", *NUMBERS, "recall", "reference_id", "error", "commit", "device",
         "processor", "versions")  # fmt: skip
"""The columns that every such file has."""

_PASSING = ("seconds", "commit")
"""Columns that make no line another one: a run that was made again by the same code is not kept twice."""


def is_listed(path: str) -> bool:
    """Whether a file is in the index of kept evidence, and so is never written again. Raises DataError for a damaged
    index."""
    try:
        return evidence.index_of(kept.FOLDER).lists(Path(path))
    except Damaged as error:
        raise DataError(str(error)) from error


def read(path: str, unsealed: bool = False) -> pd.DataFrame:
    """The lines of a file and its parts as text, without seals; a repeated line counts once.

    Raises NoRuns where there is no file, and DataError for one that cannot be read, lacks one of FACTS, has different
    lines of one run, or is not what was written. So it does for a file without seals, or with older ones
    that leave the names of columns open, unless it is in the index or ``unsealed``.
    """
    lines = _with_seals(path, unsealed)
    return lines.drop(columns=[name for name in (SEAL, SUPERSEDES) if name in lines])


def _with_seals(path: str, unsealed: bool = False) -> pd.DataFrame:
    """As ``read``, with the columns SEAL, unless a file lacks it, and SUPERSEDES, where parts were added."""
    try:
        parts = evidence.index_of(kept.FOLDER).parts(Path(path))
    except Damaged as error:
        raise DataError(f"cannot read {path}: {error}") from error
    first, *others = (_of_part(str(part), unsealed) for part in parts)
    lines = first
    for part, new in zip(parts[1:], others, strict=True):
        earlier = dict(zip(lines["run_id"], lines[SEAL], strict=True))
        for run, run_id, seal in zip(new["run"], new["run_id"], new[SUPERSEDES], strict=True):
            if earlier.get(run_id, "") != seal:
                raise DataError(
                    f"{part}: the line of {run} does not name the line that it replaces; {evidence.RESTORE}"
                )
        lines = pd.concat([lines[~lines["run_id"].isin({*new["run_id"]})], new], ignore_index=True).fillna("")
    return lines.sort_values(["run", "run_id"], ignore_index=True) if others else lines


def _of_part(path: str, unsealed: bool) -> pd.DataFrame:
    """The lines of one file as text, with their seals if it has any."""
    text, is_sealed = content(path)
    try:
        lines = pd.read_csv(io.BytesIO(text), dtype=object, keep_default_na=False)
    except (pd.errors.EmptyDataError, pd.errors.ParserError) as error:
        raise DataError(f"{path} is no table: it was not made by robustfl-results export --summary") from error
    except ValueError as error:
        raise DataError(f"cannot read {path}: {one_line(error)}") from error
    if absent := [name for name in FACTS if name not in lines]:
        raise DataError(f"{path} has no column {absent[0]}: it was not made by robustfl-results export --summary")
    if not is_sealed:
        _check_seals(path, lines, unsealed)
        if fault := fault_of_lines({str(name): texts.tolist() for name, texts in lines.items()}):
            raise DataError(f"{path}: {fault}")
    if lines["run_id"].duplicated().any():
        lines = lines.drop_duplicates(ignore_index=True)
    if len(twice := lines.loc[lines["run_id"].duplicated(), "run"]):
        raise DataError(f"{path} has two lines of {twice.iloc[0]} that differ; remove one of them")
    return lines


def content(path: str | Path) -> tuple[bytes, bool]:
    """``kept.content`` of a file that the user named. Raises NoRuns where there is none, else DataError."""
    try:
        return kept.content(Path(path))
    except FileNotFoundError as error:
        raise NoRuns(f"no file {path}; robustfl-results export --summary {path} makes it from run folders") from error
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {reason(error)}") from error


def _check_seals(path: str, lines: pd.DataFrame, unsealed: bool) -> None:
    """Raise DataError for a line that does not fit its seal, and for lines without seals of names and values unless
    ``unsealed``."""
    fault = "has no seals"
    if "run" in lines and (lines["run"] == "run").any():
        raise DataError(f"{path} has its names of columns again in a later line: give each of its files to --from")
    if SEAL in lines:
        values = lines.drop(columns=SEAL)
        open_lines = lines[lines[SEAL] != _seals(values, with_names=True)]
        edited = open_lines[open_lines[SEAL] != _seals(values.loc[open_lines.index], with_names=False)]
        if len(edited):
            others = (
                ", nor does any other, as where a column was renamed or numbers were written anew"
                if len(edited) == len(lines) > 1
                else ""
            )
            raise DataError(
                f"{path}: the line of {edited['run'].iloc[0]} is not what was written: it does not fit its seal{others}"
            )
        if not len(open_lines):
            return
        fault = "has seals of an older version, which do not cover the names of columns"
    refuse(path, fault, unsealed)


def refuse(path: str | Path, fault: str, unsealed: bool) -> None:
    """Raise DataError for a file whose seals have a ``fault``; a warning says it if the user asked for such files."""
    problem = f"{path} {fault}, so nobody can tell whether its numbers were changed"
    if not unsealed:
        raise DataError(f"{problem}; --unsealed of robustfl-results reads it")
    warnings.warn(problem, stacklevel=2)


def _seals(values: pd.DataFrame, with_names: bool) -> list[str]:
    seal = sealer(map(str, values) if with_names else ())
    return list(map(seal, zip(*(column.tolist() for _, column in values.items()), strict=True)))


def write(path: str, lines: pd.DataFrame) -> None:
    """Write lines as a file, with their seals. Raises ConfigError for a file that cannot be written."""
    sealed = lines.assign(**{SEAL: _seals(lines, with_names=True)})
    text = sealed.to_csv(index=False, lineterminator="\n").encode()
    write_output(Path(path), gzip.compress(text, mtime=0) if path.endswith(".gz") else text)


def add(path: str, lines: pd.DataFrame) -> None:
    """Add those of the lines to a file in the index that it does not hold, as a new part. Writers take turns.

    Raises DataError for a file that cannot be read, and ConfigError for a part that cannot be written.
    """
    with evidence.lock(kept.FOLDER):
        held = _with_seals(path).set_index("run_id")
        earlier = held.reindex(index=lines["run_id"])
        compared = sorted({*held, *lines} - {SEAL, SUPERSEDES, "run_id", *_PASSING})
        before, now = (table.reindex(columns=compared).fillna("").to_numpy() for table in (earlier, lines))
        new = lines.assign(**{SUPERSEDES: earlier[SEAL].fillna("").tolist()})[(before != now).any(axis=1)]
        parts = evidence.index_of(kept.FOLDER).parts(Path(path))
        if len(new):
            parts.append(evidence.part(Path(path), len(parts)))
            write(str(parts[-1]), new)
            replacing = int((new[SUPERSEDES] != "").sum())
            say(f"{parts[-1]}: {counted(len(new), 'line')}, {replacing} in the place of earlier ones")
        if unlisted := [part for part in parts if not is_listed(str(part))]:
            with writable(kept.FOLDER / evidence.INDEX):
                evidence.add(kept.FOLDER, unlisted)
