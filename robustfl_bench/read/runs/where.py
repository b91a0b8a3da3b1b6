"""Select runs by the conditions of ``--where``, and refuse to average runs that differ in other settings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from robustfl_bench.base.errors import ConfigError, similar
from robustfl_bench.base.late import pd
from robustfl_bench.read.runs.records import NoRuns, all_settings, settings, text
from robustfl_bench.runner.config.identity import UNHASHED
from robustfl_bench.runner.config.options import is_group
from robustfl_bench.runner.store.lines import canonical as canonical

UNREADABLE = "no run can be read; robustfl-results status says why, of those of a folder"

_FIRST = ("none", "average", "fedavg", "rar", "server")
_LAST = ("boba_wo_stage1", "boba_wo_stage2", "boba_es", "boba")
_SELECTABLE_FACTS = ("scale", "experiment", "state", "run_id")


def keys(runs: pd.DataFrame) -> list[str]:
    """The names allowed in ``--where``, ``--rows`` and the like: settings, and a few facts. Raises NoRuns if no run has
    a config."""
    names = all_settings(runs)
    if not any(runs[name].notna().any() for name in names):
        raise NoRuns(UNREADABLE if len(runs) else "no runs: the file, or the folder, has none")
    return [*names, *_SELECTABLE_FACTS]


def check_name(name: str, known: Iterable[str], what: str) -> None:
    """Raise ConfigError, with near matches, unless ``name`` is known."""
    names = sorted(set(known))
    if name not in names:
        close = similar(name, names)
        hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names)}"
        raise ConfigError(f"unknown {what} {name!r}; {hint}")


def where(runs: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """The runs that meet every ``key=value``; ``key=a,b`` means either, and so does ``key=[1,2],[3]`` of lists.

    Values are compared as text (``true``, ``null``, ``0.1``) or as numbers (``1e-1``). Raises ConfigError for an
    unknown key, NoRuns when nothing is left.
    """
    for condition in conditions:
        key, equals, wanted = condition.partition("=")
        if not equals:
            raise ConfigError(f"--where takes key=value, got {condition!r}")
        check_name(key, keys(runs), "key")
        held = runs[key].map(text)
        values = [wanted] if wanted in set(held) else listed(wanted)
        values = [value if value in set(held) else canonical(value) for value in values]
        for value in values:
            if value not in set(held):
                raise NoRuns(f"no run has {key}={value}; {key} is {_listing(held)}")
        runs = runs[held.isin(values)]
    return runs


def listed(words: str) -> list[str]:
    """The parts between commas. Commas within brackets do not separate."""
    return re.split(r",(?![^\[]*\])", words)


def require_comparable(runs: pd.DataFrame, axes: Sequence[str]) -> None:
    """Raise ConfigError when runs differ in more than the axes, the seed, and what an axis brings along.

    A setting may vary along one axis (``attack.factor``, or ``num_byzantine`` = 0 without attack); it may not take two
    values within a cell, nor depend on both axes at once. The message holds the conditions that leave one table.
    """
    unlike = mixed(runs, axes)
    if not unlike:
        return
    values = [f"{key} ({_listing(runs[key].map(text))})" for key in unlike[:4]]
    more = f" and {len(unlike) - 4} more" if len(unlike) > 4 else ""
    advice = " ".join(f"--where {shlex.quote(condition)}" for condition in _separating(runs, axes))
    raise ConfigError(
        f"these runs also differ in {', '.join(values)}{more}, which would be averaged; add for example {advice}"
    )


def mixed(runs: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """The settings that make runs incomparable in a table with these axes, config groups first."""
    axes = list(dict.fromkeys(axes))
    names = [name for name in all_settings(runs) if name not in (*axes, *UNHASHED) and not is_seed(name)]
    names = [name for name in names if runs[name].nunique(dropna=False) > 1]
    written = runs[[*axes, *names]].map(text)
    options = [name for name in names if "." in name]
    written[options] = written[options].replace("null", "absent")  # an archive leaves nulls out
    # In a cell, having a setting and not having it are two values; across cells, rules need not share their settings.
    within = written.groupby(axes)[names].nunique().max() > 1
    present = written[[*axes, *names]].where(written != "absent")
    along = [present.groupby(written[axis])[names].nunique().max() <= 1 for axis in axes]
    unlike = [name for name in names if within[name] or not any(single[name] for single in along)]
    groups = [name for name in unlike if any(other.startswith(f"{name}.") for other in names)]
    others = [name for name in unlike if name not in groups and name.split(".")[0] not in groups]
    return groups + sorted(others, key=lambda name: name.endswith("._target_"))  # last: a value says more to a user


def is_constant(runs: pd.DataFrame, name: str) -> bool:
    """Whether all runs have the same value of a setting."""
    return name in runs and bool(runs[name].notna().all()) and runs[name].map(text).nunique() == 1


def is_seed(name: str) -> bool:
    """Whether a setting is the seed, or a part's copy of it (``dataset.seed`` of generated data)."""
    return name.split(".")[-1] == "seed"


