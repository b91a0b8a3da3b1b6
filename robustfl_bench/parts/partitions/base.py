"""The base class of partitions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from robustfl_bench.base.abilities import Ability, Part, Table

if TYPE_CHECKING:
    import numpy as np


class Partition(Part):
    """Splits samples over clients by the labels; with ``by_owner``, by the owners of the samples.

    ``exempt`` may name ``covering`` (some samples go to no client) or ``empty`` (some clients get no samples), with the
    reason.

        >>> import numpy as np
        >>> import robustfl_bench as rb
        >>> class Sorted(rb.Partition):
        ...     def __call__(self, labels, num_clients, rng):
        ...         return np.array_split(labels.argsort(kind="stable"), num_clients)
        >>> [samples.tolist() for samples in Sorted()(np.array([1, 0, 1, 0]), 2, np.random.default_rng(0))]
        [[1, 3], [0, 2]]
    """

    abilities: ClassVar[Table] = {"exempt": Ability(counts="never")}

    by_owner: bool = False
    exempt: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @abstractmethod
    def __call__(self, labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Disjoint index arrays, one per client; ``labels`` is (N,) int64. Raises ConfigError if there is no such
        split."""
