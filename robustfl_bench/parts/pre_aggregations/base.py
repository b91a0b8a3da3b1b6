"""The base class of pre-aggregations."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from robustfl_bench.base.abilities import Ability, Part, Table

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from robustfl_bench.numerics.updates import Updates

    Matrix = TypeVar("Matrix", np.ndarray, Tensor)


class PreAggregation(Part):
    """Transforms the updates before the rule; all known pre-aggregations are linear in the updates.

    ``square_matrices`` is the most (n, n) float64 matrices that it holds at once.

        >>> import numpy as np
        >>> import robustfl_bench as rb
        >>> rb.Nnm(num_byzantine=1)(np.array([[0.0], [2.0], [4.0], [101.0]])).round(2)  # means of the nearest three
        array([[ 2.  ],
               [ 2.  ],
               [ 2.  ],
               [35.67]])
    """

    abilities: ClassVar[Table] = {"square_matrices": Ability(counts="never")}

    square_matrices: ClassVar[int] = 0

    def check(self, n: int) -> None:
        """Raise ConfigError if n clients are too few; called before any data are loaded."""

    def num_made(self, n: int) -> int:
        """The number of updates that it makes of n; by default n."""
        return n

    @abstractmethod
    def prepare(self, updates: Updates, rng: np.random.Generator) -> Updates:
        """The updates for the rule; most pre-aggregations return ``updates.mix(mixing)``."""

    @overload
    def __call__(self, updates: Updates, rng: np.random.Generator) -> Updates: ...

    @overload
    def __call__(self, updates: Matrix, rng: int | np.random.Generator = 0) -> Matrix: ...

    def __call__(self, updates: Any, rng: Any = 0) -> Any:
        """The prepared updates; for a bare matrix (n, d), a matrix (n', d) of the same kind and dtype.

        The matrix is a NumPy array or a torch tensor, one update per row. ``rng`` is a generator or a seed.
        """
        from robustfl_bench.numerics.updates import Updates

        if isinstance(updates, Updates):
            return self.prepare(updates, rng)
        import numpy as np

        from robustfl_bench.numerics import arrays

        rows, written = arrays.read(updates)
        self.check(len(rows))
        return written(self.prepare(Updates(rows), np.random.default_rng(rng)).matrix)
