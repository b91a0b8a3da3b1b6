"""The parts that make up a run: one field for each config group."""

from dataclasses import dataclass, fields
from typing import get_args, get_type_hints

from robustfl_bench.abilities import Part
from robustfl_bench.interfaces import (
    Aggregator,
    Attack,
    Augmentation,
    Availability,
    Clustering,
    Communication,
    Corruption,
    Dataset,
    LocalUpdate,
    Model,
    Partition,
    PreAggregation,
    Schedule,
    ServerData,
    ServerOptimizer,
    Tracker,
    check_clients,
)


@dataclass(frozen=True)
class Parts:
    """The parts of a run. A new config group needs a field here, a default in ``conf/config.yaml``, and a package."""

    dataset: Dataset
    partition: Partition
    model: Model
    attack: Attack
    aggregator: Aggregator
    local_update: LocalUpdate
    pre_aggregation: PreAggregation | None
    server_data: ServerData
    server_optimizer: ServerOptimizer
    schedule: Schedule
    clustering: Clustering | None
    corruption: Corruption | None
    augmentation: Augmentation | None
    communication: Communication | None
    availability: Availability | None
    tracker: tuple[Tracker, ...]

    def check_clients(self, n: int) -> None:
        """Raise ConfigError when the rule cannot work with n clients' updates, or with their pre-aggregated ones.

        Conditions of a rule's guarantee hold for clients; they are not required of the fewer means of clients.
        """
        check_clients(self.aggregator, self.pre_aggregation, n)


GROUPS = tuple(field.name for field in fields(Parts))

FOLLOWING = ("tracker",)
"""Groups that change no result: they are not part of a run's identity, and take several options."""


def kind(group: str) -> tuple[type[Part], bool]:
    """The base class of the parts of a config group, and whether the group can be empty."""
    wanted = get_type_hints(Parts)[group]
    classes = get_args(wanted)
    return (classes[0], True) if classes else (wanted, False)
