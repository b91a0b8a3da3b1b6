"""Which runs are those of a paper's table: their whole resolved config must be what the table asks for.

What a table names must be there. All else must be as shipped in conf/, or absent, as in a run of an older version that
did not have the setting yet. An option is known by its content, not by its name: aliases are one and the same run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from robustfl_bench.config import options
from robustfl_bench.results.records import leaf, settings, text
from robustfl_bench.results.selection import canonical

if TYPE_CHECKING:
    import pandas as pd

    from robustfl_bench.papers.tables import PaperCell

SIZES = (
    "rounds", "lr", "batch_size", "num_clients", "num_byzantine", "num_byzantine_declared", "local_update.epochs",
)  # fmt: skip
"""What a small version of an experiment may change, with all of schedule and server_data."""

_SIZE_GROUPS = ("schedule", "server_data")
_ANY = ("seed", "eval_every")
_UNRECORDED = ("num_byzantine_declared",)  # a run records it in the parts that use it
_NEAR = 3  # settings in which a run may differ to be told of as not quite one of the table's
_INDEX = ("dataset", "attack", "aggregator")


@dataclass(frozen=True)
class Wanted:
    """The config that a run must have: ``settings`` by flat key, as text. ``named`` are the keys and groups the table
    names; keys in ``free``, or under a group in it, may have any value.
    """

    settings: Mapping[str, str]
    named: frozenset[str]
    free: frozenset[str]

    def is_free(self, key: str) -> bool:
        """Whether the key may have any value."""
        return key in self.free or key.split(".")[0] in self.free


@dataclass
class Matches:
    """The rows of a table of runs that belong to each place, in which the settings ``free`` (and groups) may differ.

    ``unlike`` counts the few settings that keep runs of the same data set, attack and rule out, as those have them;
    ``other_scale`` the runs that are left out because they were made at another scale.
    """

    places: dict[str, list[int]]
    free: frozenset[str]
    unlike: Counter[str] = field(default_factory=Counter)
    other_scale: int = 0

    def at(self, cell: PaperCell) -> list[int]:
        """The rows that belong to a cell."""
        return self.places.get(_place(cell), [])


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
    following = {key for key, value in values.items() if options.interpolated(value) in SIZES}
    free = {*_ANY, *SIZES, *_SIZE_GROUPS, *following} if quick else {*_ANY}
    return Wanted(settings_, frozenset({*runs} - {*_UNRECORDED}), frozenset(free))


def _resolve(value: Any, values: Mapping[str, Any]) -> Any:
    key = options.interpolated(value)
    return value if key is None or key not in values else _resolve(values[key], values)


def differences(held: Mapping[str, str], target: Wanted) -> list[str]:
    """What keeps a run with the settings ``held`` from being what is wanted: ``key=value``, as the run has it."""
    there = {key.split(".")[0] for key in held}
    found = []
    for key, value in target.settings.items():
        if target.is_free(key):
            continue
        if key in held:
            found += [f"{key}={held[key]}"] if held[key] != value else []
        elif key in target.named or (key.endswith("_target_") and key.split(".")[0] in {*target.named, *there}):
            found.append(f"{key}=absent")
    return found + [f"{key}={held[key]}" for key in held if key not in target.settings and not target.is_free(key)]


def held(runs: pd.DataFrame) -> list[dict[str, str]]:
    """The settings of each run as text by flat key, without those it does not have and without names of options."""
    names = [name for name in settings(runs) if not options.is_group(name)]
    columns = [runs[name].map(text) for name in names]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(runs))
    return [{name: canonical(value) for name, value in zip(names, row, strict=True) if value != "absent"}
            for row in rows]  # fmt: skip


def _place(cell: PaperCell) -> str:
    """Equal for cells of the same runs, such as accuracy and max recall drop without attack; empty without runs."""
    return repr(sorted(cell.runs.items())) if cell.runs is not None else ""


def match(
    cells: Iterable[PaperCell], scales: Sequence[object], configs: Sequence[Mapping[str, str]], scale: str
) -> Matches:
    """Sort the runs, of which ``scales`` and ``configs`` (``held``) tell, into the places of the cells.

    A run made at scale=quick belongs in no table at scale=paper, and the other way round.
    """
    quick = scale == "quick"
    targets = {_place(cell): wanted(cell.runs, quick) for cell in cells
               if cell.runs is not None and not missing_option(cell.runs)}  # fmt: skip
    by_kind: dict[tuple[str | None, ...], list[str]] = {}
    for name, target in targets.items():
        by_kind.setdefault(_kind(target.settings), []).append(name)
    free = frozenset[str]().union(*(target.free for target in targets.values()))
    found = Matches({name: [] for name in targets}, free)
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
            closest = min(unlike.values(), key=len)
            found.unlike.update([", ".join(closest)] if len(closest) <= _NEAR else [])
    return found


def _kind(config: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(config.get(f"{group}._target_") for group in _INDEX)
