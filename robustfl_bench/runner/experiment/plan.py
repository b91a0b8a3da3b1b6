"""From a composed config to checked parts and the identity of the run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from robustfl_bench.base import public
from robustfl_bench.base.contained import no_exit
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.attacks.base import Attack
from robustfl_bench.parts.datasets.base import Dataset
from robustfl_bench.parts.models.base import Model
from robustfl_bench.parts.pre_aggregations.base import PreAggregation
from robustfl_bench.parts.protocols.base import Setup
from robustfl_bench.runner.config import identity, targets
from robustfl_bench.runner.experiment import once_each
from robustfl_bench.train.parts import FOLLOWING, GROUPS, Parts
from robustfl_bench.train.settings import SCALARS, Settings, check


@dataclass(frozen=True)
class Outline(identity.Identified):
    """A run before its parts are built, which imports torch: enough to find its stored result."""

    settings: Settings
    config: Mapping[str, Any]

    @property
    def dataset(self) -> Dataset:
        """The data set that the run would load."""
        return _dataset(json.dumps(self.config["dataset"], sort_keys=True))


@cache
def _dataset(content: str) -> Dataset:
    built: Dataset = made("dataset", json.loads(content))
    return built


@dataclass(frozen=True)
class Plan(identity.Identified):
    """A checked configuration: its scalars, its parts, and the resolved ``config`` that a run folder keeps."""

    settings: Settings
    parts: Parts
    config: Mapping[str, Any]

    @property
    def dataset(self) -> Dataset:
        """The data set among its parts."""
        return self.parts.dataset

    @cached_property
    def reference_id(self) -> str:
        """The id of the run that recalls are compared with."""
        return identity.run_id(identity.reference(self.config))


Asked = Outline | Plan
"""A requested run, to compare with stored results."""


class InfeasibleError(ConfigError):
    """The rule cannot work with this many clients, or without a server. Tables record it; it is no mistake."""

    def __init__(self, reason: str, plan: Plan) -> None:
        super().__init__(reason)
        self.plan = plan


@no_exit(lambda: "a part of the run")
def plan(config: Mapping[str, Any]) -> Plan:
    """Build and check every part of a composed config before any data are loaded.

    Raises one ConfigError with all that is wrong.
    """
    checked, kept = _scalars(config)
    parts = _built({group: config[group] for group in FOLLOWING} | kept, identity.named_steps(config))
    _check_model(parts.model, parts.dataset)
    if checked.num_byzantine and checked.byzantine_placement == "add":
        _check_added(parts.attack, checked.knowledge)
    planned = Plan(checked, parts, kept)
    try:
        _check_feasible(planned)
    except ConfigError as error:
        raise InfeasibleError(str(error), planned) from None
    return planned


def outline(config: Mapping[str, Any]) -> Outline:
    """The outline of a composed config; only its scalars are checked. Raises ConfigError."""
    settings, kept = _scalars(config)
    return Outline(settings, kept)


def _scalars(config: Mapping[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """The checked scalars of a resolved config, and the part of it that a run folder keeps. Raises ConfigError."""
    settings, kept = Settings(**{name: config[name] for name in SCALARS}), identity.defining(config)
    check(settings)
    if settings.secure_aggregation and settings.weighting != "none":
        raise ConfigError(
            "with secure_aggregation=true the server learns no client's number of samples: set weighting=none "
            "(aggregator=fedavg counts samples within the sum)"
        )
    return replace(settings, num_byzantine=kept["num_byzantine"]), kept


def _built(config: Mapping[str, Any], steps: Mapping[str, Any]) -> Parts:
    """The objects that the config groups describe; ``steps`` are the pre-aggregations by name."""
    followers = {f"{group}.{name}": part for group in FOLLOWING for name, part in _several(config[group]).items()}
    named = {f"pre_aggregation.{name}": step for name, step in steps.items()}
    whole = {group: config[group] for group in GROUPS if group not in FOLLOWING}
    if steps:
        del whole["pre_aggregation"]
    found: dict[str, Any] = {}
    errors = []
    for place, content in (whole | named | followers).items():
        try:
            found[place] = made(place, content)
        except ConfigError as error:
            errors.append(str(error))
    if errors:
        raise ConfigError("; ".join(errors))
    if steps:
        found["pre_aggregation"] = _chain([found.pop(place) for place in named])
    for group in FOLLOWING:
        found[group] = tuple(found.pop(place) for place in followers if place.startswith(f"{group}."))
    return Parts(**found)


def _chain(steps: list[PreAggregation]) -> PreAggregation:
    from robustfl_bench.parts.pre_aggregations.chain import Chain  # here, as it imports torch

    return steps[0] if len(steps) == 1 else Chain(tuple(steps))


def made(place: str, content: Any) -> Any:
    """The object that the content of a config group, or of a ``place`` in it, describes. Raises ConfigError."""
    targets.check(place.partition(".")[0], content, place)
    try:
        return targets.build(content) if content else None
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


def _several(content: Any) -> Mapping[str, Any]:
    """The contents of a group that takes several options, by name; a single option needs no name."""
    alone = not isinstance(content, Mapping) or "_target_" in content
    return {"one": content} if alone and content else content or {}


def _check_feasible(planned: Plan) -> None:
    """Raise ConfigError when the rule cannot work with these clients, or in this protocol."""
    parts = planned.parts
    s, clients = planned.settings, planned.settings.clients_per_round
    if parts.attack.plans and parts.clustering is not None:
        raise ConfigError(f"attack {type(parts.attack).__name__} plans for one model: set clustering=none")
    _check_sum(parts)
    _check_augmented(parts)
    parts.course.check(Setup(parts.aggregator, parts.local_update, parts.optional, clients, s.num_byzantine))
    if parts.availability is not None:
        parts.availability.check(parts.local_update)
    parts.check_clients(parts.course.updates_per_round(clients))


def _check_sum(parts: Parts) -> None:
    """Raise ConfigError if a server that learns only a sum over the clients cannot make rounds with these parts."""
    from robustfl_bench.parts.aggregators.secure_sum import SecureSum  # here, as it imports torch

    if not isinstance(parts.aggregator, SecureSum):
        return
    for group, reason in (
        ("protocol", "a server gets one sum a round, of messages whose bits are not counted"),
        ("clustering", "a server learns one sum over all clients"),
    ):
        if getattr(parts, group) is not None:
            usual = "synchronous" if group == "protocol" else "none"
            raise ConfigError(f"with secure aggregation {reason}: set {group}={usual}")


def _check_augmented(parts: Parts) -> None:
    """Raise ConfigError for changed samples beside a local update that remembers gradients of samples as they are."""
    from robustfl_bench.parts.local_updates.saga import Saga  # here, as it imports torch

    innermost = parts.local_update
    while (inner := getattr(innermost, "inner", None)) is not None:
        innermost = inner
    if parts.augmentation is not None and isinstance(innermost, Saga):
        raise ConfigError("local_update Saga remembers the gradients of samples as they are: set augmentation=none")


def _check_added(attack: Attack, knowledge: str | None) -> None:
    """Raise ConfigError for attacks that need data if Byzantine clients are added, since these hold none."""
    if knowledge == "own":
        raise ConfigError(
            "knowledge=own leaves attackers what they compute on their own data, but added clients hold none: "
            "set byzantine_placement=replace"
        )
    if not attack.crafts or attack.poisons:
        raise ConfigError(
            f"attack {type(attack).__name__} trains on the Byzantine clients' own data, but added clients hold none: "
            "set byzantine_placement=replace"
        )


def _check_model(model: Model, dataset: Dataset) -> None:
    if model.reads != dataset.content:
        takers = {"words": "has texts: take model=gru", "characters": "has texts by character: take model=lstm"}
        givers = {"words": "ag_news", "characters": "shakespeare"}
        mismatch = takers.get(dataset.content) or f"has no texts: take another model, or dataset={givers[model.reads]}"
        raise ConfigError(f"model {type(model).__name__} cannot read {dataset.name}, which {mismatch}")
    num_params(model, dataset)
    if not type(model).__module__.startswith(f"{public.PACKAGE.name}."):
        _check_layers(model, dataset)


def _check_layers(model: Model, dataset: Dataset) -> None:
    """Raise ConfigError for a network from outside that cannot be run, or whose gradients would be wrong."""
    import torch

    name = type(model).__name__
    try:
        once_each.check(name, _shapes_of(model, dataset), lambda module: module(_one_sample(dataset, "meta")))
        return
    except ConfigError:
        raise
    except Exception:  # a module that reads values, which shapes do not have
        vectors = [torch.zeros(1, dataset.embedding_dim)] if dataset.content == "words" else []
        module = model(dataset.input_shape, dataset.num_classes, *vectors)
    try:
        once_each.check(name, module, lambda module: module(_one_sample(dataset, "cpu")))
    except ConfigError:
        raise
    except Exception as error:  # whatever somebody else's code raises
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(f"model {name} cannot take samples of shape {dataset.input_shape}: {reason}") from error


def _one_sample(dataset: Dataset, device: str) -> Any:
    """A sample of zeros."""
    import torch

    kind = torch.float32 if dataset.content == "numbers" else torch.int32
    return torch.zeros(1, *dataset.input_shape, dtype=kind, device=device)


def num_params(model: Any, dataset: Dataset) -> int:
    """Number of the model's parameters, from shapes only. A vocabulary, which depends on the texts, counts as one word.

    Raises ConfigError for a model that cannot be built.
    """
    return sum(parameter.numel() for parameter in _shapes_of(model, dataset).parameters())


def outputs_per_sample(model: Any, dataset: Dataset) -> int:
    """Numbers in the outputs of all layers with parameters for one sample, from shapes only; 0 for a network that
    shapes cannot run.

    Other layers may work in place. What a module computes outside of layers is not counted.
    """
    import torch

    from robustfl_bench.numerics.network.dense import is_dense

    module, numbers = _shapes_of(model, dataset), 0
    if is_dense(module):  # to run one on shapes, PyTorch imports its compiler, which takes two seconds
        return sum(layer.out_features for layer in module if isinstance(layer, torch.nn.Linear))

    def count(_: Any, __: Any, output: Any) -> None:
        nonlocal numbers
        numbers += output.numel() if isinstance(output, torch.Tensor) else 0

    for layer in module.modules():
        if any(True for _ in layer.parameters(recurse=False)):
            layer.register_forward_hook(count)
    try:
        with torch.no_grad():
            module(_one_sample(dataset, "meta"))
    except Exception:  # a module that reads values, which shapes do not have
        return 0
    return numbers


def _shapes_of(model: Any, dataset: Dataset) -> Any:
    """The module of a model, without memory for its parameters."""
    import torch

    shape, classes = dataset.input_shape, dataset.num_classes
    try:
        with torch.device("meta"):
            vectors = [torch.empty(1, dataset.embedding_dim)] if dataset.content == "words" else []
            module = model(shape, classes, *vectors)
    except (RuntimeError, TypeError, OverflowError) as error:  # sizes beyond 64 bits
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(f"model {type(model).__name__} cannot be built for {dataset.name}: {reason}") from error
    if not isinstance(module, torch.nn.Module):
        raise ConfigError(f"model {type(model).__name__} must return a torch.nn.Module, got {module!r}")
    if mixing := [layer for layer in module.modules() if _mixes(layer)]:
        raise ConfigError(
            f"model {type(model).__name__} has {type(mixing[0]).__name__}: what a sample gives must not depend on "
            "other samples or on earlier rounds; use GroupNorm or LayerNorm"
        )
    return module


def _mixes(layer: Any) -> bool:
    """Whether a layer makes the output for a sample depend on others, of its batch or of earlier ones."""
    from torch.nn.modules import batchnorm

    return isinstance(layer, batchnorm._BatchNorm) or bool(
        isinstance(layer, batchnorm._NormBase) and layer.track_running_stats
    )
