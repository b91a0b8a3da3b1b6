"""The data, the code and the machines of runs, as lines above a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from robustfl_bench.base import remembered
from robustfl_bench.base.console import counted
from robustfl_bench.base.late import pd
from robustfl_bench.read.runs import frames
from robustfl_bench.read.runs.records import MEASURED, mapped, settings
from robustfl_bench.runner.store import bridges
from robustfl_bench.runner.store.lines import DIGEST, UNSEEDED, code_of_line
from robustfl_bench.train.code_digest import closure_of

_Made = tuple[str, tuple[str, ...]]
"""The digest of the code of a run, and its settings that name code."""

UNKNOWN = "not recorded"
_MANY = 100  # different codes; fewer are compared in less than a tenth of a second
_LISTED = 3  # digests of one kind of data; generated data have another for every seed


def origins(runs: pd.DataFrame) -> list[str]:
    """Lines on the ``runs`` of ``records.load`` that have a result: their data, how many have other code than today's,
    and their machines if these are of several kinds."""
    runs = runs[runs["state"].isin(MEASURED)]
    if not len(runs):
        return []
    lines = [f"data: {_counted(_few_digests(runs['data']))}"]
    if code_line := other_code(runs):
        lines.append(code_line)
    if unseeded := sum(UNSEEDED in code_of_line(code) for code in _words(runs["code"])):
        lines.append(f"of {len(runs)} runs, {unseeded} with parts that use what seed does not fix: others would differ")
    machines = list(_words(runs["processor"]))
    if len(set(machines) - {None}) > 1:
        lines.append(f"made on different kinds of machine: {_counted(machines)}")
    return lines


def other_code(runs: pd.DataFrame) -> str:
    """How many runs were made with other code of this package than today's; empty if none."""
    unknown = list(_words(runs["code"])).count(None)
    counts = [f"{other} with other code than today's"] if (other := int(outdated(runs).sum())) else []
    counts += [f"{unknown} with code that is not recorded"] if unknown else []
    return f"of {len(runs)} runs, {' and '.join(counts)}" if counts else ""


def outdated(runs: pd.DataFrame) -> pd.Series[bool]:
    """Which runs were made with other code of this package than today's, and by none that a bridge leads to today's.

    Runs with parts from outside are left out: what these use of the package is known only where they can be read.
    """
    names = [name for name in settings(runs) if name == "precision" or ("." in name and _names(runs[name]))]
    parts = list(zip(*(mapped(runs[name], str) for name in names), strict=True)) if names else [()] * len(runs)
    made = list(zip(_words(runs["code"]), parts, strict=True))
    others = _others({(then, values) for then, values in made if then is not None and " " not in then})
    return pd.Series([each in others for each in made], index=runs.index, dtype=bool)


def _others(made: Collection[_Made]) -> set[_Made]:
    """Those of the codes that do not lead to today's. Of many, what an earlier process has found is remembered: it
    depends on them, on the code of this package, and on the bridges."""
    if len(made) < _MANY:
        return {(then, values) for then, values in made if not bridges.lead(then, closure_of(values))}
    ordered, code, led = sorted(made), frames.code(), remembered.code_of(*bridges.sources())
    subject = code and led and code + led + repr(ordered).encode()
    if (known := remembered.recall(subject)) is None:
        known = memoryview(bytes(not bridges.lead(then, closure_of(values)) for then, values in ordered))
        remembered.remember(subject, known)
    return {of for of, other in zip(ordered, known, strict=True) if other}


def _names(column: pd.Series[Any]) -> bool:
    """Whether a setting names code of this package."""
    return any(mapped(column, lambda value: "robustfl_bench." in str(value)))


def _words(values: Iterable[object]) -> Iterable[str | None]:
    return (value if isinstance(value, str) and value else None for value in values)


def _counted(values: Iterable[object]) -> str:
    """Each value with its number of runs, unless all are alike."""
    counts = Counter(value or UNKNOWN for value in _words(values))
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{value} ({counted(count, 'run')})" for value, count in counts.most_common())


def _few_digests(data: Iterable[object]) -> Iterable[str | None]:
    """The data of each run; where too many differ in nothing but their digest, the number of digests in its place."""
    words = list(_words(data))
    digests = Counter(word.partition(DIGEST)[0] for word in {*words} if word)
    for word in words:
        kind = (word or "").partition(DIGEST)[0]
        yield f"{kind}, {digests[kind]} digests" if digests[kind] > _LISTED else word
