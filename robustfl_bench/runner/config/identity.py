"""What defines a run: the part of its config that its folder keeps, and the id that stands for it. And such a config to
run again: unchanged, changed by overrides, or as its reference run."""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from robustfl_bench.base import public
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.regular import digest_of as content
from robustfl_bench.runner.config import options, targets, words
from robustfl_bench.runner.config.resolvers import is_attacked
from robustfl_bench.runner.config.words import Override
from robustfl_bench.train.parts import GROUPS
from robustfl_bench.train.settings import DEFINING

UNHASHED = ("num_byzantine_declared",)  # rules that use it hold it themselves

SECURE_SUM = "robustfl_bench.aggregators.SecureSum"
"""The rule that ``secure_aggregation`` makes of the chosen one."""
WEIGHTED = "robustfl_bench.aggregators.Weighted"
"""The rule that ``weighting`` makes of it."""
FAIL_CLOSED = "robustfl_bench.aggregators.FailClosed"
"""The rule that ``on_suspicion`` makes of it."""
CLAIMING = "robustfl_bench.attacks.Claiming"
"""The attack that ``claim_samples`` makes of the chosen one."""
STARTED = "robustfl_bench.models.Started"
"""The model that ``init`` makes of the chosen one."""


class Around(NamedTuple):
    """A part that a setting puts around the chosen one, see ``rewritten``: the ``setting``; the option that holds the
    chosen part; the option that says the value of the setting, and this value, of what that option is."""

    setting: str
    within: str
    option: str = ""
    value: Callable[[Any], Any] = lambda value: value


AROUND: Mapping[str, Around] = {
    SECURE_SUM: Around("secure_aggregation", "rule", value=lambda _: True),
    WEIGHTED: Around("weighting", "rule", "capped", lambda it: "capped" if str(it).lower() == "true" else "samples"),
    FAIL_CLOSED: Around("on_suspicion", "rule", "action"),
    CLAIMING: Around("claim_samples", "attack", "samples"),
    STARTED: Around("init", "model", "path"),
}
"""The parts that settings put around others, by their class."""
CHAIN = "robustfl_bench.pre_aggregations.Chain"
DIGITS = 12  # of an id


def of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a resolved config that defines the experiment: its hash is the id of the run.

    Parts are named by their classes' public names, wherever the code of the classes stands; see ``canonical`` for
    what is left out.
    """
    return dict(canonical({key: value for key, value in defining(config).items() if key not in UNHASHED}))


def digest(identity: Mapping[str, Any]) -> str:
    """DIGITS hex digits that stand for everything that defines the experiment."""
    return digest_of(json.dumps(identity, sort_keys=True))


def digest_of(text: str) -> str:
    """The same of an identity as sorted JSON."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def defining(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a resolved config that a run folder keeps. Without Byzantine clients, the attack is dropped."""
    whole = chained(rewritten(config))
    kept = {key: whole[key] or None if key in GROUPS else whole[key] for key in DEFINING if key in whole}
    if not is_attacked(config):
        kept |= {"num_byzantine": 0, "attack": options.option("attack", "none"), "knowledge": None}
    elif kept.get("knowledge") == "all":
        kept["knowledge"] = None  # not hashed, so that runs made before the group existed keep their id
    if not is_attacked(config) or kept.get("participation") == 1:
        kept["participation_by"] = None  # all are of one kind, or all take part
    return kept


def run_id(config: Mapping[str, Any]) -> str:
    """The id of the run with this config."""
    return digest(of(config))


def stored_id(config: Mapping[str, Any]) -> str:
    """The same of the config that a run folder keeps, of which each setting counts, also one of another version."""
    return digest(canonical({key: value for key, value in config.items() if key not in UNHASHED}))


class Identified:
    """A run with its resolved ``config``."""

    config: Mapping[str, Any]

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What defines the run; see ``of``."""
        return of(self.config)

    @cached_property
    def run_id(self) -> str:
        """The hash of the identity."""
        return digest(self.identity)


def reference(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of the run that recalls are compared with: Average without Byzantine clients, all else equal."""
    parts = {"attack": "none", "aggregator": "average", "pre_aggregation": "none"}
    chosen = {group: options.option(group, name) or None for group, name in parts.items()}
    return {**config, "num_byzantine": 0, **chosen}


