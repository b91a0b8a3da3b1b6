"""Run the config of a run folder: unchanged, changed by overrides, or as its reference run.

The stored config becomes a preset that Hydra composes like any other, so that sweeps, launchers and overrides work.
"""

import hashlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.config import identity, options, targets, words
from robustfl_bench.engine.parts import GROUPS
from robustfl_bench.engine.settings import DEFINING

FORMS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {"rerun": dict, "reference": identity.reference}
"""The config to run for each form: the stored one, or its reference, Average without Byzantine clients and all else
equal."""


def read(path: str | Path) -> dict[str, Any]:
    """The config of a run folder, or of a ``config.yaml``. Raises ConfigError."""
    file = Path(path).expanduser()
    file = file / "config.yaml" if file.is_dir() else file
    config = options.read(file, absent=f"no run folder {path}: there is no {file}")
    if isinstance(config, dict):
        config = {words.RENAMED.get(key, key): value for key, value in config.items()}
    if not isinstance(config, dict) or set(config) - set(DEFINING) or not {"dataset", "aggregator"} <= set(config):
        raise ConfigError(f"{file} is not the config of a run")
    return config


def expand(arguments: Sequence[str], store: Callable[[str, str, Mapping[str, Any]], None]) -> list[str]:
    """The arguments with ``rerun=FOLDER`` and ``reference=FOLDER`` replaced by presets, which ``store`` takes.

    ``store`` is called with group, name and content. A group that another argument chooses is left out. Raises
    ConfigError when a config would build a part of another package that ``allow=PACKAGE`` does not name. With
    ``--cfg``, which builds nothing, packages are not checked.
    """
    given = {key.lstrip("+"): value for key, _, value in (argument.partition("=") for argument in arguments)}
    named = targets.packages(words.read_value(given.get("allow", "null")))
    allowed = None if given.keys() & {"--cfg", "-c", "--info", "-i"} else named
    expanded = []
    for argument in arguments:
        form, equals, value = argument.partition("=")
        if not equals or form not in FORMS:
            expanded.append(argument)
            continue
        names = []
        for path in value.split(","):
            config = _kept(form, path, given)
            targets.check_stored(config, allowed, path)
            name = f"config_{hashlib.sha256(path.encode()).hexdigest()[:8]}"  # hydra reads some digests as numbers
            groups = [name for name in DEFINING if name in GROUPS and (name in config or name not in given)]
            defaults = [*({f"override /{group}": None} for group in groups), "_self_"]
            store(form, name, {"defaults": defaults, **config, "origin": f"{form}={path}"})
            names.append(name)
        expanded.append(f"+{form}={','.join(names)}")
    return expanded


def allowance(form: str, paths: Iterable[str], changes: Iterable[str]) -> list[str]:
    """The override that allows ``form=PATHS`` with these changes to build parts of other packages; empty if none is
    needed."""
    given = {change.partition("=")[0] for change in changes}
    names = {name for path in paths for name in targets.packages_of(_kept(form, path, given))}
    return [targets.allow(sorted(names))] if names else []


def _kept(form: str, path: str, given: Container[str]) -> dict[str, Any]:
    """The config to run for a stored one, without the settings that the command line gives."""
    return {key: item for key, item in FORMS[form](read(path)).items() if key not in given}
