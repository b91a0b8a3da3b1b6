"""What a federation sees of its clients: their own samples, or those of other clients, under another attack."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from robustfl_bench.numerics.network.samples import Population
from robustfl_bench.parts.attacks.base import Attack
from robustfl_bench.train.clients import Clients


@dataclass(frozen=True)
class View:
    """The clients as they are."""

    def honest(self, clients: Clients) -> Population:
        """The honest clients' samples."""
        return clients.honest

    def counts(self, clients: Clients) -> Tensor:
        """The sample counts (N,) float64 that all clients report."""
        return clients.counts

    def byzantine(self, clients: Clients, attack: Attack) -> Population:
        """The Byzantine clients' own samples, poisoned by the attack."""
        return clients.poisoned(clients.byzantine_ids, attack)


AS_THEY_ARE = View()


@dataclass(frozen=True)
class UnderAttack(View):
    """The clients under one of the attacks of a plan, whose poisoned samples are kept."""

    def byzantine(self, clients: Clients, attack: Attack) -> Population:
        if attack not in clients.poisonings:
            clients.poisonings[attack] = super().byzantine(clients, attack)
        return clients.poisonings[attack]


@dataclass(frozen=True)
class Blind(UnderAttack):
    """The clients as attackers with ``knowledge=own`` suppose them: with the attackers' samples, cyclically."""

    def honest(self, clients: Clients) -> Population:
        return clients.unpoisoned(self._supposed(clients))

    def counts(self, clients: Clients) -> Tensor:
        counts = clients.counts.clone()
        counts[clients.honest_ids] = counts[self._supposed(clients)]
        return counts

    def _supposed(self, clients: Clients) -> np.ndarray:
        return np.resize(clients.byzantine_ids, len(clients.honest_ids))


@dataclass(frozen=True)
class Relabelled(View):
    """The clients with other labels of the attackers' own samples: ``choose`` maps the outputs (N, c) of the model
    ``params`` (d,) for these samples to the labels (N,)."""

    params: Tensor
    choose: Callable[[Tensor], Tensor]

    def byzantine(self, clients: Clients, attack: Attack) -> Population:
        relabelled = copy(clients.byzantine_clean)
        relabelled.y = self.choose(clients.network.outputs_for(self.params, relabelled.x)).to(relabelled.y)
        return relabelled
