"""What a federation sees of its clients: their own samples, or those of other clients, under another attack."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from robustfl_bench.base import seeding
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
    """The clients as attackers with ``knowledge=own`` suppose them in simulations."""

    def honest(self, clients: Clients) -> Population:
        return supposed_clients(clients, "supposed")

    def counts(self, clients: Clients) -> Tensor:
        counts = clients.counts.clone()
        counts[clients.honest_ids] = counts[np.resize(clients.byzantine_ids, len(clients.honest_ids))]
        return counts


def supposed_clients(clients: Clients, stream: str) -> Population:
    """The honest clients as attackers with ``knowledge=own`` suppose them: as unequal as the attackers are.

    Each supposed client is like one of the attackers, cyclically: it has as many samples, and the same shares of
    classes, but other classes, permuted at random. They are drawn with replacement from all samples of the attackers,
    by the random draws of a ``stream``. Exact copies of the attackers' samples would show them a rule that their
    disguises always pass.
    """
    if stream not in clients.supposed:
        like, data = np.resize(clients.byzantine_ids, len(clients.honest_ids)), clients.data
        rng = seeding.generator(clients.settings.seed, stream)
        shards = {i: clients.shards[i] for i in clients.byzantine_ids.tolist()}
        labels = np.zeros(len(data.train_y), dtype=np.int64) if clients.network.regression else clients.labels
        drawn = drawn_like([shards[i] for i in like.tolist()], np.concatenate([*shards.values()]), labels, rng)
        population = Population(data.train_x, data.train_y, drawn)
        clients.supposed[stream] = clients.corrupted(population, clients.parts.corruption, "corruption", like.tolist())
    return clients.supposed[stream]


def drawn_like(
    like: Sequence[np.ndarray], pool: np.ndarray, labels: np.ndarray, rng: np.random.Generator
) -> list[np.ndarray]:
    """Samples of a ``pool`` for one client ``like`` each of these: as many, with the same shares of classes, but the
    classes of the pool permuted, drawn with replacement. All are indices of samples, of ``labels`` (N,)."""
    by_class = {label: pool[labels[pool] == label] for label in np.unique(labels[pool]).tolist()}
    found = []
    for shard in like:
        others = dict(zip(by_class, rng.permutation([*by_class]).tolist(), strict=True))
        counts = zip(*np.unique(labels[shard], return_counts=True), strict=True)
        found.append(np.concatenate([rng.choice(by_class[others[int(label)]], count) for label, count in counts]))
    return found


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