def chained(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with its pre-aggregations as one part: a single one as it is, several as a chain. Their order is part
    of the identity, which ignores the order of mappings.
    """
    parts = list(named_steps(config).values())
    if not parts:
        return dict(config)
    return {**config, "pre_aggregation": parts[0] if len(parts) == 1 else {"_target_": CHAIN, "steps": parts}}


def rewritten(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with the parts that ``weighting``, ``secure_aggregation``, ``on_suspicion``, ``claim_samples`` and
    ``init`` ask for, in which the chosen ones are. Stored configs have them already, and none of these settings."""
    whole = dict(config)
    if (weighting := config.get("weighting", "none")) != "none":
        whole["aggregator"] = {"_target_": WEIGHTED, "rule": config["aggregator"]}
        if weighting == "capped":
            whole["aggregator"] |= {"capped": True, "num_byzantine": config["num_byzantine_declared"]}
    if config.get("secure_aggregation", False):
        whole["aggregator"] = {"_target_": SECURE_SUM, "rule": whole["aggregator"]}
    if (action := config.get("on_suspicion", "keep")) != "keep":
        assumed = config["num_byzantine_declared"]
        own = {"rule": whole["aggregator"], "num_byzantine": assumed, "action": action}
        whole["aggregator"] = {"_target_": FAIL_CLOSED, **own}
    if (samples := config.get("claim_samples")) is not None:
        whole["attack"] = {"_target_": CLAIMING, "attack": config["attack"], "samples": samples}
    if (init := config.get("init")) is not None:
        path = Path(init).expanduser()
        path = path / "weights.safetensors" if path.is_dir() else path  # of the folder of a run
        whole["model"] = {"_target_": STARTED, "model": config["model"], "path": str(path), "digest": content(path)}
    return whole


def named_steps(config: Mapping[str, Any]) -> dict[str, Any]:
    """The pre-aggregations of a config by name; empty if it has none, or holds them as one part."""
    steps = config.get("pre_aggregation")
    return dict(steps) if isinstance(steps, Mapping) and "_target_" not in steps else {}


_PLAIN = {str, int, bool, NoneType}
"""Types of values that are written in one way alone."""


def canonical(value: Any) -> Any:
    """A tree in which only what differs from the default is written, and every number in one way.

    Left out are options of this package's parts that have the default of their class, and, elsewhere, nulls and empty
    mappings. So a part can gain an option, and a run a setting that may be null, without a change of any id. 1.0 is 1,
    numbers have twelve digits, and the ``path`` of a file with a ``digest`` does not count.
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(f"{value:.12g}")
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        usual, kept = _usual(str(value.get("_target_", ""))), {}
        for key, item in value.items():
            if key != "path" or not value.get("digest"):
                short = item if type(item) in _PLAIN else canonical(item)
                if short != usual.get(key) and short != {}:
                    kept[key] = short
        return kept
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    return value


@cache
def _usual(target: str) -> dict[str, Any]:
    """The defaults of a class in the same form."""
    return {key: canonical(value) for key, value in public.defaults(target).items()}


FORMS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {"rerun": dict, "reference": reference}
"""The config to run for each form: the stored one, or its reference, Average without Byzantine clients and all else
equal."""


def stored_config(path: str | Path) -> dict[str, Any]:
    """The config of a run folder, or of a ``config.yaml``. Raises ConfigError."""
    file = Path(path).expanduser()
    file = file / "config.yaml" if os.path.isdir(file) else file  # False also for a name that no file can have
    config = options.read(file, absent=f"no run folder {path}: there is no {file}")
    if isinstance(config, dict):
        config = {words.RENAMED.get(key, key): value for key, value in config.items()}
    if not isinstance(config, dict) or set(config) - set(DEFINING) or not {"dataset", "aggregator"} <= set(config):
        raise ConfigError(f"{file} is not the config of a run")
    return config


def base_of(given: Sequence[Override], trusted: bool = False) -> Mapping[str, Any] | None:
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
    return {key: item for key, item in FORMS[form](stored_config(path)).items() if key not in given}
