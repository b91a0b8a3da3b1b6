"""The parts that make up a run: one field for each config group."""

from dataclasses import dataclass, fields
from functools import cache
from typing import get_args, get_type_hints

from robustfl_bench.base.abilities import Part
from robustfl_bench.parts.aggregators.base import Aggregator
from robustfl_bench.parts.attacks.base import Attack
from robustfl_bench.parts.augmentations.base import Augmentation
from robustfl_bench.parts.availability.base import Availability
from robustfl_bench.parts.clustering.base import Clustering
from robustfl_bench.parts.corruptions.base import Corruption
from robustfl_bench.parts.datasets.base import Dataset
from robustfl_bench.parts.local_updates.base import LocalUpdate
from robustfl_bench.parts.models.base import Model
from robustfl_bench.parts.partitions.base import Partition
from robustfl_bench.parts.pre_aggregations.base import PreAggregation
from robustfl_bench.parts.protocols.base import Protocol
from robustfl_bench.parts.schedules.base import Schedule
from robustfl_bench.parts.server_data.base import ServerData
from robustfl_bench.parts.server_optimizers.base import ServerOptimizer
from robustfl_bench.parts.trackers.base import Tracker

_SYNCHRONOUS = Protocol()


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
    protocol: Protocol | None
    availability: Availability | None
    tracker: tuple[Tracker, ...]

    @property
    def course(self) -> Protocol:
        """The protocol of the rounds, synchronous unless one is chosen."""
        return self.protocol or _SYNCHRONOUS

    @property
    def optional(self) -> list[str]:
        """The optional groups that the run uses, such as ``pre_aggregation``."""
        return [group for group in GROUPS if kind(group)[1] and getattr(self, group) is not None]

    def check_clients(self, n: int) -> None:
        """Raise ConfigError when the rule cannot work with n clients' updates, or with their pre-aggregated ones.

        Conditions of a rule's guarantee hold for clients; they are not required of the fewer means of clients.
        """
        check_clients(self.aggregator, self.pre_aggregation, n)


GROUPS = tuple(field.name for field in fields(Parts))

FOLLOWING = ("tracker",)
"""Groups that change no result: they are not part of a run's identity, and take several options."""


@cache
def kind(group: str) -> tuple[type[Part], bool]:
    """The base class of the parts of a config group, and whether the group can be empty."""
    wanted = get_type_hints(Parts)[group]
    classes = get_args(wanted)
    return (classes[0], True) if classes else (wanted, False)


def check_clients(rule: Aggregator, mixing: PreAggregation | None, n: int) -> None:
    """Raise ConfigError if a rule cannot work with the updates of n clients, or with those that ``mixing`` makes of
    them.

    If ``mixing`` makes fewer updates, such as means, the number of clients that the rule's guarantee needs is not
    required.
    """
    if mixing is not None:
        mixing.check(n)
        rule.check_mixed(mixing.num_made(n))
    if mixing is None or mixing.num_made(n) == n:
        rule.check(n)
