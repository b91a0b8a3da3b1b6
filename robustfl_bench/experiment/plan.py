"""From a composed config to checked parts and the identity of the run."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from robustfl_bench.config import presets
from robustfl_bench.config.parts import GROUPS, Parts, check_kind
from robustfl_bench.config.settings import SCALARS, Settings, check
from robustfl_bench.errors import ConfigError
from robustfl_bench.interfaces import Dataset, Model


@dataclass(frozen=True)
class Plan:
    """A checked configuration: its scalars, its parts, and the resolved ``config`` that a run folder keeps."""

    settings: Settings
    parts: Parts
    config: Mapping[str, Any]

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What of the config the id of the run is the hash of."""
        return presets.identity(self.config)

    @cached_property
    def run_id(self) -> str:
        """Eight hex digits that stand for everything that defines the experiment."""
        return presets.identify(self.identity)

    @cached_property
    def reference_id(self) -> str:
        """The id of the run that recalls are compared with."""
        return presets.identify(presets.identity(presets.reference(self.config)))


class InfeasibleError(ConfigError):
    """The rule cannot work with this many clients, or without a server: a fact to record in a table, no mistake."""

    def __init__(self, reason: str, plan: Plan) -> None:
        super().__init__(reason)
        self.plan = plan


def plan(cfg: DictConfig | Mapping[str, Any]) -> Plan:
    """Build and check every part of a config, composed by Hydra or by ``presets``, before any data are loaded.

    Raises one ConfigError with all that is wrong.
    """
    config: dict[str, Any] = _resolved(cfg) if isinstance(cfg, DictConfig) else dict(cfg)
    if unknown := sorted(set(config) - {*SCALARS, *GROUPS}):
        raise ConfigError(f"no setting {', '.join(unknown)}; robustfl-bench --cfg job shows all")
    kept = presets.defining(config)
    settings = Settings(**{name: config[name] for name in SCALARS})
    check(settings)
    settings.num_byzantine = kept["num_byzantine"]
    parts = _built(kept)
    _check_model(parts.model, parts.dataset)
    planned = Plan(settings, parts, kept)
    try:
        _check_feasible(planned)
    except ConfigError as error:
        raise InfeasibleError(str(error), planned) from None
    return planned


def _resolved(cfg: DictConfig) -> dict[str, Any]:
    """The config without interpolations, as plain containers."""
    try:
        config: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)  # type: ignore[assignment]
    except OmegaConfBaseException as error:
        raise ConfigError(" ".join(str(error).split())) from None
    return config


def _built(config: Mapping[str, Any]) -> Parts:
    """The objects that the config groups stand for."""
    parts: dict[str, Any] = {}
    errors = []
    for group in GROUPS:
        try:
            parts[group] = instantiate(config[group], _convert_="all") if config[group] else None
            check_kind(group, parts[group])
        except InstantiationException as error:
            errors.append(f"{group}: {_reason(error)}")
        except ConfigError as error:
            errors.append(str(error))
    if errors:
        raise ConfigError("; ".join(errors))
    return Parts(**parts)


def _check_feasible(planned: Plan) -> None:
    """Raise ConfigError when the rule cannot work with these clients, or on this topology."""
    parts = planned.parts
    if parts.communication is not None:
        parts.communication.check(parts)
    if parts.pre_aggregation is None:
        parts.aggregator.check(planned.settings.clients_per_round)


def _reason(error: InstantiationException) -> str:
    cause = error.__cause__
    text = str(cause if cause is not None else error).split("\nfull_key")[0]
    if isinstance(cause, TypeError) and "unexpected keyword argument" in text:
        text = f"no option {text.rsplit(' ', 1)[-1]}"
    return " ".join(text.split())


def _check_model(model: Model, dataset: Dataset) -> None:
    if model.reads != dataset.content:
        takers = {"words": "has texts: take model=gru", "characters": "has texts by character: take model=lstm"}
        givers = {"words": "ag_news", "characters": "shakespeare"}
        mismatch = takers.get(dataset.content) or f"has no texts: take another model, or dataset={givers[model.reads]}"
        raise ConfigError(f"model {type(model).__name__} cannot read {dataset.name}, which {mismatch}")
    num_params(model, dataset)


def num_params(model: Any, dataset: Dataset) -> int:
    """Parameters of the model, from shapes only (a vocabulary, known when its texts are read, counts one word)."""
    import torch

    with torch.device("meta"):
        vectors = [torch.empty(1, dataset.embedding_dim)] if dataset.content == "words" else []
        module = model(dataset.input_shape, dataset.num_classes, *vectors)
    return sum(parameter.numel() for parameter in module.parameters())
