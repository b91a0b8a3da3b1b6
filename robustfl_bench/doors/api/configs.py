"""Whole configs, as Hydra composes them, given in the place of words."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.doors.api import objects
from robustfl_bench.runner.config import compose, options, request, stored, words
from robustfl_bench.runner.config.request import Call
from robustfl_bench.train.parts import FOLLOWING, GROUPS
from robustfl_bench.train.settings import SCALARS


def taken(
    overrides: Sequence[str | Mapping[str, Any]], settings: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, list[str], dict[str, Any]]:
    """The config that is among the arguments of a call, or None, then the words and the settings besides it.

    It is the first of the overrides, or all settings by keyword, if one of these is a group as a mapping. Raises
    ConfigError.
    """
    composed, given = None, list(overrides)
    others = {key: _plain(value) for key, value in settings.items()}
    if given and not isinstance(given[0], str):
        composed = _config(given.pop(0))
    if any(isinstance(others.get(group), Mapping) for group in GROUPS):
        nested = {key: value for key, value in others.items() if key not in GROUPS or isinstance(value, Mapping | None)}
        composed = {**(composed or {}), **nested}
        others = {key: value for key, value in others.items() if key not in nested}
    if strange := [word for word in given if not isinstance(word, str)]:
        raise ConfigError(f"after a config come words such as seed=1, got a {type(strange[0]).__name__}")
    return composed, [str(word) for word in given], others


def _config(given: Any) -> dict[str, Any]:
    """A whole config as plain containers. Raises ConfigError."""
    plain = _plain(given)
    if not isinstance(plain, Mapping):
        advice = f"; a {type(given).__name__} of words is given as run(*words)" if type(given) in (list, tuple) else ""
        raise ConfigError(f"a run takes words such as seed=1, or a config, got {given!r:.60}{advice}")
    _check_single(plain.get("hydra"))
    return {str(key): value for key, value in plain.items() if key != "hydra"}


def _check_single(hydra: Any) -> None:
    """Raise ConfigError for a config of a preset that sweeps, as far as the config, or the app that runs, says so."""
    app = sys.modules.get("hydra.core.hydra_config")
    if hydra is None and app is not None and app.HydraConfig.initialized():
        running = app.HydraConfig.get()
        hydra = _plain(running) if running.mode is not None and running.mode.name == "RUN" else None
    swept = ((hydra or {}).get("sweeper") or {}).get("params") or {}
    given = {words.override(word).target for word in ((hydra or {}).get("overrides") or {}).get("task") or ()}
    if several := [key for key, value in swept.items() if key not in given and "," in str(value)]:
        raise ConfigError(f"this config sweeps {', '.join(several)}: add --multirun, or set these for one run")


def _plain(value: Any) -> Any:
    """A config of OmegaConf as plain containers with interpolations as written; other values as they are."""
    if not type(value).__module__.startswith("omegaconf."):
        return value
    from robustfl_bench.runner.config import omega

    return omega.plain(value)


def of_composed(
    composed: Mapping[str, Any], overrides: Sequence[str], config_dir: str | Path | None
) -> tuple[Mapping[str, Any], Call]:
    """The config and the call of a run of a config that Hydra has composed, changed by overrides.

    Raises ConfigError.
    """
    if forms := [name for name in stored.FORMS if composed.get(name) is not None]:
        raise ConfigError(f"{forms[0]}=FOLDER goes with words alone, as a stored config has all its settings")
    search = options.search(config_dir)
    usual = compose.shown([])
    is_whole = len({*SCALARS} & {*composed}) > len(SCALARS) / 2  # then a group that is not there was taken away
    base = {**usual, **(dict.fromkeys(GROUPS) if is_whole else {}), **composed}
    resolved = compose.resolve(overrides, search, base=base)
    program = request.program(search)
    for tree in (base, resolved.config):
        with suppress(ConfigError):
            again = [*_words_of(tree, usual), *overrides]
            same = compose.resolve(again, search)
            alike = all(same.config[name] == resolved.config[name] for name in (*SCALARS, *FOLLOWING))
            if alike and same.run_id == resolved.run_id:
                return resolved.config, Call(same.choices, again, program)
    return resolved.config, Call(resolved.choices, (), ("robustfl_bench.run(config)",))


def _words_of(config: Mapping[str, Any], usual: Mapping[str, Any]) -> list[str]:
    """The words of a command for what a config has besides the defaults."""
    changed = {key: config[key] or None if key in GROUPS else config[key] for key in (*SCALARS, *GROUPS)}
    return objects.overrides({key: value for key, value in changed.items() if value != usual[key]})
