"""Presets: the options of ``setting``, ``method``, ``threat`` and ``experiment``, which change settings of other
groups."""

from collections.abc import Iterator, Mapping
from typing import Any

from robustfl_bench.base.errors import ConfigError, near
from robustfl_bench.runner.config import options
from robustfl_bench.runner.config.beyond import Beyond
from robustfl_bench.runner.config.options import Entry, Search
from robustfl_bench.runner.config.words import PRESETS
from robustfl_bench.train.parts import GROUPS

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
