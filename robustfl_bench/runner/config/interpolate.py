"""Interpolations ``${...}`` of a composed config."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, TypeVar

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.trees import flatten
from robustfl_bench.runner.config import beyond
from robustfl_bench.runner.config.beyond import Beyond
from robustfl_bench.runner.config.resolvers import BY_ROOT, PLAIN, unknown
from robustfl_bench.runner.config.words import read_value, split

_INNERMOST = re.compile(r"\$\{([^${}]*)\}")

_CALL = re.compile(r"\$\{\s*([\w.]+)\s*:")

_HERE = ("oc.env", "oc.select", "now")
"""Resolvers of OmegaConf and Hydra that are read here, besides our own."""

_OMEGACONF = ("oc.create", "oc.decode", "oc.deprecated", "oc.dict.keys", "oc.dict.values")

_HYDRA = ("hydra", "python_version")

_now: ContextVar[datetime | None] = ContextVar("now", default=None)

_composed_here: ContextVar[bool] = ContextVar("composed_here", default=False)

Value = TypeVar("Value")


def composed_here(is_cell: bool) -> AbstractContextManager[None]:
    """Within the context, what Hydra knows of itself is not about the cell whose config is resolved."""
    return _being(_composed_here, is_cell)


def at(seconds: float) -> AbstractContextManager[None]:
    """Within the context, ``${now:%Y-%m-%d}`` is this time, else that at which it is read."""
    return _being(_now, datetime.fromtimestamp(seconds))


@contextmanager
def _being(variable: ContextVar[Value], value: Value) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def interpolated(value: Any, root: Mapping[str, Any]) -> Any:
    """A tree of settings with every ``${...}`` resolved in the whole config ``root``. Raises ConfigError, and Beyond
    for what only Hydra resolves."""
    if not isinstance(value, str):
        if value is None or isinstance(value, int | float):
            return value
        if isinstance(value, Mapping):
            return {key: interpolated(item, root) for key, item in value.items()}
        return [interpolated(item, root) for item in value] if isinstance(value, list) else value
    if "${" not in value:
        return value
    if strange := [name for name in _CALL.findall(value) if name not in {*_HERE, *BY_ROOT, *PLAIN}]:
        return _by_omegaconf(value, strange, root)
    while isinstance(value, str) and (match := _INNERMOST.search(value)):
        found = _expression(match[1], root)
        if match.span() == (0, len(value)):
            return interpolated(found, root)
        value = f"{value[: match.start()]}{found}{value[match.end() :]}"
    return value


_FIXED = ("at_scale", "in_variant", "attacked", "rb.rate", "rb.share", "rb.ratio", "rb.times", "swept_in")
"""Resolvers with the same value at any time, which read no other scalars than those that they are named after."""


def is_read_in(config: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Whether settings refer to any of the scalars of these names, or to what no config fixes, as the time."""
    texts = [text for text in (str(item) for _, item in flatten(config)) if "${" in text]
    named = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")
    return any(named.search(text) or not {*_CALL.findall(text)} <= {*_FIXED} for text in texts)


def _expression(text: str, root: Mapping[str, Any]) -> Any:
    """The value of ``key.of.a.setting`` or ``resolver:argument,argument``."""
    name, colon, written = text.partition(":")
    if not colon:
        return looked_up(name.strip(), root)
    try:
        arguments = [read_value(word) for word in split(written)]
    except ValueError:
        raise ConfigError(f"cannot read ${{{text}}}; quote values with special characters") from None
    match name.strip():
        case "oc.env":
            return _environment(*map(str, arguments))
        case "oc.select":
            return looked_up(arguments[0], root, *arguments[1:])
        case "now":
            return (_now.get() or datetime.now()).strftime(str(arguments[0]))
        case resolver if resolver in BY_ROOT:
            return BY_ROOT[resolver](*arguments, _root_=root)
        case resolver:
            return PLAIN[resolver](*arguments)


def looked_up(key: str, root: Mapping[str, Any], *default: Any) -> Any:
    """The setting ``a.b``, also written ``a[b]``, or the default. Raises ConfigError."""
    if key.startswith("."):
        raise Beyond(f"${{{key}}} begins at its own place")
    node: Any = root
    for name in key.replace("]", "").replace("[", ".").split("."):
        if isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        elif isinstance(node, Mapping) and name in node:
            node = node[name]
        elif default:
            return default[0]
        else:
            raise ConfigError(f"no setting {key!r}, which another one refers to")
    return interpolated(node, root)


def _environment(name: str, *default: str) -> Any:
    """``${oc.env:HOME}``: a variable of the environment."""
    value = os.environ.get(name, *default)
    if value is None:
        raise ConfigError(f"the environment has no variable {name!r}, which a setting refers to")
    return value


def _by_omegaconf(value: str, names: list[str], root: Mapping[str, Any]) -> Any:
    """The value of text with resolvers, of these names, that are not our own."""
    for name in names:
        if name in _HYDRA and not _hydra_runs():
            raise Beyond(f"{name} is a resolver of Hydra")
        if name not in (*_OMEGACONF, *_HYDRA) and not _is_registered(name):
            raise unknown(name, next(text for text in re.findall(r"\$\{([^${}]*)", value) if name in text))
    from robustfl_bench.runner.config import omega

    return omega.resolved(value, root)


def _hydra_runs() -> bool:
    config = sys.modules.get("hydra.core.hydra_config")
    return config is not None and not _composed_here.get() and bool(config.HydraConfig.initialized())


def _is_registered(name: str) -> bool:
    """Whether a user has registered a resolver with OmegaConf, or a plugin of Hydra that is imported now."""
    beyond.import_plugins()
    omegaconf = sys.modules.get("omegaconf")
    return omegaconf is not None and bool(omegaconf.OmegaConf.has_resolver(name))
