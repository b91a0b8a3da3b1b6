"""ARFL: auto-weighted robust federated learning (Li, Ngai, Ye, Voigt, ACM TECS 2022,
https://arxiv.org/abs/2101.05880)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import between, one_of
from robustfl_bench.numerics.sample_weights import penalised_weights
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView

NEEDS_CLIENTS = "arfl needs the update of every client by itself; set pre_aggregation=none"


@dataclass(frozen=True)
class Arfl(Aggregator):
    """Mean of the updates, weighted by training losses: clients with much larger losses than the best get weight 0.

    The weights of all N clients minimise ``sum a_i L_i + lambda / 2 sum a_i^2 / m_i`` over the simplex (Eq. 6), where
    L_i is the last loss that client i reported and m_i its number of samples. The weights of the participating clients
    are rescaled to sum to 1. ``regularization`` is lambda / M, where M is the number of all samples; the paper uses 1
    under corruption and 10000 on clean data.

    In the first round clients are weighted by their samples, and all clients report their loss at the initial model.
    Later, participating clients report their loss at the model that ``loss_at`` names. A client with a non-finite loss
    gets weight 0. If all participating clients have weight 0, the model does not change.

    The rule trusts the reported losses and is not robust to clients that report false ones (section 6).

    Code: if all participating clients have weight 0, the authors draw other clients.
    """

    exempt: ClassVar[Mapping[str, str]] = {"robust": "it judges clients by the losses they report"}

    regularization: Annotated[float, between(1e-9, 1e12)] = 1.0
    """lambda / M: towards 0 only the best client counts, towards infinity the rule is FedAvg"""
    loss_at: Annotated[str, one_of(aggregated="the new one, as in the authors' code", received="as in Algorithm 1")] = (
        "aggregated"
    )
    """the model at which clients evaluate their losses"""

    def check_mixed(self, n: int) -> None:
        """Raise ConfigError: the rule weights clients."""
        raise ConfigError(NEEDS_CLIENTS)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        clients, counts = server.clients, server.counts
        if clients is None:
            raise ConfigError(NEEDS_CLIENTS)
        if "losses" in server.memory:
            losses = server.memory["losses"].clone()
            found = penalised_weights(
                losses.cpu().numpy(), counts.cpu().numpy(), self.regularization * float(counts.sum())
            )
            weights = torch.from_numpy(found).to(counts)
        else:
            losses, weights = server.losses_of(server.params, torch.arange(len(counts))), counts
        shares = weights[clients]
        if shares.any():
            shares = shares / shares.sum()
        aggregate = updates.combine(shares)
        model = server.after(aggregate.vector) if self.loss_at == "aggregated" else server.params
        losses[clients] = server.losses_of(model, clients)
        return replace(aggregate, memory={"losses": losses})
