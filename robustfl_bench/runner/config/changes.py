"""Settings of a composed config, as presets change them, and as overrides set, add and remove them."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from robustfl_bench.base.errors import ConfigError, did_you_mean, near
from robustfl_bench.base.trees import flatten
from robustfl_bench.runner.config import options
from robustfl_bench.runner.config.beyond import Beyond
from robustfl_bench.runner.config.options import Entry, Search
from robustfl_bench.runner.config.words import PRESETS, Override
from robustfl_bench.train.parts import GROUPS
from robustfl_bench.train.settings import SCALARS

OTHER_NAMES = {"learning_rate": ("lr",), "f": ("num_byzantine",), "epochs": ("local_update.epochs", "rounds")}
"""What settings are called elsewhere, with the keys that they have in this package."""


def change(tree: dict[str, Any], one: Override, search: Search) -> None:
    """Set, add or remove the setting of an override, without changing mappings that others share. Raises ConfigError.

    ``key=value`` needs the setting, ``+key=value`` needs that it is absent or null; the items of a mapping are set one
    by one.
    """
    _change(tree, one, one.key, one.value, search)


def _change(tree: dict[str, Any], one: Override, key: str, value: Any, search: Search) -> None:
    *path, last = key.split(".")
    node, adds = tree, one.sign.startswith("+")
    for depth, name in enumerate(path):
        below = node.get(name, {} if adds else None)
        if not isinstance(below, Mapping):
            raise _absent(node, path[:depth], one, search)
        node[name] = node = dict(below)  # assigned from left to right
    present = node.get(last)
    if one.sign == "~":
        if last not in node:
            raise _absent(node, path, one, search)
        if one.written is not None and present != value:
            raise ConfigError(f"{one.text} deletes nothing: {key} is {present!r}")
        del node[last]
    elif isinstance(value, Mapping) and isinstance(present, Mapping):
        for name, item in value.items():
            _change(tree, one, f"{key}.{name}", item, search)
    elif last not in node and not adds:
        raise _absent(node, path, one, search)
    elif one.sign == "+" and present is not None and not isinstance(value, list):
        raise ConfigError(f"{key} is there already: write {one.text[1:]}")
    else:
        node[last] = value


def _absent(node: Mapping[str, Any], path: list[str], one: Override, search: Search) -> ConfigError:
    """The error for a setting that does not exist beside those in ``node``, which stands at ``path``."""
    known, group = _settings(search), one.key.partition(".")[0]
    if one.key in known and one.sign == "":
        return ConfigError(f"the chosen option of {group} has no setting {one.key!r}; take another {group}=... with it")
    beside = [".".join([*path, str(name)]) for name in node if name != "_target_"]
    meant = did_you_mean(OTHER_NAMES.get(one.key) or _ending(one.key, (key for key, _ in flatten(node))))
    meant = meant or near(one.key, beside) or did_you_mean(_ending(one.key, known)) or near(one.key, known)
    removing = " to delete" if one.sign == "~" else ""
    return ConfigError(f"no setting {one.key!r}{removing}{meant}; robustfl-bench --cfg job shows all")


def _ending(name: str, known: Iterable[str]) -> list[str]:
    """The known keys of which ``name`` is the last part: ``partition.alpha`` for ``alpha``."""
    return sorted(key for key in known if key.endswith(f".{name}"))


@cache
def _settings(search: Search) -> frozenset[str]:
    """The keys of all settings that an override can set, with all options."""
    keys = {*SCALARS, *GROUPS}
    for group in GROUPS:
        for name in options.names(group, search):
            content = options.chosen(group, name, (), search)
            keys |= {f"{group}.{key}" for key, _ in flatten(content) if "_target_" not in key}
    return frozenset(keys)


# Presets: the options of ``setting``, ``method``, ``threat`` and ``experiment``, which change settings of other
# groups.


_SWEEPING = ("hydra/launcher", "hydra/sweeper")
"""Groups of Hydra that change no single run."""


def bodies(group: str, name: str, search: Search) -> Iterator[Mapping[str, Any]]:
    """The settings of a preset and of the presets that it builds on, in merge order. Raises ConfigError."""
    for entry in _entries(group, name, search):
        if entry is None:
            content = options.load(f"{group}/{name}", search)
            _check_for_sweeps_alone(group, name, content.get("hydra") or {})
            yield {key: value for key, value in content.items() if key != "defaults"}
        elif not entry.override:
            yield from bodies(entry.group, str(entry.name), search)


def choices(group: str, name: str, search: Search) -> dict[str, str]:
    """The options that a preset chooses, by ``group`` or ``group@place``; they come before those of the presets that
    it builds on. Raises ConfigError."""
    own: dict[str, str] = {}
    entries = [entry for entry in _entries(group, name, search) if entry is not None]
    for entry in reversed(entries):
        if not entry.override:
            own |= choices(entry.group, str(entry.name), search)
    return own | {_key(entry): str(entry.name) for entry in entries if entry.override and entry.group in GROUPS}


def _check_for_sweeps_alone(group: str, name: str, settings: Mapping[str, Any]) -> None:
    """Raise Beyond if a preset changes settings of Hydra by which single runs go, too."""
    if others := [key for key in settings if f"hydra/{key}" not in _SWEEPING]:
        raise Beyond(f"{group}={name} sets hydra.{others[0]}")


def _key(entry: Entry) -> str:
    return f"{entry.group}@{entry.place}" if entry.place else entry.group


def _entries(group: str, name: str, search: Search) -> list[Entry | None]:
    """The defaults list of a preset, without empty entries."""
    path = f"{group}/{name}"
    entries = options.entries(path, search)
    if (package := options.package_of(path, search)) != "_global_":
        raise ConfigError(f"{options.find(path, search)}: a preset begins with # @package _global_, not {package}")
    for entry in filter(None, entries):
        if entry.override and entry.group.startswith("hydra/"):
            if entry.group not in _SWEEPING:
                raise Beyond(f"{group}={name} sets {entry.group}")
        elif entry.override and entry.group not in GROUPS:
            meant = near(entry.group, GROUPS)
            raise ConfigError(f"{options.find(path, search)}: override /{entry.group} is no group of options{meant}")
        if not entry.override and (entry.group.partition("/")[0] not in PRESETS or entry.place):
            raise ConfigError(
                f"{options.find(path, search)}: a preset builds on presets; "
                f"for an option write override /{_key(entry)}: {entry.name}"
            )
    return [entry for entry in entries if entry is None or entry.name is not None]
