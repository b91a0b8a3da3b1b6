"""The base class of protocols, and the views of a round that a protocol receives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from robustfl_bench.base.abilities import Ability, Part, Table, overrides

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from robustfl_bench.numerics.neighbourhoods import Neighbourhoods
    from robustfl_bench.numerics.updates import Aggregate, Updates
    from robustfl_bench.parts.aggregators.base import Aggregator, ServerView
    from robustfl_bench.parts.attacks.base import Crafted
    from robustfl_bench.parts.local_updates.base import LocalUpdate
    from robustfl_bench.parts.protocols.state import Cohort, ModelState, Remembered, Round, State, Trained

Rule = Callable[["Updates"], "Aggregate"]
"""Computes the server's aggregate of the received updates."""


@dataclass(frozen=True)
class Setup:
    """The parts of a run on which a protocol may depend. ``others`` names the optional config groups in use, such as
    ``pre_aggregation``; ``clients`` is the number of clients that train at once, ``num_byzantine`` that of attackers.
    """

    rule: Aggregator
    local_update: LocalUpdate
    others: Collection[str]
    clients: int
    num_byzantine: int


class RoundContext(ABC):
    """One round of one model. ``complete`` carries out its stages in order; a protocol may call them one by one.

    ``cohort`` are the clients whose updates the server receives, ``model`` the state of the model before the round,
    ``lr`` the learning rate of the round.
    """

    cohort: Cohort
    model: ModelState
    lr: float

    @abstractmethod
    def train(self) -> Updates:
        """The honest clients' updates, as they send them."""

    @abstractmethod
    def train_nodes(self, models: Tensor) -> Updates:
        """As ``train``, each client from its own of the ``models`` (n, d)."""

    @abstractmethod
    def receive(self, uploads: Tensor) -> int:
        """Turn uploads (n, d) into the updates that the server receives, in place; returns how many were not finite."""

    @abstractmethod
    def attack(self, honest: Updates, rule: Rule) -> tuple[Updates, Crafted]:
        """The received honest updates followed by the Byzantine clients' uploads, and the attack's ``Crafted``.

        ``rule`` is the function that attackers may evaluate.
        """

    @abstractmethod
    def aggregate(self, updates: Updates) -> Aggregate:
        """The rule's aggregate of the received updates, after the pre-aggregation."""

    @abstractmethod
    def server_step(self, vector: Tensor) -> tuple[Tensor, Remembered]:
        """The next parameters (d,) of the model, a step along an aggregate (d,), and the optimizer's memory of it."""

    @property
    @abstractmethod
    def pace(self) -> float:
        """The factor of the aggregate in the server's step."""

    @abstractmethod
    def craft_messages(self, known: Mapping[str, Tensor]) -> Crafted | None:
        """The models that attackers send over their links, for an attack that sends every neighbour its own; else None.

        ``known`` are the tensors of their ``GossipView``.
        """

    @abstractmethod
    def aggregate_nodes(self, nodes: Neighbourhoods) -> Tensor | None:
        """The rule's vectors (h, d) at all nodes that gossip, at once; None if it must be asked node by node."""

    @abstractmethod
    def complete(self, rule: Rule | None = None) -> Trained:
        """All stages of the round: train, receive, attack, receive, aggregate, step.

        ``rule`` takes the place of ``aggregate``. The model does not change if the cohort is too small for the rule.
        Raises Diverged for a model that can no longer be trained.
        """


