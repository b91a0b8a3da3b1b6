"""The parts that make up a run: one field for each config group."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robustfl_bench.interfaces import (
        Aggregator,
        Attack,
        Augmentation,
        Clustering,
        Communication,
        Corruption,
        Dataset,
        Model,
        Partition,
        PreAggregation,
        Schedule,
    )
    from robustfl_bench.local_updates import LocalUpdate
    from robustfl_bench.server_data.per_class import PerClass


@dataclass(frozen=True)
class Parts:
    """The parts of a run. A new config group is a field here, its default in ``conf/config.yaml``, and its own room."""

    dataset: Dataset
    partition: Partition
    model: Model
    attack: Attack
    aggregator: Aggregator
    local_update: LocalUpdate
    pre_aggregation: PreAggregation | None
    server_data: PerClass
    schedule: Schedule
    clustering: Clustering | None
    corruption: Corruption | None
    augmentation: Augmentation | None
    communication: Communication | None


GROUPS = tuple(field.name for field in fields(Parts))
