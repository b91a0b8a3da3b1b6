"""Where the options of conf/ are, and what they say when read as plain YAML, for those who must not wait for Hydra."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_HERE = Path(__file__).resolve().parent.parent
CONF = _HERE / "conf" if (_HERE / "conf").is_dir() else _HERE.parent / "conf"  # a wheel carries it inside the package

_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTERPOLATION = re.compile(r"\$\{(\w+)\}")


def is_group(name: str) -> bool:
    """Whether ``name`` is a folder of options, such as ``aggregator``."""
    return (CONF / name).is_dir()


def exists(group: str, name: str) -> bool:
    """Whether there is the option ``group=name``."""
    return (CONF / group / f"{name}.yaml").is_file()


@cache
def option(group: str, name: str, folders: tuple[Path, ...] = (CONF,)) -> Mapping[str, Any]:
    """The content of an option, with what its defaults list brings (``[boba, _self_]``, ``/aggregator@rule: krum``).

    The first of ``folders`` that has the option counts, as in Hydra's search path. Of Hydra's composition this follows
    what the options of a group use; interpolations stay as they are written. Raises FileNotFoundError for an option
    that does not exist.
    """
    places = [folder / group / f"{name}.yaml" for folder in folders]
    content = _load(next((path for path in places if path.is_file()), places[0]))
    merged: dict[str, Any] = {}
    for part in content.pop("defaults", ["_self_"]):
        if part == "_self_":
            merged = _merge(merged, content)
        elif isinstance(part, str):
            merged = _merge(merged, option(group, part, folders))
        else:
            ((place, chosen),) = part.items()
            other, _, key = place.removeprefix("/").partition("@")
            merged = _merge(merged, {key: option(other, chosen, folders)})
    return merged


@cache
def defaults() -> tuple[Mapping[str, str], Mapping[str, Any]]:
    """The option of each group and the scalars of a run when nothing else is asked for: what config.yaml says."""
    content = _load(CONF / "config.yaml")
    chosen = {group: name for part in content.pop("defaults") if isinstance(part, dict) for group, name in part.items()}
    groups = {group: name for group, name in chosen.items() if is_group(group)}
    return groups, {key: value for key, value in content.items() if not isinstance(value, dict)}


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested mappings by dotted key; a list is a leaf."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def interpolated(value: Any) -> str | None:
    """The key that a value stands for: ``num_byzantine`` for ``${num_byzantine}``; None for a plain value."""
    found = _INTERPOLATION.fullmatch(value) if isinstance(value, str) else None
    return found[1] if found else None


def _load(path: Path) -> dict[str, Any]:
    content = yaml.load(path.read_text(encoding="utf-8"), Loader=_YAML_LOADER)  # a safe loader, in C or not
    return content or {}


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return merged
