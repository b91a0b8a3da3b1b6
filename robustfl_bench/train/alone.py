"""Rules outside of a run: asked round after round over the processes of a training, or by another framework."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.numerics.named_arrays import Vector
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerAlone
from robustfl_bench.parts.pre_aggregations.base import PreAggregation
from robustfl_bench.train.parts import check_clients


class RuleAlone:
    """A rule, with a ``pre_aggregation`` or without, and what it keeps from round to round.

    ``seed`` fixes its draws. Where it reads what its caller does not know, it ends with ConfigError; ``lacking`` puts
    into words what it then needs, by the name of the field of ``ServerView``. ``last`` is the last aggregate.
    """

    def __init__(
        self, rule: Aggregator, pre_aggregation: PreAggregation | None, seed: int, lacking: Callable[[str], str]
    ) -> None:
        self._rule, self._mixing, self._seed, self._lacking = rule, pre_aggregation, seed, lacking
        self.last: Aggregate | None = None

    def check(self, n: int) -> None:
        """Raise ConfigError if the updates of n clients are too few."""
        check_clients(self._rule, self._mixing, n)

    def __call__(self, updates: Updates, round: int, clients: Tensor, **known: Any) -> Aggregate:
        """The aggregate of the ``updates`` of ``clients`` (n,) int64 in a round, counted from 0; ``known`` are the
        other fields of ``ServerView`` that the caller knows."""
        if self._mixing is not None:
            updates = self._mixing(updates, seeding.generator(self._seed, "pre-aggregation", round))
        server = ServerAlone(
            self._rule,
            self._lacking,
            round=round,
            rng=seeding.generator(self._seed, "rule", round),
            previous=None if self.last is None else self.last.vector,
            clients=clients if self._mixing is None else None,
            memory=(self.last.memory if self.last is not None else None) or {},
            **known,
        )
        made = self._rule(updates, server)
        # The vector may be a part of the updates, whose room is used again.
        self.last = replace(made, vector=made.vector.clone())
        return made


class FrameworkServer:
    """A rule in the server of another framework, whose clients have names, ``server_lr`` times the aggregate a step.

    Clients are numbered in the order in which they become known; the sample count of a client is 0 until it has sent
    an update.
    """

    def __init__(self, asked: RuleAlone, server_lr: float) -> None:
        self._asked, self._server_lr = asked, server_lr
        self._counts: dict[Hashable, float] = {}

    def meet(self, clients: Iterable[Hashable]) -> None:
        """Learn the names of clients."""
        for client in clients:
            self._counts.setdefault(client, 0.0)

    def step(
        self,
        round: int,
        clients: Sequence[Hashable],
        sent: Iterable[tuple[Vector, float]],
        layers: tuple[int, ...],
        **known: Any,
    ) -> Vector:
        """What the model moves by, (d,), when ``clients`` have ``sent`` updates (d,) and sample counts in a round.

        Updates with numbers that are not finite in float32 count as 0. Raises ConfigError if the rule cannot answer.
        """
        self.meet(clients)
        rows = np.zeros((len(clients), sum(layers)), dtype=np.float32)
        for row, client, (update, count) in zip(rows, clients, sent, strict=True):
            self._counts[client] = count
            with np.errstate(over="ignore", invalid="ignore"):
                row[:] = update
            if not np.isfinite(row).all():
                row[:] = 0  # rules never get such a row
        numbers = {client: number for number, client in enumerate(self._counts)}
        counts = torch.tensor(list(self._counts.values()), dtype=torch.float64)
        chosen = torch.tensor([numbers[client] for client in clients])
        updates = Updates(torch.from_numpy(rows), counts[chosen])
        known |= {"counts": counts, "step_size": self._server_lr, "layers": layers}
        moved: Vector = -self._server_lr * self._asked(updates, round, chosen, **known).vector.double().numpy()
        return moved
