"""The parts that make up a run: one field for each config group."""

from dataclasses import dataclass, fields
from typing import Any, get_args, get_type_hints

from robustfl_bench.interfaces import (
    Aggregator,
    Attack,
    Augmentation,
    Clustering,
    Communication,
    ConfigError,
    Corruption,
    Dataset,
    LocalUpdate,
    Model,
    Partition,
    PreAggregation,
    Schedule,
    ServerData,
    ServerOptimizer,
)


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
    server_data: ServerData
    server_optimizer: ServerOptimizer
    schedule: Schedule
    clustering: Clustering | None
    corruption: Corruption | None
    augmentation: Augmentation | None
    communication: Communication | None


GROUPS = tuple(field.name for field in fields(Parts))


def check_kind(group: str, part: Any) -> None:
    """Raise ConfigError unless ``part`` is of the class that the config group takes."""
    kind = get_type_hints(Parts)[group]
    if not isinstance(part, kind):
        wanted, got = (get_args(kind) or (kind,))[0], type(part)
        raise ConfigError(
            f"{group} must be a subclass of {wanted.__module__}.{wanted.__name__}, got {got.__module__}.{got.__name__}"
        )
