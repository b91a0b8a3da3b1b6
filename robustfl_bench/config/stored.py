"""Run a config that a run folder holds: as it stands, changed by overrides, or its reference run.

The stored config becomes a preset that Hydra composes like any other, so that sweeps, launchers and overrides work.
"""

import hashlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robustfl_bench.config import options, presets, targets
from robustfl_bench.config.parts import GROUPS
from robustfl_bench.config.settings import DEFINING
from robustfl_bench.errors import ConfigError

FORMS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {"rerun": dict, "reference": presets.reference}
"""What is run of a stored config: itself, or Average without Byzantine clients and all else equal."""


def read(path: str | Path) -> dict[str, Any]:
    """The config of a run folder, or of a ``config.yaml``. Raises ConfigError."""
    file = Path(path).expanduser()
    file = file / "config.yaml" if file.is_dir() else file
    config = options.read(file, absent=f"no run folder {path}: there is no {file}")
    if not isinstance(config, dict) or set(config) - set(DEFINING) or not {"dataset", "aggregator"} <= set(config):
        raise ConfigError(f"{file} is not the config of a run")
    return config


def expand(arguments: Sequence[str], store: Callable[[str, str, Mapping[str, Any]], None]) -> list[str]:
    """The arguments with ``rerun=FOLDER`` and ``reference=FOLDER`` replaced by presets, which ``store`` takes.

    ``store`` is given group, name and content. A group that another argument chooses is left to that. Raises
    ConfigError when a config would build a part of another package that ``allow=PACKAGE`` does not name; with ``--cfg``
    nothing is built.
    """
    given = {key.lstrip("+"): value for key, _, value in (argument.partition("=") for argument in arguments)}
    named = targets.packages(presets.read_value(given.get("allow", "null")))
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
            name = f"config_{hashlib.sha256(path.encode()).hexdigest()[:8]}"  # hydra takes some digests for numbers
            groups = [name for name in DEFINING if name in GROUPS and (name in config or name not in given)]
            defaults = [*({f"override /{group}": None} for group in groups), "_self_"]
            store(form, name, {"defaults": defaults, **config, "origin": f"{form}={path}"})
            names.append(name)
        expanded.append(f"+{form}={','.join(names)}")
    return expanded


def allowance(form: str, paths: Iterable[str], changes: Iterable[str]) -> list[str]:
    """The override, if any, that lets ``form=PATHS`` build the parts of other packages, with these changes."""
    given = {change.partition("=")[0] for change in changes}
    names = {name for path in paths for name in targets.packages_of(_kept(form, path, given))}
    return [targets.allow(sorted(names))] if names else []


def _kept(form: str, path: str, given: Container[str]) -> dict[str, Any]:
    """What is run of a stored config, but for the settings that are given anew."""
    return {key: item for key, item in FORMS[form](read(path)).items() if key not in given}
