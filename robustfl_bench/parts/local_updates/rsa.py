"""The clients' step of RSA (Li et al., AAAI 2019, arXiv 1811.03761): own models, tied to the server's model."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.network.client_rows import ClientRows
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Samples
from robustfl_bench.parts.local_updates.base import LocalUpdate


@dataclass(frozen=True)
class Rsa(LocalUpdate):
    """A client sends its own model and takes an SGD step on its loss plus ``penalty * |own - server's|_1``.

    The clients' models start as the server's first model. As published, the server and the clients step at the same
    time, each from the other's previous model. Use it with ``aggregator=rsa`` and the same penalty. Attackers see and
    send models. The state is one model for each client that has taken part, and the first model.
    """

    penalty: Annotated[float, at_least(0)] = 0.005
    """lambda ties a client's model to the server's; aggregator.penalty must be the same"""

    sends_models, remembered = True, 1

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        """Fill the rows of ``out`` (n, d) with ``params`` minus the clients' models; returns these models' losses
        (n,)."""
        memory, clients = samples.memory, samples.clients
        first = memory.setdefault("rsa_first", params.clone())
        models = ClientRows(memory, "rsa_models", len(samples.population))
        if new := models.missing(clients):
            models.add([clients[i] for i in new], first.repeat(len(new), 1))
        own, gradients = torch.stack([model for _, model in models.vectors(clients)]), torch.empty_like(out)
        losses = network.own_gradients(own, samples.batch(0), gradients)
        torch.sub(params, own, out=out)
        gradients.sub_(out.sign(), alpha=self.penalty)
        own.sub_(gradients, alpha=lr)
        for position, model in models.vectors(clients):
            model.copy_(own[position])
        return losses
