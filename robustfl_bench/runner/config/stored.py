"""Run the config of a run folder: unchanged, changed by overrides, or as its reference run."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config import identity, options, targets, words
from robustfl_bench.runner.config.words import Override
from robustfl_bench.train.settings import DEFINING

FORMS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {"rerun": dict, "reference": identity.reference}
"""The config to run for each form: the stored one, or its reference, Average without Byzantine clients and all else
equal."""


def read(path: str | Path) -> dict[str, Any]:
    """The config of a run folder, or of a ``config.yaml``. Raises ConfigError."""
    file = Path(path).expanduser()
    file = file / "config.yaml" if os.path.isdir(file) else file  # False also for a name that no file can have
    config = options.read(file, absent=f"no run folder {path}: there is no {file}")
    if isinstance(config, dict):
        config = {words.RENAMED.get(key, key): value for key, value in config.items()}
    if not isinstance(config, dict) or set(config) - set(DEFINING) or not {"dataset", "aggregator"} <= set(config):
        raise ConfigError(f"{file} is not the config of a run")
    return config


def base(given: Sequence[Override], trusted: bool = False) -> Mapping[str, Any] | None:
    """The config that ``rerun=FOLDER`` or ``reference=FOLDER`` puts in the place of the defaults; None without them.

    Settings and groups that other overrides give are left out. Raises ConfigError when the config would build a part of
    another package that ``allow=PACKAGE`` does not name; ``trusted`` configs, which are only shown, may name any.
    """
    allowed = targets.packages(next((one.value for one in reversed(given) if one.key == "allow"), None))
    asked = [one for one in given if one.key in FORMS and one.written != "null"]
    if not asked:
        return None
    if len(asked) > 1 or asked[0].sign == "~":
        raise ConfigError(f"take one of rerun=FOLDER and reference=FOLDER, not {' '.join(one.text for one in asked)}")
    form, path = asked[0].key, str(asked[0].value)
    config = _kept(form, path, {one.key for one in given})
    targets.check_stored(config, None if trusted else allowed, path)
    return {**config, "origin": f"{form}={path}"}


def allowance(form: str, paths: Iterable[str], changes: Iterable[str]) -> list[str]:
    """The override that allows ``form=PATHS`` with these changes to build parts of other packages; empty if none is
    needed."""
    given = {change.partition("=")[0] for change in changes}
    names = {name for path in paths for name in targets.packages_of(_kept(form, path, given))}
    return [targets.allow(sorted(names))] if names else []


def _kept(form: str, path: str, given: Collection[str]) -> dict[str, Any]:
    """The config to run for a stored one, without the settings that the command line gives."""
    return {key: item for key, item in FORMS[form](read(path)).items() if key not in given}