class Engine(ABC):
    """The clients of a run and the work of the engine in a round.

    ``honest_ids`` and ``byzantine_ids`` are the numbers of the honest and the Byzantine clients, from 0 to N - 1.
    ``clients_per_round`` clients train at once, by the setting ``participation``.
    """

    honest_ids: np.ndarray
    byzantine_ids: np.ndarray
    clients_per_round: int

    @abstractmethod
    def draw(self, name: str, round: int, numbers: Callable[[int, np.random.Generator], np.ndarray]) -> np.ndarray:
        """One number per client, (N,), from ``numbers`` (how many, generator), for a round (from 0).

        The streams depend on the seed, ``name`` and the round; clients that the attack adds have a stream of their own,
        so that the honest clients' numbers depend on neither rule nor attack.
        """

    @abstractmethod
    def ids(self, cohort: Cohort) -> np.ndarray:
        """The numbers of a cohort's clients, (n,), honest clients first."""

    @abstractmethod
    def cohort(self, ids: np.ndarray) -> Cohort:
        """The cohort of the clients with these numbers."""

    @abstractmethod
    def cohorts(self, state: State) -> tuple[Cohort, ...]:
        """The cohort of each model in the synchronous round after ``state``."""

    @abstractmethod
    def context(
        self, state: State, cohorts: Sequence[Cohort], number: int = 0, received: Mapping[int, ModelState] | None = None
    ) -> RoundContext:
        """The round after ``state`` of model ``number``, which the cohort of that number trains.

        ``received`` has the models from which clients start, by their numbers; by default, all start from the model.
        """

    @abstractmethod
    def after(
        self,
        state: State,
        cohorts: Sequence[Cohort],
        models: Sequence[Trained],
        protocol: Remembered | None = None,
        notes: Mapping[str, float] = MappingProxyType({}),
    ) -> tuple[State, Round]:
        """The state after the round after ``state``, and its results.

        ``protocol`` is the protocol's new memory, ``notes`` has the numbers that it reports.
        """


class Protocol(Part):
    """The course of a round. The methods of this class make synchronous rounds with a server whose bits are not
    counted: all participating clients start from the current model, and the server waits for all of them.

    ``reports`` names the numbers that ``step`` reports in each round: columns ``protocol_NAME`` of metrics.csv, but
    ``simulated_time`` and ``mean_staleness``, which mean the same in every protocol, are columns of these names. With
    ``clients_compute_alone`` the engine computes every client's update separately, so that a separate process per
    client gives the same bits. ``exempt`` names promises of ``testing.PROTOCOL_PROMISES`` that the protocol does not
    make, with the reason.
    """

    abilities: ClassVar[Table] = {
        "exempt": Ability(counts="never"),
        "total_bits": Ability(counts="always"),  # which the columns of metrics.csv ask for
    }

    exempt: ClassVar[Mapping[str, str]] = MappingProxyType({})
    reports: ClassVar[tuple[str, ...]] = ()
    clients_compute_alone: bool = False

    def check(self, setup: Setup) -> None:
        """Raise ConfigError if a run with these parts cannot follow the protocol."""

    def updates_per_round(self, clients: int) -> int:
        """The number of updates that the rule receives in a round, at most, if ``clients`` train at once."""
        return clients

    def step(self, engine: Engine, state: State) -> tuple[State, Round]:
        """The state after the next round, and the results of that round.

        What must last from round to round is in the state: ``state.protocol`` for the protocol's own tensors.
        """
        cohorts = engine.cohorts(state)
        models = [engine.context(state, cohorts, number).complete() for number in range(len(cohorts))]
        return engine.after(state, cohorts, models)

    def deliver(self, uploads: Tensor) -> None:
        """Turn the clients' uploads (n, d) into the received ones, in place; by default they are the same."""

    @property
    def aggregates(self) -> bool:
        """Whether the protocol overrides ``aggregate``, so that attackers cannot ask the rule alone."""
        return overrides(self, "aggregate")

    def aggregate(self, rule: Aggregator, updates: Updates, server: ServerView) -> Aggregate:
        """The aggregate of one round; by default that of the rule, which sees all updates."""
        return rule(updates, server)

    def total_bits(self, rule: Aggregator, n: int, d: int) -> int | None:
        """The number of bits that n clients together send in a round, for a model of d parameters; None if they are not
        counted."""
        return None
