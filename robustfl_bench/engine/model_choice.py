"""Which of several models suits each client best, round after round, without computing every loss in every round.

These losses are half the work of clustered linear regression. But a client whose best model was clearly the best stays
with it until the models have moved far enough for another one to be as good.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

ROUNDING = 1e-5  # how wrong a float32 root mean squared error may be, relative to what it is made of


class ModelChoice:
    """The models of least squared error of clients, for linear models that move from call to call.

    When a model moves by v, a client's root mean squared error changes by at most its slope times |v|. A client is
    asked again when, by this bound, another model may have become the better one. Where a client's two best models then
    differ by no more than rounding, everybody is asked, as if there were no such bound: so the choices are, to the last
    one, those of asking everybody in every call.

    ``losses`` maps models (k, d) and clients to their mean squared errors (n, k) float64. ``slopes`` (N,) are not less
    than the spectral norms of the clients' inputs over the square roots of their numbers; ``sizes`` (N,) are the root
    mean squares of their targets.
    """

    def __init__(self, losses: Callable[[Tensor, Sequence[int]], Tensor], slopes: Tensor, sizes: Tensor) -> None:
        self._losses, self._slopes, self._sizes = losses, slopes, sizes
        self._models: Tensor | None = None

    def __call__(self, params: Tensor, clients: Sequence[int]) -> Tensor:
        """The choices (n,) of these clients among ``params`` (k, d)."""
        models, who = params.double(), torch.tensor(clients, dtype=torch.int64, device=params.device)
        if self._models is None:
            self._models = models
            self._roots = models.new_zeros(len(self._slopes), len(models))  # as they were when the client was asked
            self._moves = torch.full_like(self._roots, torch.inf)  # and by how much they may have changed since
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
        self._moves[clients] = torch.zeros_like(roots).masked_fill_(roots.isinf(), torch.inf)  # nothing to go by

    def _margins(self) -> Tensor:
        """By how much every client's choice is better than its next best model at least, (N,); may be nan."""
        chosen = self._roots.argmin(dim=1, keepdim=True)
        worst = (self._roots + self._moves).gather(1, chosen).squeeze(1)
        return (self._roots - self._moves).scatter(1, chosen, torch.inf).amin(dim=1) - worst
