"""Settings of a composed config, set, added and removed by overrides."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from robustfl_bench.base.errors import ConfigError, did_you_mean, near
from robustfl_bench.base.trees import flatten
from robustfl_bench.runner.config import options
from robustfl_bench.runner.config.options import Search
from robustfl_bench.runner.config.words import Override
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
