"""The base class of the server's optimizers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from robustfl_bench.base.abilities import Part

if TYPE_CHECKING:
    from torch import Tensor


class ServerOptimizer(Part):
    """The server's step from a model and its aggregate to the next model."""

    @abstractmethod
    def __call__(
        self, params: Tensor, aggregate: Tensor, step_size: float, memory: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The next parameters (d,), and the optimizer's new memory of this model.

        ``memory`` is the memory after the model's last step, empty at first.
        """
