"""The best of several models for each client, without computing every loss in every round.

These losses are half the work of clustered linear regression. But a client with a clear best model keeps it until the
models have moved far enough for another one to be as good.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

ROUNDING = 1e-5  # error of a float32 root mean squared error, relative to the sizes of its terms


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
