"""The base class of models."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.abilities import Part

if TYPE_CHECKING:
    from torch import nn


class Model(Part):
    """Creates the network for a given input shape.

    ``reads`` is the ``content`` of the data sets that the model accepts. A model of words is also called with the word
    ``vectors`` (V, e).
    """

    reads: str = "numbers"

    @abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> nn.Module:
        """The module for ``input_shape`` and ``num_classes``, with PyTorch's default initialisation, drawn from torch's
        global generator, which the caller seeds."""
