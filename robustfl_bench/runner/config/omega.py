"""OmegaConf, asked for the resolvers that are not of this package, and told those that are."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config.resolvers import BY_ROOT, PLAIN

_ASKED = "rb.asked"
"""A key that no config has."""


def register() -> None:
    """Register the resolvers of this package with OmegaConf, unless resolvers of these names are there."""
    for name in (*BY_ROOT, *PLAIN):
        if not OmegaConf.has_resolver(name):
            _register(name, partial(called, name))


def _register(name: str, function: Callable[..., Any], **how: bool) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "register_new_resolver")  # from OmegaConf 2.4 on
        OmegaConf.register_new_resolver(name, function, **how)


def called(name: str, *arguments: Any, _root_: DictConfig) -> Any:
    """The value of one of our resolvers in a config of OmegaConf."""
    if name in PLAIN:
        return PLAIN[name](*arguments)
    return BY_ROOT[name](*arguments, _root_=OmegaConf.to_container(_root_))


def resolved(value: str, root: Mapping[str, Any]) -> Any:
    """The value of text with interpolations in the whole config ``root``. Raises ConfigError."""
    register()
    config = OmegaConf.create({**root, _ASKED: {_ASKED: value}})
    try:
        asked: Any = OmegaConf.to_container(config[_ASKED], resolve=True)
    except OmegaConfBaseException as error:
        if isinstance(error.__cause__, ConfigError):
            raise error.__cause__ from None
        reason = str(error).splitlines()[0]
        raise ConfigError(f"cannot resolve {value}: {reason}") from error
    return asked[_ASKED]


def plain(value: Any) -> Any:
    """A config of OmegaConf as plain containers, with interpolations as written; other values as they are."""
    return OmegaConf.to_container(value, enum_to_str=True) if OmegaConf.is_config(value) else value


@contextmanager
def now_is(seconds: float) -> Iterator[None]:
    """Within the context, Hydra's resolver ``now`` is this time."""
    from hydra.core.utils import setup_globals

    moment = datetime.fromtimestamp(seconds)
    _register("now", lambda pattern: moment.strftime(pattern), use_cache=True, replace=True)
    try:
        yield
    finally:
        setup_globals()
