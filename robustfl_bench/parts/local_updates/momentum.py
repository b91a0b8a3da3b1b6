"""Client momentum (Karimireddy, He, Jaggi, ICML 2021, https://arxiv.org/abs/2012.10333)."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.abilities import passes_on
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import between
from robustfl_bench.numerics.network.client_rows import ClientRows
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Samples
from robustfl_bench.parts.local_updates.base import LocalUpdate


@passes_on("inner")
@dataclass(frozen=True)
class Momentum(LocalUpdate):
    """A client sends m <- beta m + (1 - beta) g, where ``inner`` computes g; the first time, it sends g itself.

    This is the momentum of PyTorch's SGD with ``dampening`` = ``beta``. A weight decay of ``inner`` is part of g. With
    ``beta`` 0, the client sends g.

    A client that does not take part in a round keeps its m unchanged. Byzantine clients that train on their own data
    have momentum as well. With several models, a client has one m for each. The server's updates, and an attacker's
    updates from models other than the received one, are g, as no m is stored for them. The state is one vector for each
    client that has taken part.

    Code: the authors send m / (1 - beta), so that their learning rate is smaller and their clipping radius larger by
    that factor. They and ByzFL start from m = 0, which slows the first 1 / (1 - beta) rounds or so.
    """

    inner: LocalUpdate
    """the local update whose results are averaged over rounds"""
    beta: Annotated[float, between(0, 1)] = 0.9
    """share of the last momentum in the next one; 0: none"""

    def __post_init__(self) -> None:
        if isinstance(self.inner, Momentum):
            raise ConfigError("local_update=momentum goes around another local update; raise beta for more momentum")

    @property
    def remembered(self) -> int:
        """One vector for each client, and the vectors of ``inner``."""
        return 1 + self.inner.remembered

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) with the momenta of the chosen clients; returns the losses of ``inner``."""
        losses, clients = self.inner(network, params, samples, lr, out), samples.clients
        momenta = ClientRows(samples.memory, "momenta", len(samples.population))
        new = momenta.missing(clients)
        if (block := momenta.block(clients)) is not None:
            out.copy_(block.lerp_(out, 1 - self.beta))
        else:
            for position, own in momenta.vectors(clients):
                out[position] = own.lerp_(out[position], 1 - self.beta)
        if new:
            momenta.add([clients[i] for i in new], out[new])
        return losses