def brought_along(runs: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """One line for each scalar that varies with an axis: ``num_byzantine: 0 (none), 15 (ipm, lie)``."""
    shown = {*axes, *",".join(axes).split(",")}
    names = [name for name in all_settings(runs) if "." not in name and name not in shown and not is_seed(name)]
    lines = []
    for name in names:
        if runs[name].map(text).nunique() > 1:
            axis = next((a for a in axes if runs[name].map(text).groupby(runs[a].map(text)).nunique().max() == 1), None)
            if axis is not None:
                groups = runs.groupby(runs[name].map(text), sort=True)[axis]
                parts = [f"{value} ({', '.join(sorted(set(group.map(text))))})" for value, group in groups]
                lines.append(f"{name}: {', '.join(parts)}")
    return lines


def _separating(runs: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """Conditions after which the remaining runs are comparable: the commonest value of each setting that differs."""
    conditions = []
    while unlike := mixed(runs, axes):
        conditions.append(max(_splitting(runs, axes, unlike[0]), key=lambda condition: len(where(runs, [condition]))))
        runs = where(runs, conditions[-1:])
    return conditions


def _splitting(runs: pd.DataFrame, axes: Sequence[str], name: str) -> list[str]:
    """A condition for each value of a setting that splits the runs.

    Rules (or other values of an axis) for which their own setting has one value, or that lack it, are in every part: a
    baseline stays beside a rule that was run with several options.
    """
    present = runs[name].map(text)
    values = present.replace("null", "absent") if "." in name else present  # as in ``mixed``
    split, (axis, dot, _) = set(values), name.partition(".")
    if dot and axis in axes and all(listed(value) == [value] for value in split):
        split = {value for _, own in values.groupby(runs[axis].map(text)) if own.nunique() > 1 for value in own}
    common = sorted(set(values) - split, key=natural)
    words = {value: [value] if value != "absent" else sorted({"absent", "null"} & set(present)) for value in values}
    return [f"{name}={','.join([*words[value], *(word for other in common for word in words[other])])}"
            for value in sorted(split, key=natural)]  # fmt: skip


def narrowing(runs: pd.DataFrame) -> list[str]:
    """Conditions that leave one of the runs: the first value of each setting in which they differ."""
    conditions = []
    for name in sorted(keys(runs), key=lambda name: (name in _SELECTABLE_FACTS, "." in name)):
        values = runs[name].map(text)
        if values.nunique() > 1:
            value = min(values, key=natural)
            conditions.append(f"{name}={value}")
            runs = runs[values == value]
    return conditions


def parts(runs: pd.DataFrame, axes: Sequence[str], conditions: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield lists of conditions. Each list selects runs that one table with these axes can show, and every run is
    selected by a list."""
    unlike = mixed(runs, axes)
    if not unlike:
        yield conditions
        return
    for condition in _splitting(runs, axes, unlike[0]):
        yield from parts(where(runs, [condition]), axes, (*conditions, condition))


def group_names(runs: pd.DataFrame) -> set[str]:
    """The settings that are the name of an option chosen in a config group."""
    return {name for name in settings(runs) if is_group(name)}


def _listing(held: pd.Series[str]) -> str:
    values = sorted(set(held), key=natural)
    return ", ".join(values[:6]) + (" ..." if len(values) > 6 else "")


def order(label: str) -> tuple[int, tuple[float, str]]:
    """Sort key of labels: baselines first, the BOBA family last, numbers by size, else alphabetical."""
    if label in _FIRST:
        return _FIRST.index(label) - len(_FIRST), natural(label)
    return _LAST.index(label) + 1 if label in _LAST else 0, natural(label)


def natural(value: str) -> tuple[float, str]:
    """Sort key: numbers by size, then words."""
    try:
        return float(value), value
    except ValueError:
        return float("inf"), value
