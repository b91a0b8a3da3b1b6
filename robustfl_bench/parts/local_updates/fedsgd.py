"""FedSGD: one gradient per round (McMahan et al., AISTATS 2017, section 2, https://arxiv.org/abs/1602.05629)."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Samples
from robustfl_bench.parts.local_updates.base import LocalUpdate


@dataclass(frozen=True)
class FedSgd(LocalUpdate):
    """A client sends the gradient of its mean loss over its batch, by default its whole local set."""

    sends_a_gradient = True

    weight_decay: Annotated[float | None, at_least(0)] = None
    """multiple of the parameters that is added to the gradient, as in PyTorch's SGD; null: no decay"""

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) for the chosen clients; returns their mean losses (n,) at ``params``."""
        losses = network.gradients(params, samples.batch(0), out)
        if self.weight_decay:
            out.add_(params, alpha=self.weight_decay)
        return losses
