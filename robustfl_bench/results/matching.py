"""Which runs are those of a paper's table: their whole resolved config must be what the table asks for.

What a table names must be there. All else must be as shipped in conf/, or absent, as in a run of an older version that
did not have the setting yet. An option is known by its content, not by its name: aliases are one and the same run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from robustfl_bench import options
from robustfl_bench.results.records import leaf, settings, text
from robustfl_bench.results.selection import canonical

if TYPE_CHECKING:
    import pandas as pd

    from robustfl_bench.papers.tables import PaperCell

SIZES = ("rounds", "lr", "batch_size", "num_clients", "num_byzantine", "num_byzantine_declared")
"""What a small version of an experiment may change, with all of schedule and server_data."""

_SIZE_GROUPS = ("schedule", "server_data")
_EVERY_RUN = ("seed", "eval_every")
_UNRECORDED = ("num_byzantine_declared",)  # a run records it in the parts that use it
_INDEX = ("dataset", "attack", "aggregator")


@dataclass(frozen=True)
class Wanted:
    """The config that a run must have: ``settings`` by flat key, as text. ``named`` are the keys and groups the table
    names; ``free`` tells which keys may have any value.
    """

    settings: Mapping[str, str]
    named: frozenset[str]
    quick: bool

    def free(self, key: str) -> bool:
        """Whether the key may have any value."""
        sized = key in SIZES or key.split(".")[0] in _SIZE_GROUPS
        return key in _EVERY_RUN or (self.quick and sized)


@dataclass
class Matches:
    """The rows of a table of runs that belong to each set of conditions, and those that are not quite like any.

    ``unlike`` counts the settings that keep runs of the same data set, attack and rule out, as those runs have them.
    """

    places: dict[str, list[int]]
    unlike: Counter[str] = field(default_factory=Counter)
    other_scale: int = 0


def missing_option(runs: Mapping[str, Any]) -> str:
    """The first option named by the conditions that conf/ does not have, as ``group=name``; empty when it has all."""
    named = {key: value for key, value in runs.items() if isinstance(value, str) and "." not in key}
    groups = {key: value for key, value in named.items() if key not in options.defaults()[1]}
    return next((f"{group}={name}" for group, name in groups.items() if not options.exists(group, name)), "")


def wanted(runs: Mapping[str, Any], quick: bool = False) -> Wanted:
    """The whole config that the conditions stand for; every option they name must exist."""
    groups, scalars = options.defaults()
    chosen = dict(groups) | {key: value for key, value in runs.items() if options.is_group(key)}
    named = {key: value for key, value in runs.items() if key not in chosen}
    tree = dict(scalars) | {group: options.option(group, name) for group, name in chosen.items()}
    values = dict(options.flatten(tree)) | named
    resolved = {key: _resolve(value, values) for key, value in values.items()}
    settings_ = {key: canonical(text(leaf(value))) for key, value in resolved.items() if key not in _UNRECORDED}
    return Wanted(settings_, frozenset({*runs} - {*_UNRECORDED}), quick)


def _resolve(value: Any, values: Mapping[str, Any]) -> Any:
    while (key := options.interpolated(value)) is not None:
        value = values[key]
    return value


def differences(held: Mapping[str, str], target: Wanted) -> list[str]:
    """What keeps a run with the settings ``held`` from being what is wanted: ``key=value``, as the run has it."""
    there = {key.split(".")[0] for key in held}
    found = []
    for key, value in target.settings.items():
        if target.free(key):
            continue
        if key in held:
            found += [f"{key}={held[key]}"] if held[key] != value else []
        elif key in target.named or (key.endswith("_target_") and key.split(".")[0] in {*target.named, *there}):
            found.append(f"{key}=absent")
    return found + [f"{key}={held[key]}" for key in held if key not in target.settings and not target.free(key)]


def held(runs: pd.DataFrame) -> list[dict[str, str]]:
    """The settings of each run as text by flat key, without those it does not have and without names of options."""
    names = [name for name in settings(runs) if not options.is_group(name)]
    columns = [runs[name].map(text) for name in names]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(runs))
    return [{name: canonical(value) for name, value in zip(names, row, strict=True) if value != "absent"}
            for row in rows]  # fmt: skip


def place(cell: PaperCell) -> str:
    """Equal for cells of the same runs, such as accuracy and max recall drop without attack; empty without runs."""
    return repr(sorted(cell.runs.items())) if cell.runs is not None else ""


def match(
    cells: Iterable[PaperCell], scales: Sequence[object], configs: Sequence[Mapping[str, str]], scale: str
) -> Matches:
    """Sort the runs, of which ``scales`` and ``configs`` (``held``) tell, into the places of the cells.

    A run made at scale=quick belongs in no table at scale=paper, and the other way round.
    """
    quick = scale == "quick"
    targets = {place(cell): wanted(cell.runs, quick) for cell in cells
               if cell.runs is not None and not missing_option(cell.runs)}  # fmt: skip
    by_kind: dict[tuple[str | None, ...], list[str]] = {}
    for name, target in targets.items():
        by_kind.setdefault(_kind(target.settings), []).append(name)
    found = Matches({name: [] for name in targets})
    for index, config in enumerate(configs):
        names = by_kind.get(_kind(config), [])
        if (scales[index] == "quick") != quick:
            found.other_scale += bool(names)
            continue
        unlike = {name: differences(config, targets[name]) for name in names}
        fitting = [name for name in names if not unlike[name]]
        for name in fitting:
            found.places[name].append(index)
        if names and not fitting:
            found.unlike.update([", ".join(min(unlike.values(), key=len)[:3])])
    return found


def _kind(config: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(config.get(f"{group}._target_") for group in _INDEX)
