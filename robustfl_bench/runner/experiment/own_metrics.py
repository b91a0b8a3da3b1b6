"""Metrics of the user: functions of an evaluated round, whose numbers are in a file beside metrics.csv.

A function gets by name what it asks for: ``round``, ``accuracy``, ``loss``, ``recall`` (c,) and ``confusion`` (c, c) on
the test set, ``x`` and ``y``, the test set, ``clients``, the samples (x, y) of each honest client, ``ids``, their
numbers, ``held_out``, the samples (x, y) of each that validation holds out, None where no client has any, ``params``
(d,), ``predict``, which maps samples to outputs (N, c), and ``weights``, those of the clients in the rule, or None. It
returns a number, or numbers by name. Of several models it sees the first.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from robustfl_bench.base import trusted
from robustfl_bench.base.contained import contained
from robustfl_bench.base.errors import BrokenContract, ConfigError, Reported, one_line
from robustfl_bench.parts.adapters import signatures
from robustfl_bench.runner.config import outside
from robustfl_bench.runner.experiment import outside_code
from robustfl_bench.train.metric import Metric
from robustfl_bench.train.metrics import METRICS

if TYPE_CHECKING:
    from torch import Tensor

    from robustfl_bench.train.clients import Clients
    from robustfl_bench.train.evaluation import Evaluation, Record


def named(setting: Any) -> dict[str, str]:
    """The words ``module:function`` of the setting ``metrics``, by the name of the metric. Raises ConfigError."""
    listed = setting if isinstance(setting, list) else [] if setting is None else [setting]
    found: dict[str, str] = {}
    for word in listed:
        if not isinstance(word, str) or not outside.is_class(word):
            raise ConfigError(f"metrics takes functions, module:function or a list of them, got {word!r}")
        name = outside.label(word)
        if name in found or any(_belongs(each.name, name) for each in METRICS):
            raise ConfigError(f"metrics: {name} is the name of another metric; give the function another name")
        found[name] = word
    return found


def digests(setting: Any) -> dict[str, str]:
    """The SHA-256 of the code of each metric, by its word."""
    return {word: outside_code.digest((word.replace(":", "."),)) for word in named(setting).values()}


def metrics(setting: Any) -> tuple[Metric, ...]:
    """The metrics of the user. Raises ConfigError for what is no function."""
    return tuple(Metric("{}", "{}", partial(_computed, name, _function(word))) for name, word in named(setting).items())


def apart(record: "Record", setting: Any) -> "tuple[Record, Record]":
    """The row of metrics.csv of a record, and the numbers of the user's metrics."""
    own = named(setting)
    numbers = {key: value for key, value in record.items() if any(_belongs(key, name) for name in own)}
    return {key: value for key, value in record.items() if key not in numbers}, numbers


def _belongs(column: str, name: str) -> bool:
    return column == name or column.startswith(f"{name}_")


def _function(word: str) -> Callable[..., Any]:
    module, _, name = word.partition(":")
    try:
        found = getattr(trusted.module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"metrics: cannot import {word}: {error}") from error
    if not callable(found):
        raise ConfigError(f"metrics: {word} is no function")
    function: Callable[..., Any] = found
    return function


def _computed(name: str, function: Callable[..., Any], evaluation: "Evaluation") -> Mapping[str, float]:
    """The columns of a metric in an evaluated round."""
    tensors = signatures.array("metrics", function) == "torch"

    def given(value: Any) -> Any:
        return value if tensors or not hasattr(value, "cpu") else value.cpu().numpy()

    def pairs(samples: Any) -> Any:
        return [(given(x), given(y)) for x, y in samples]

    federation, params = evaluation.federation, evaluation.state.params[0]
    model, network, data = evaluation.round.models[0], federation.network, federation.clients.data

    def predict(x: Any) -> Any:
        import torch

        return given(network.outputs_for(params, torch.as_tensor(x).to(data.test_x)))

    offered: dict[str, Callable[[], Any]] = {
        "round": lambda: evaluation.round.number,
        "accuracy": lambda: evaluation.test.accuracy,
        "loss": lambda: evaluation.test.loss,
        "recall": lambda: list(evaluation.test.recall),
        "confusion": lambda: sum(evaluation.test.confusions),
        "x": lambda: given(data.test_x),
        "y": lambda: given(data.test_y),
        "clients": lambda: pairs(federation.honest.batch(range(len(federation.honest))).clients()),
        "ids": lambda: federation.clients.honest_ids.tolist(),
        "held_out": lambda: None if (own := _held_out(federation.clients)) is None else pairs(own),
        "params": lambda: given(params.clone()),
        "predict": lambda: predict,
        "weights": lambda: None if model.aggregate is None else given(model.aggregate.weights),
    }
    try:
        with contained(lambda: f"metric {name}"):
            made = signatures.call(function, **offered)
    except Reported:
        raise
    except Exception as error:
        raise BrokenContract(f"metric {name} raised {type(error).__name__}: {one_line(error)}") from error
    try:
        if isinstance(made, Mapping):
            return {f"{name}_{key}": float(value) for key, value in made.items()}
        return {name: float(made)}
    except (TypeError, ValueError):
        raise BrokenContract(f"metric {name} must return a number, or numbers by name, got {made!r:.60}") from None


def _held_out(clients: "Clients") -> "list[tuple[Tensor, Tensor]] | None":
    """The samples of each honest client that validation holds out; None unless the data set has clients of its own and
    each of them has such samples."""
    held, by_owner = clients.held_out, clients.parts.partition.by_owner
    if held is None or held.owners is None or not by_owner:
        return None
    owners = clients.owners[[clients.shards[i][0] for i in clients.honest_ids]].tolist()
    own = [(held.train_x[rows], held.train_y[rows]) for owner in owners for rows in [held.owners == owner]]
    return own if all(len(y) for _, y in own) else None
