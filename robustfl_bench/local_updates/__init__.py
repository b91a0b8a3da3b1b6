"""What a client computes between receiving a model and sending an update."""

from typing import Protocol

from torch import Tensor

from robustfl_bench.engine.network import Network
from robustfl_bench.engine.samples import Samples


class LocalUpdate(Protocol):
    """What a client computes between receiving a model and sending its update.

    With an attribute ``sends_models`` that is true, clients send models: rules get the received model minus those as
    updates all the same, but attackers see and send models.
    """

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) with the updates of the clients of ``samples``, who start from ``params``
        (d,); returns their mean training losses (n,) float64 at ``params``."""

    def step_size(self, lr: float) -> float:
        """What the server multiplies the aggregate with before it subtracts it."""
