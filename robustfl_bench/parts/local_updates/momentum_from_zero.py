"""Client momentum that begins at 0, as in MoNNA (Farhadkhani et al., ICML 2023,
https://proceedings.mlr.press/v202/farhadkhani23a.html)."""

from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.numerics.network.client_rows import ClientRows
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Samples
from robustfl_bench.parts.local_updates.momentum import Momentum


@dataclass(frozen=True)
class MomentumFromZero(Momentum):
    """A client sends m <- beta m + (1 - beta) g, where ``inner`` computes g and the first m is 0.

    The first 1 / (1 - beta) rounds or so are slower than with ``momentum``, whose first m is g: after t rounds the
    coefficients of the gradients sum to 1 - beta^t. With a beta near 1 the other way repeats one noisy gradient for as
    many rounds. ``momentum`` has all else.
    """

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) with the momenta of the chosen clients; returns the losses of ``inner``."""
        momenta = ClientRows(samples.memory, "momenta", len(samples.population))
        if new := momenta.missing(samples.clients):
            momenta.add([samples.clients[i] for i in new], out.new_zeros(len(new), out.shape[1]))
        return super().__call__(network, params, samples, lr, out)
