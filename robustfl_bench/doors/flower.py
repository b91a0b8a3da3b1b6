"""Rules as server-side strategies of Flower (https://flower.ai), and attacks as mods of its clients: ``pip install
"robustfl-bench[flower]"``.

For Flower's message API (``flwr.serverapp``; tried with 1.41 and 1.42), not for the older ``flwr.server.strategy``.
Importing this module imports Flower and PyTorch.
"""

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from robustfl_bench.base.errors import ConfigError, check_package
from robustfl_bench.doors.liar import Liar, kept, remembered
from robustfl_bench.numerics.named_arrays import Arrays, NamedArrays, Vector
from robustfl_bench.numerics.updates import Aggregate
from robustfl_bench.parts.aggregators.base import Aggregator
from robustfl_bench.parts.attacks.base import Attack
from robustfl_bench.parts.pre_aggregations.base import PreAggregation
from robustfl_bench.train.alone import FrameworkServer, RuleAlone

check_package("flwr", extra="flower")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord  # noqa: E402
from flwr.clientapp.typing import ClientAppCallable  # noqa: E402
from flwr.serverapp import Grid  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402

LOG = logging.getLogger("flwr")
LACKING = "samples of the server, or losses that clients report: a Flower server has neither, take another rule"


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
        self._asked = RuleAlone(rule, pre_aggregation, seed, lambda _: LACKING)
        self._server = FrameworkServer(self._asked, server_lr)
        self._model = NamedArrays({})

    @property
    def last(self) -> Aggregate | None:
        """The last aggregate, with the weights of the clients if the rule gives them."""
        return self._asked.last

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
            self._asked.check(len(messages))
        self._model = NamedArrays(_arrays(arrays))
        self._server.meet(sorted(grid.get_node_ids()))
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
            self._asked.check(len(fitting))
        except ConfigError as error:
            LOG.warning("aggregate_train: the model stays as it is: %s", error)
            return None, metrics
        return self._next(server_round, fitting), metrics

    def _fits(self, reply: Message) -> bool:
        """Whether a reply has a model with the same arrays and a positive number of samples."""
        records, metrics = list(reply.content.array_records.values()), list(reply.content.metric_records.values())
        if len(records) != 1 or len(metrics) != 1:
            return False
        count = metrics[0].get(self.weighted_by_key)
        if not isinstance(count, int | float) or not 0 < count < math.inf:
            return False
        try:
            return self._model.fit(_arrays(records[0]))
        except Exception:  # bytes that are no array
            return False

    def _next(self, server_round: int, replies: Sequence[Message]) -> ArrayRecord:
        """The global model after the step."""
        start = self._model.vector()

        def sent() -> Iterator[tuple[Vector, float]]:
            for reply in replies:
                (record,), (metrics,) = reply.content.array_records.values(), reply.content.metric_records.values()
                yield start - self._model.vector(_arrays(record)), float(metrics[self.weighted_by_key])

        moved = self._server.step(
            server_round - 1,
            [reply.metadata.src_node_id for reply in replies],
            sent(),
            self._model.sizes,
            params=torch.from_numpy(start).float(),
        )
        return ArrayRecord({name: Array(value) for name, value in self._model.named(start + moved).items()})


class LyingMod:
    """A mod of Flower's ClientApp whose client lies: ``ClientApp(mods=[LyingMod(InnerProductManipulation(), 10)])``.

    The client trains, and sends what the attack makes of its own update, see ``Liar``; ``num_clients`` take part in a
    round. ``partitions`` are those of a simulation that lie, by ``partition-id`` of the node's configuration; None: all
    clients with this mod. What the attack remembers is in the client's context. Messages without a model pass.
    """

    STATE = "robustfl_bench.lying"

    def __init__(self, attack: Attack, num_clients: int, *, partitions: Sequence[int] | None = None, seed: int = 0):
        self._liar, self._partitions = Liar(attack, num_clients, seed), partitions

    def __call__(self, message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        """The reply of the client, with another model if it lies."""
        received = list(message.content.array_records.values())
        reply = call_next(message, context)
        lies = self._partitions is None or context.node_config.get("partition-id") in self._partitions
        if not lies or len(received) != 1 or reply.has_error() or len(reply.content.array_records) != 1:
            return reply
        ((name, sent),) = reply.content.array_records.items()
        model = NamedArrays(_arrays(received[0]))
        if not model.fit(_arrays(sent)):
            return reply
        configs = list(message.content.config_records.values())
        number = int(configs[0].get("server-round", 1)) if configs else 1
        state = context.state.get(self.STATE)
        before, memory = remembered(_arrays(state)) if isinstance(state, ArrayRecord) else (None, {})
        start = model.vector()
        vector, memory = self._liar.sent(number - 1, start, model.vector(_arrays(sent)), before, memory)
        own = NamedArrays(_arrays(sent)).named(vector)
        reply.content[name] = ArrayRecord({key: Array(value) for key, value in own.items()})
        context.state[self.STATE] = ArrayRecord({key: Array(value) for key, value in kept(memory, start).items()})
        return reply


def _arrays(record: ArrayRecord) -> Arrays:
    return {name: array.numpy() for name, array in record.items()}


def _alike(replies: list[Message]) -> list[Message]:
    """The replies with the most common names and types of metrics."""
    kinds = [
        tuple(sorted((name, isinstance(value, list)) for name, value in metrics.items()))
        for reply in replies
        for metrics in reply.content.metric_records.values()
    ]
    most = Counter(kinds).most_common(1)
    return [reply for reply, kind in zip(replies, kinds, strict=True) if kind == most[0][0]]
