"""The models that clients choose from several: honest ones their best, without computing every loss in every round.

These losses are half the work of clustered linear regression. But a client with a clear best model keeps it until the
models have moved far enough for another one to be as good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from robustfl_bench.parts.attacks.base import Attack, ChoiceView
from robustfl_bench.parts.protocols.state import Cohort

if TYPE_CHECKING:
    from robustfl_bench.train.federation import Federation

ROUNDING = 1e-5  # error of a float32 root mean squared error, relative to the sizes of its terms


class Choice:
    """The models that the clients of a federation choose from several."""

    def __init__(self, federation: Federation) -> None:
        self._federation, self._clients = federation, federation.clients

    def __call__(self, present: Cohort, params: Tensor, round: int) -> Tensor:
        """The models (n,) that the clients of a round (from 1) choose from ``params`` (k, d), honest clients first."""
        federation, attackers = self._federation, present.byzantine
        honest = self._best(params, present.honest)
        if not attackers:
            return honest

        def own_losses(models: Tensor) -> Tensor:
            return self._clients.losses(federation.attackers_samples(round), attackers, models)

        view = ChoiceView(
            params=params,
            honest=honest,
            num_byzantine=len(attackers),
            own_losses=own_losses if federation.settings.byzantine_placement == "replace" else None,
        )
        attack = federation.parts.attack
        return torch.cat([honest, attack.choose(view) if attack.active(round) else Attack.choose(attack, view)])

    @cached_property
    def _best(self) -> Callable[[Tensor, Sequence[int]], Tensor]:
        """Maps models (k, d) and honest clients to their models of least loss (n,)."""
        clients, population = self._clients, self._federation.honest
        batch = population.batch(range(len(population)))
        slopes = clients.network.slopes(batch)

        def losses(params: Tensor, some: Sequence[int]) -> Tensor:
            return clients.losses(population, some, params)

        if slopes is None:
            return lambda params, some: losses(params, some).argmin(dim=1)
        sizes = torch.stack([y.double().square().mean().sqrt() for _, y in batch.clients()])
        return ModelChoice(losses, slopes, sizes)


class ModelChoice:
    """The clients' models of least squared error, for linear models that move from call to call.

    When a model moves by v, a client's root mean squared error changes by at most its slope times |v|. A client's
    losses are computed again if, by this bound, another model may have become the best. If a client's two best models
    then differ by no more than rounding, the losses of all clients are computed, as without the bound. So the choices
    always equal those of computing all losses in every call.

    ``losses`` maps models (k, d) and clients to their mean squared errors (n, k) float64. ``slopes`` (N,) are not less
    than the spectral norms of the clients' inputs over the square roots of their numbers; ``sizes`` (N,) are the root
    mean squares of their targets.
    """

    def __init__(self, losses: Callable[[Tensor, Sequence[int]], Tensor], slopes: Tensor, sizes: Tensor) -> None:
        self._losses, self._slopes, self._sizes = losses, slopes, sizes
        self._models: Tensor | None = None

    def __call__(self, params: Tensor, clients: Sequence[int]) -> Tensor:
        """The choices (n,) of these clients from ``params`` (k, d)."""
        models, who = params.double(), torch.tensor(clients, dtype=torch.int64, device=params.device)
        if self._models is None:
            self._models = models
            self._roots = models.new_zeros(len(self._slopes), len(models))  # as of the last computation for the client
            self._moves = torch.full_like(self._roots, torch.inf)  # bounds of their changes since
        self._moves += self._slopes[:, None] * torch.linalg.vector_norm(models - self._models, dim=1)
        self._models = models
        longest = torch.linalg.vector_norm(models, dim=1).nan_to_num(0, 0).max()
        rounding = ROUNDING * (self._sizes + self._slopes * longest)
        unsure = who[~(self._margins() > rounding)[who]]
        if len(unsure):
            self._ask(params, unsure)
            if not (self._margins() > rounding)[unsure].all():
                self._ask(params, who)
        return self._roots[who].argmin(dim=1)

    def _ask(self, params: Tensor, clients: Tensor) -> None:
        roots = self._losses(params, clients.tolist()).sqrt()
        self._roots[clients] = roots
        self._moves[clients] = torch.zeros_like(roots).masked_fill_(roots.isinf(), torch.inf)  # no bound

    def _margins(self) -> Tensor:
        """Lower bounds of the margin of every client's choice over its next best model, (N,); may be nan."""
        chosen = self._roots.argmin(dim=1, keepdim=True)
        worst = (self._roots + self._moves).gather(1, chosen).squeeze(1)
        return (self._roots - self._moves).scatter(1, chosen, torch.inf).amin(dim=1) - worst
