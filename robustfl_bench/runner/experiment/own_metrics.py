"""Metrics of the user: functions of an evaluated round, whose numbers are in a file beside metrics.csv.

A function gets by name what it asks for: ``round``, ``accuracy``, ``loss``, ``recall`` (c,) and ``confusion`` (c, c) on
the test set, ``x`` and ``y``, the test set, ``clients``, the samples (x, y) of each honest client, ``ids``, their
numbers, ``held_out``, the samples (x, y) of each that validation holds out, perhaps none, None where no client has any,
``params`` (d,), ``predict``, which maps samples to outputs (N, c), and ``weights``, those of the clients in the rule,
or None. It returns a number, or numbers by name. Of several models it sees the first.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from robustfl_bench.base import trusted
from robustfl_bench.base.contained import contained
from robustfl_bench.base.errors import BrokenContract, ConfigError, Reported, near, one_line
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
        if name in _COLUMNS or any(_is_like(each, name) for each in METRICS):
            raise ConfigError(f"metrics: {name} is the name of another metric; give the function another name")
        if like := [other for other in found if _belongs(name, other) or _belongs(other, name)]:
            raise ConfigError(f"metrics: {name} and {like[0]} would share columns; give one of them another name")
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


_COLUMNS = ("round", "lr")
"""Those of metrics.csv that no metric computes."""


def _is_like(metric: Metric, name: str) -> bool:
    """Whether columns of the user's metric ``name`` could be columns of ``metric``."""
    return _belongs(metric.name, name) or (metric.family is not None and metric.family.fullmatch(name) is not None)


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
    if unknown := [argument for argument in signatures.required(function) if argument not in _OFFERED]:
        hint = near(unknown[0], _OFFERED)
        raise ConfigError(f"metric {name} asks for {unknown[0]}{hint}; there are: {', '.join(_OFFERED)}")
    return function


class _Given:
    """What a metric of an evaluated round can ask for, by name: arrays, or ``tensors``."""

    def __init__(self, evaluation: "Evaluation", tensors: bool) -> None:
        self._evaluation, self._tensors = evaluation, tensors
        self._federation, self._params = evaluation.federation, evaluation.state.params[0]
        self._clients, self._data = self._federation.clients, self._federation.clients.data

    def round(self) -> int:
        return self._evaluation.round.number

    def accuracy(self) -> float | None:
        return self._evaluation.test.accuracy

    def loss(self) -> float:
        return self._evaluation.test.loss

    def recall(self) -> list[float]:
        return list(self._evaluation.test.recall)

    def confusion(self) -> Any:
        return sum(self._evaluation.test.confusions)

    def x(self) -> Any:
        return self._as_asked(self._data.test_x)

    def y(self) -> Any:
        return self._as_asked(self._data.test_y)

    def clients(self) -> Any:
        honest = self._federation.honest
        return self._pairs(honest.batch(range(len(honest))).clients())

    def ids(self) -> list[int]:
        ids: list[int] = self._clients.honest_ids.tolist()
        return ids

    def held_out(self) -> Any:
        return None if (own := _held_out(self._clients)) is None else self._pairs(own)

    def params(self) -> Any:
        return self._as_asked(self._params.clone())

    def predict(self) -> Callable[[Any], Any]:
        def predict(x: Any) -> Any:
            import torch

            inputs = torch.as_tensor(x).to(self._data.test_x)
            return self._as_asked(self._federation.network.outputs_for(self._params, inputs))

        return predict

    def weights(self) -> Any:
        aggregate = self._evaluation.round.models[0].aggregate
        return None if aggregate is None else self._as_asked(aggregate.weights)

    def _as_asked(self, value: Any) -> Any:
        return value if self._tensors or not hasattr(value, "cpu") else value.cpu().numpy()

    def _pairs(self, samples: Any) -> Any:
        return [(self._as_asked(x), self._as_asked(y)) for x, y in samples]


_OFFERED = tuple(name for name in vars(_Given) if not name.startswith("_"))


def _computed(name: str, function: Callable[..., Any], evaluation: "Evaluation") -> Mapping[str, float]:
    """The columns of a metric in an evaluated round."""
    given = _Given(evaluation, signatures.array("metrics", function) == "torch")
    offered = {what: getattr(given, what) for what in _OFFERED}
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
    """The samples of each honest client that validation holds out, of some perhaps none; None unless the data set has
    clients of its own and some of them have such samples."""
    held, by_owner = clients.held_out, clients.parts.partition.by_owner
    if held is None or held.owners is None or not by_owner:
        return None
    owners = clients.owners[[clients.shards[i][0] for i in clients.honest_ids]].tolist()
    own = [(held.train_x[rows], held.train_y[rows]) for owner in owners for rows in [held.owners == owner]]
    return own if any(len(y) for _, y in own) else None
