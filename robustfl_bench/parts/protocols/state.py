"""The state of a run between rounds, which a checkpoint stores, and the results of a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from robustfl_bench.numerics.updates import Aggregate

Remembered = dict[str, Tensor]


@dataclass(frozen=True)
class Cohort:
    """The clients that train a model in a round, as positions among the honest and among the Byzantine clients."""

    honest: list[int]
    byzantine: list[int]

    def __len__(self) -> int:
        return len(self.honest) + len(self.byzantine)


@dataclass(frozen=True)
class Memory:
    """The memory of the parts for one model: tensors by name, empty until a part stores something.

    Every round replaces ``rule``, ``attack`` and ``server`` (the server's optimizer). ``local`` is the memory of the
    local updates of ``honest`` and of ``byzantine`` clients; it is large and changed in place.
    """

    rule: Remembered = field(default_factory=dict)
    attack: Remembered = field(default_factory=dict)
    server: Remembered = field(default_factory=dict)
    local: dict[str, Remembered] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelState:
    """One model in a round: ``params`` (d,), its ``previous`` aggregate (d,) and its memory."""

    round: int
    params: Tensor
    previous: Tensor | None
    memory: Memory


@dataclass(frozen=True)
class State:
    """The state after ``round`` rounds.

    ``params`` (k, d) are the models, one unless there is a clustering, and ``previous`` (k, d) their last aggregates.
    ``memory`` has one entry for each model. ``choice`` (clients,) is each client's fixed model; None without a
    clustering, or if clients choose in every round. ``weights`` (N,) are the clients' weights in the last aggregate,
    for a single model and a rule that gives weights. ``protocol`` is the memory of the protocol, empty at first.
    """

    round: int
    params: Tensor
    memory: tuple[Memory, ...]
    previous: Tensor | None = None
    choice: Tensor | None = None
    weights: Tensor | None = None
    protocol: Remembered = field(default_factory=dict)

    @staticmethod
    def start(params: Tensor, choice: Tensor | None = None) -> State:
        """The state before the first round, from the initial models (k, d)."""
        return State(0, params, tuple(Memory() for _ in params), choice=choice)

    def model(self, number: int) -> ModelState:
        """The state of one model."""
        previous = None if self.previous is None else self.previous[number]
        return ModelState(self.round, self.params[number], previous, self.memory[number])

    @property
    def changes_in_place(self) -> bool:
        """Whether part of the state changes during a round, so that an incomplete round must not be stored."""
        return any(remembered for memory in self.memory for remembered in memory.local.values())

    def stored(self) -> dict[str, Any]:
        """The state as plain containers of tensors, for a checkpoint."""
        return _shallow(self) | {"memory": [_shallow(memory) for memory in self.memory]}

    @staticmethod
    def restored(stored: Mapping[str, Any], device: torch.device) -> State:
        """The state from the output of ``stored``, with its tensors on ``device``."""
        values = _on(dict(stored), device)
        return State(**values | {"memory": tuple(Memory(**memory) for memory in values["memory"])})


@dataclass(frozen=True)
class Trained:
    """A model (d,) after a round, with the honest clients' losses and the rule's aggregate of the cohort's updates.

    ``aggregate`` is None for a model that did not change because its cohort was empty or too small for the rule.
    ``notes`` are the numbers that the attack reports.
    """

    params: Tensor
    losses: Tensor | None
    aggregate: Aggregate | None
    num_honest: int
    non_finite: int
    memory: Memory
    notes: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Round:
    """All results of round ``number`` (from 1) that a record may need, with an entry for each model.

    ``notes`` are the numbers that the protocol reports.
    """

    number: int
    lr: float
    cohorts: tuple[Cohort, ...]
    models: tuple[Trained, ...]
    notes: Mapping[str, float] = field(default_factory=dict)


def _shallow(instance: Any) -> dict[str, Any]:
    """A dataclass as a dict, without copies, unlike ``dataclasses.asdict``."""
    return {field.name: getattr(instance, field.name) for field in fields(instance)}


def _on(value: Any, device: torch.device) -> Any:
    if isinstance(value, dict):
        return {key: _on(item, device) for key, item in value.items()}
    if isinstance(value, list):
        return [_on(item, device) for item in value]
    return value.to(device) if isinstance(value, Tensor) else value
