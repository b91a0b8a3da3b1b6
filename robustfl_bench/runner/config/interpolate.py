"""Interpolations ``${...}`` of a composed config."""

import os
import re
from collections.abc import Mapping
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config.resolvers import BY_ROOT, PLAIN, unknown
from robustfl_bench.runner.config.words import read_value, split

_INNERMOST = re.compile(r"\$\{([^${}]*)\}")


def interpolated(value: Any, root: Mapping[str, Any]) -> Any:
    """A tree of settings with every ``${...}`` resolved in the whole config ``root``."""
    if isinstance(value, Mapping):
        return {key: interpolated(item, root) for key, item in value.items()}
    if isinstance(value, list):
        return [interpolated(item, root) for item in value]
    while isinstance(value, str) and (match := _INNERMOST.search(value)):
        found = _expression(match[1], root)
        if match.span() == (0, len(value)):
            return interpolated(found, root)
        value = f"{value[: match.start()]}{found}{value[match.end() :]}"
    return value


def _expression(text: str, root: Mapping[str, Any]) -> Any:
    """The value of ``key.of.a.setting`` or ``resolver:argument,argument``."""
    name, colon, written = text.partition(":")
    if not colon:
        return _looked_up(name, root)
    try:
        arguments = [read_value(word) for word in split(written)]
    except ValueError:
        raise ConfigError(f"cannot read ${{{text}}}; quote values with special characters") from None
    if name == "oc.env":
        return _environment(*map(str, arguments))
    if name == "oc.select":
        return _looked_up(arguments[0], root, *arguments[1:])
    if name in BY_ROOT:
        return BY_ROOT[name](*arguments, _root_=root)
    if name in PLAIN:
        return PLAIN[name](*arguments)
    raise unknown(name, text)


def _looked_up(key: str, root: Mapping[str, Any], *default: Any) -> Any:
    node: Any = root
    for name in key.split("."):
        if not isinstance(node, Mapping) or name not in node:
            if default:
                return default[0]
            raise ConfigError(f"no setting {key!r}, which another one refers to")
        node = node[name]
    return interpolated(node, root)


def _environment(name: str, *default: str) -> Any:
    """``${oc.env:HOME}``: a variable of the environment."""
    value = os.environ.get(name, *default)
    if value is None:
        raise ConfigError(f"the environment has no variable {name!r}, which a setting refers to")
    return value
