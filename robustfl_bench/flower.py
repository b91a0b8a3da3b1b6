"""Rules as server-side strategies of Flower (https://flower.ai): ``pip install "robustfl-bench[flower]"``.

For Flower's message API (``flwr.serverapp``; tried with 1.41 and 1.42), not for the older ``flwr.server.strategy``.
Importing this module imports Flower and PyTorch.
"""

import logging
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.aggregators.base import Aggregator, ServerAlone, ServerView
from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError, check_package
from robustfl_bench.engine.parts import check_clients
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.pre_aggregations.base import PreAggregation

check_package("flwr", extra="flower")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord  # noqa: E402
from flwr.serverapp import Grid  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402

LOG = logging.getLogger("flwr")


class RobustStrategy(FedAvg):  # type: ignore[misc]
    """Flower's FedAvg with a rule instead of the average: ``RobustStrategy(Krum(num_byzantine=2))``.

    An update is the global model minus the client's model, over all floating-point arrays; other arrays do not change.
    The next model is the global model minus ``server_lr`` times the aggregate. ``pre_aggregation`` transforms the
    updates. Sample counts are those that clients report under ``weighted_by_key``. ``seed`` fixes the draws of the
    rule. The rule's memory is kept from round to round. Other arguments are those of
    ``flwr.serverapp.strategy.FedAvg``.

    A reply that does not fit the model, has no positive number of samples, or has other metrics than most replies, is
    ignored; a non-finite update is replaced by zeros. If there are too few replies for the rule, the model does not
    change. Raises ConfigError when a round is configured with too few clients, and where the rule needs what a Flower
    server lacks: samples of its own, or losses that clients report when asked.
    """

    def __init__(
        self,
        rule: Aggregator,
        pre_aggregation: PreAggregation | None = None,
        *,
        server_lr: float = 1.0,
        seed: int = 0,
        **fedavg: Any,
    ) -> None:
        if not 0 < server_lr < math.inf:
            raise ConfigError(f"server_lr must be > 0, got {server_lr!r}")
        super().__init__(**fedavg)
        self.rule, self.pre_aggregation, self.server_lr, self.seed = rule, pre_aggregation, server_lr, seed
        self.last: Aggregate | None = None
        """The last aggregate, with the weights of the clients if the rule gives them."""
        self._arrays: dict[str, np.ndarray] = {}
        self._counts: dict[int, float] = {}  # sample counts of all known nodes, 0 before the first reply

    def summary(self) -> None:
        """Log the settings of the strategy."""
        LOG.info("\t├──> Rule: %s", self.rule)
        LOG.info("\t├──> Pre-aggregation: %s", self.pre_aggregation)
        LOG.info("\t├──> Server learning rate: %g", self.server_lr)
        super().summary()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the global model to the sampled clients; raises ConfigError if they are too few for the rule."""
        messages = list(super().configure_train(server_round, arrays, config, grid))
        if messages:
            check_clients(self.rule, self.pre_aggregation, len(messages))
        self._arrays = {name: array.numpy() for name, array in arrays.items()}
        for node in sorted(grid.get_node_ids()):
            self._counts.setdefault(node, 0.0)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The next global model, or None if it does not change, and the clients' metrics, averaged as in FedAvg."""
        answered, _ = self._check_and_log_replies(replies, is_train=True, validate=False)
        fitting = _alike([reply for reply in answered if self._fits(reply)])
        if left := len(answered) - len(fitting):
            LOG.warning("aggregate_train: left out %s replies that do not fit", left)
        if not fitting:
            return None, None
        fitting.sort(key=lambda reply: reply.metadata.src_node_id)  # replies arrive in any order
        metrics = self.train_metrics_aggr_fn([reply.content for reply in fitting], self.weighted_by_key)
        try:
            check_clients(self.rule, self.pre_aggregation, len(fitting))
        except ConfigError as error:
            LOG.warning("aggregate_train: the model stays as it is: %s", error)
            return None, metrics
        return self._next(server_round, fitting), metrics

    def _fits(self, reply: Message) -> bool:
        """Whether a reply has a model with the same arrays and a positive number of samples."""
        records, metrics = list(reply.content.array_records.values()), list(reply.content.metric_records.values())
        if len(records) != 1 or len(metrics) != 1 or set(records[0]) != set(self._arrays):
            return False
        count = metrics[0].get(self.weighted_by_key)
        if not isinstance(count, int | float) or not 0 < count < math.inf:
            return False
        try:
            found = {name: array.numpy() for name, array in records[0].items()}
        except Exception:  # bytes that are no array
            return False
        return all(
            value.shape == self._arrays[name].shape and value.dtype == self._arrays[name].dtype
            for name, value in found.items()
        )

    def _next(self, server_round: int, replies: Sequence[Message]) -> ArrayRecord:
        """The global model after the step."""
        start = self._flat(self._arrays)
        rows, counts = np.zeros((len(replies), len(start)), dtype=np.float32), np.zeros(len(replies))
        for row, reply in zip(rows, replies, strict=True):
            (record,) = reply.content.array_records.values()
            with np.errstate(over="ignore", invalid="ignore"):
                row[:] = start - self._flat({name: array.numpy() for name, array in record.items()})
            if not np.isfinite(row).all():
                row[:] = 0  # rules never get such a row
        for i, reply in enumerate(replies):
            (metrics,) = reply.content.metric_records.values()
            counts[i] = self._counts[reply.metadata.src_node_id] = float(metrics[self.weighted_by_key])
        updates = Updates(torch.from_numpy(rows), torch.from_numpy(counts))
        if self.pre_aggregation is not None:
            updates = self.pre_aggregation(updates, seeding.generator(self.seed, "pre-aggregation", server_round - 1))
        clients = None if self.pre_aggregation is not None else self._numbers(replies)
        self.last = self.rule(updates, self._server(server_round - 1, torch.from_numpy(start).float(), clients))
        moved = start - self.server_lr * self.last.vector.double().numpy()
        return ArrayRecord({name: Array(value) for name, value in self._shaped(moved).items()})

    def _numbers(self, replies: Sequence[Message]) -> Tensor:
        """The clients' numbers for the replies, counted in the order in which the clients became known."""
        numbers = {node: number for number, node in enumerate(self._counts)}
        return torch.tensor([numbers[reply.metadata.src_node_id] for reply in replies])

    def _flat(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """All floating-point arrays as one vector (d,) float64, in the order of the global model."""
        parts = [arrays[name].ravel() for name, array in self._arrays.items() if _is_real(array)]
        return np.concatenate([np.zeros(0), *parts])

    def _shaped(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """The global model with the numbers of ``flat`` (d,)."""
        shaped, at = {}, 0
        for name, array in self._arrays.items():
            shaped[name] = array
            if _is_real(array):
                shaped[name] = flat[at : at + array.size].reshape(array.shape).astype(array.dtype)
                at += array.size
        return shaped

    def _server(self, round: int, params: Tensor, clients: Tensor | None) -> ServerView:
        needed = "samples of the server, or losses that clients report: a Flower server has neither, take another rule"
        return ServerAlone(
            self.rule,
            lambda _: needed,
            params=params,
            step_size=self.server_lr,
            round=round,
            rng=seeding.generator(self.seed, "rule", round),
            previous=None if self.last is None else self.last.vector,
            clients=clients,
            counts=torch.tensor(list(self._counts.values()), dtype=torch.float64),
            memory=MappingProxyType((self.last.memory if self.last is not None else None) or {}),
            layers=tuple(array.size for array in self._arrays.values() if _is_real(array)),
        )


def _is_real(array: np.ndarray) -> bool:
    return np.issubdtype(array.dtype, np.floating)


def _alike(replies: list[Message]) -> list[Message]:
    """The replies with the most common names and types of metrics."""
    kinds = [
        tuple(sorted((name, isinstance(value, list)) for name, value in metrics.items()))
        for reply in replies
        for metrics in reply.content.metric_records.values()
    ]
    most = Counter(kinds).most_common(1)
    return [reply for reply, kind in zip(replies, kinds, strict=True) if kind == most[0][0]]
