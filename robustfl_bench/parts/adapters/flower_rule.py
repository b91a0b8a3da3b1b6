"""A strategy of Flower's ``flwr.server.strategy`` as a rule; works by the shape of its arguments, without Flower."""

from __future__ import annotations

import io
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from robustfl_bench.base.errors import BrokenContract
from robustfl_bench.parts.adapters.adapter import Adapter
from robustfl_bench.parts.aggregators.base import ServerView

if TYPE_CHECKING:
    from robustfl_bench.numerics.updates import Updates


@dataclass(frozen=True)
class FlowerRule(Adapter):
    """The ``aggregate_fit`` of a strategy: it gets the clients' models, and the next model gives the aggregate.

    The model is a single array (d,). Layers are not told apart, so a strategy that treats them differently is not the
    same. Strategies of Flower's message API (``aggregate_train``) need Flower itself and are not adapted.
    """

    def ask(self, rule: Any, updates: Updates, server: ServerView) -> Any:
        start = server.params.cpu().numpy()
        models = start - updates.matrix.cpu().numpy()
        clients = range(updates.n) if server.clients is None else server.clients.tolist()
        replies = [
            (SimpleNamespace(cid=str(client)), _reply(model, int(count)))
            for client, model, count in zip(clients, models, updates.counts.tolist(), strict=True)
        ]
        made, _ = rule.aggregate_fit(server.round + 1, replies, [])
        if made is None:
            raise BrokenContract(f"{self._name}.aggregate_fit made no model of {updates.n} replies")
        return start - np.concatenate([_read(content).ravel() for content in made.tensors])


def _reply(model: np.ndarray, num_examples: int) -> SimpleNamespace:
    """What a strategy reads of Flower's ``FitRes``."""
    content = io.BytesIO()
    np.save(content, model, allow_pickle=False)
    parameters = SimpleNamespace(tensors=[content.getvalue()], tensor_type="numpy.ndarray")
    return SimpleNamespace(parameters=parameters, num_examples=max(num_examples, 1), metrics={}, status=None)


def _read(content: bytes) -> np.ndarray:
    array: np.ndarray = np.load(io.BytesIO(content), allow_pickle=False)
    return array
