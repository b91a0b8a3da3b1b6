"""FedSGD: one gradient per round (McMahan et al., AISTATS 2017, section 2, https://arxiv.org/abs/1602.05629)."""

from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.engine.network import Network
from robustfl_bench.engine.samples import Samples
from robustfl_bench.interfaces import LocalUpdate


@dataclass(frozen=True)
class FedSgd(LocalUpdate):
    """A client sends the gradient of its mean loss over its batch, by default its whole local set."""

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) for the chosen clients; returns their mean losses (n,) at ``params``."""
        return network.gradients(params, samples.batch(0), out)
