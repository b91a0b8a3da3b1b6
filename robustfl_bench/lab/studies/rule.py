"""A rule behind its pre-aggregation, as a function of matrices of updates; many attacks are answered at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.lab.studies.inputs import MakeServer
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView
from robustfl_bench.parts.pre_aggregations.base import PreAggregation
from robustfl_bench.train.parts import check_clients


class AttackersFirst(Questions):
    """Questions whose updates begin with those of the attackers.

    Rules break ties by order, and kappa is the worst over all orders: attackers who come first win ties.
    """

    def split(self) -> list[Questions]:
        return [AttackersFirst(some.honest, some.rows, some.counts) for some in super().split()]

    def matrix(self, number: int) -> Tensor:
        if self._storage is None:
            self._storage = self.honest.matrix.new_empty(self.n, self.d)
            self._storage[self.attackers :] = self.honest.matrix
        self._storage[: self.attackers] = self.rows[number]
        return self._storage

    def joint_grams(self, vectors: Tensor) -> Tensor:
        order = torch.arange(self.n + len(vectors))
        order[: self.n] = order[: self.n].roll(self.attackers)
        return super().joint_grams(vectors)[:, order[:, None], order]

    def combine_alike(self, weights: Tensor) -> Tensor:
        return super().combine_alike(weights.roll(-self.attackers))


@dataclass(frozen=True)
class Rule:
    """The aggregate of n updates, computed in float32 with the same random draws each time.

    Raises ConfigError, when it is made, if n are too few.
    """

    aggregator: Aggregator
    preparation: PreAggregation | None
    server: MakeServer
    n: int

    def __post_init__(self) -> None:
        check_clients(self.aggregator, self.preparation, self.n)

    def __call__(self, updates: np.ndarray) -> np.ndarray:
        """The aggregate (d,) of updates (n, d)."""
        rows, view = Updates(torch.from_numpy(updates).float()), self._view(updates.shape[1])
        if self.preparation is not None:
            rows, view.clients = self.preparation(rows, np.random.default_rng(0)), None
        vector: Tensor = self.aggregator(rows, view).vector
        return vector.double().numpy()

    def against(self, honest: np.ndarray, attacks: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
        """The aggregates (k, d) of the rows (n - h, d) of each of k attacks, followed by the honest updates (h, d).

        A rule without pre-aggregation answers attacks together, by ``aggregate_many``, and so up to rounding: those
        whose attackers all send the same, and the others.
        """
        answers, shared = np.empty((len(attacks), honest.shape[1])), Updates(torch.from_numpy(honest).float())
        alike = np.array([bool((rows == rows[:1]).all()) for rows in attacks])
        for members, sent in ((np.flatnonzero(alike), 1), (np.flatnonzero(~alike), self.n - len(honest))):
            if self.preparation is None and len(members) > 1:
                candidates = torch.from_numpy(np.stack([attacks[i][:sent] for i in members.tolist()])).float()
                answers[members] = self._together(shared, candidates)
                continue
            for i in members.tolist():
                answers[i] = self(np.concatenate([attacks[i], honest]))
        return answers

    def _together(self, honest: Updates, candidates: Tensor) -> np.ndarray:
        """The aggregates (k, d) for candidates (k, 1 or n - h, d)."""
        questions = AttackersFirst(honest, candidates, honest.counts.new_ones(self.n))
        many = self.aggregator.aggregate_many
        return torch.cat([many(some, lambda: self._view(honest.d)) for some in questions.split()]).double().numpy()

    def _view(self, d: int) -> ServerView:
        view = self.server(self.aggregator, self.n, d)
        view.rng = np.random.default_rng(0)
        return view
