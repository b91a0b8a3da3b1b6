"""What defines a run: the part of its config that its folder keeps, and the id that stands for it."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from robustfl_bench.base import public
from robustfl_bench.base.regular import digest_of as content
from robustfl_bench.runner.config import options
from robustfl_bench.runner.config.resolvers import is_attacked
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
        place = weights_file(init)
        whole["model"] = {"_target_": STARTED, "model": config["model"], "path": place, "digest": content(Path(place))}
    return whole


def weights_file(place: str) -> str:
    """The file of ``init``: the place itself, or that in the folder of a run."""
    path = Path(place).expanduser()
    return str(path / "weights.safetensors" if path.is_dir() else path)


def named_steps(config: Mapping[str, Any]) -> dict[str, Any]:
    """The pre-aggregations of a config by name; empty if it has none, or holds them as one part."""
    steps = config.get("pre_aggregation")
    return dict(steps) if isinstance(steps, Mapping) and "_target_" not in steps else {}


def canonical(value: Any) -> Any:
    """A tree in which only what differs from the default is written, and every number in one way.

    Left out are options of this package's parts that have the default of their class, and, elsewhere, nulls and empty
    mappings. So a part can gain an option, and a run a setting that may be null, without a change of any id. 1.0 is 1,
    numbers have twelve digits, and the ``path`` of a file with a ``digest`` does not count.
    """
    if isinstance(value, Mapping):
        usual = public.defaults(str(value.get("_target_", "")))
        kept = {key: canonical(item) for key, item in value.items() if key != "path" or not value.get("digest")}
        return {key: item for key, item in kept.items() if item != canonical(usual.get(key)) and item != {}}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else float(f"{value:.12g}")
    return value
