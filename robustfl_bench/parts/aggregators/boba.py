"""BOBA: robust under label skew, because honest updates lie near a simplex with one corner per class.

Bao, Wu, He, AISTATS 2024, https://arxiv.org/abs/2208.12932.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Flag, at_least, between, one_of
from robustfl_bench.numerics.gram_space import Array, Subspace, fit_subspace
from robustfl_bench.numerics.gram_stacks import Subspaces, fit_subspaces
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.selection import num_kept
from robustfl_bench.numerics.updates import Aggregate, Updates, all_finite
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView

MAX_SUBSETS = 100_000


@dataclass(frozen=True)
class Boba(Aggregator):
    """Mean of the accepted updates' projections onto a (c - 1)-dimensional affine subspace, with c classes.

    Stage 1 seeks the subspace, with projection P, and n - f clients of least ``sum of |x_i - P(x_i)|^2``, by the method
    ``fit``. ``alternating`` starts from the subspace of the server's class updates and alternates between the n - f
    nearest clients and the best subspace for them, until these clients do not change or for ``max_iter`` fits;
    ``exhaustive`` (BOBA-ES) tries all subsets of n - f clients; ``server`` keeps the server's subspace (no stage 1).
    Stage 2 (``stage2``) writes every client's projection as an affine combination of the projected class updates u_k,
    ``P(x_i) = sum_k p_ik P(u_k)`` with ``sum_k p_ik = 1``. It accepts the clients with ``min_k p_ik >= p_min``, or, if
    fewer than n - f pass, the n - f clients with the largest minimum. All n clients are candidates, including those
    that stage 1 left out. ``weights`` are the coefficients of the clients that span the subspace (none for
    ``fit=server``), ``accepted`` are the clients that passed stage 2. Everything is computed from inner products, in
    float64.
    """

    num_byzantine: Annotated[int, at_least(0)]
    """f: the subspace is fitted to n - f clients; at least as many are accepted"""
    p_min: Annotated[float, between(-math.inf, 0)] = -0.5
    """least accepted coefficient of a label distribution; 0: none is negative"""
    fit: Annotated[str, one_of("alternating", exhaustive="boba_es", server="boba_wo_stage1")] = "alternating"
    """method of stage 1"""
    max_iter: Annotated[int, at_least(1)] = 10
    """maximum number of fits in the alternation"""
    es_subspace: Annotated[str, one_of(best="paper", last="the last one tried, as in the authors' code")] = "best"
    """for fit=exhaustive, the subset of clients to use"""
    stage2: Flag = True
    """false: no client is rejected (boba_wo_stage2)"""

    @property
    def exempt(self) -> Mapping[str, str]:  # type: ignore[override]
        """The promises that the ablations do not make."""
        if self.fit == "server":
            return {"unanimous": "it projects onto the server's subspace"}
        return {} if self.stage2 else {"robust": "projections of wild clients are averaged"}

    def check(self, n: int) -> None:
        """Raise ConfigError if f leaves no client, or if an exhaustive search would be too long."""
        subsets = math.comb(n, num_kept("BOBA", n, self.num_byzantine))
        if self.fit == "exhaustive" and subsets > MAX_SUBSETS:
            raise ConfigError(
                f"BOBA-ES would fit {subsets:.3g} subspaces a round (limit {MAX_SUBSETS}), got n={n}, "
                f"f={self.num_byzantine}; use aggregator=boba or fewer clients"
            )

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        self.check(updates.n)
        n = updates.n
        gram = updates.joint_gram(server.class_updates).cpu().numpy()
        subspace = self._subspace(gram, n)
        coordinates = subspace.coordinates(gram)
        clients, classes = coordinates[:n], coordinates[n:]
        accepted = self._accepted(clients, classes) if self.stage2 else np.ones(n, dtype=bool)
        coefficients = torch.from_numpy(subspace.origin + subspace.axes @ clients[accepted].mean(axis=0))
        coefficients, passed = coefficients.to(updates.device), torch.from_numpy(accepted).to(updates.device)
        if self.fit == "server":
            served = server.class_updates
            vector = coefficients[n:].to(served.dtype) @ served
            if not all_finite(vector):  # coefficients or sums leave float32's range
                vector = (coefficients[n:] @ served.double()).to(served.dtype)
            return replace(updates.combine(torch.zeros_like(updates.counts), passed), vector=vector, weights=None)
        return updates.combine(coefficients[:n], passed)

    def aggregate_many(self, questions: Questions, server: Callable[[], ServerView]) -> Tensor:
        if self.fit != "alternating":
            return super().aggregate_many(questions, server)
        self.check(questions.n)
        n = questions.n
        grams = questions.joint_grams(server().class_updates).cpu().numpy()
        subspaces = self._subspaces(grams, n)
        coordinates = subspaces.coordinates(grams)
        accepted = self._accepted(coordinates[:, :n], coordinates[:, n:]) if self.stage2 else np.ones((len(grams), n))
        means = (accepted[:, None] @ coordinates[:, :n])[:, 0] / accepted.sum(axis=1, keepdims=True)
        coefficients = subspaces.origins + (subspaces.axes @ means[:, :, None])[:, :, 0]
        return questions.combine(torch.from_numpy(coefficients[:, :n]).to(questions.rows.device))

    def trimmed_loss(self, updates: Updates, server: ServerView) -> float:
        """The objective of stage 1: the sum of the n - f smallest squared distances of clients from the subspace."""
        gram = updates.joint_gram(server.class_updates).cpu().numpy()
        return self._trimmed_loss(self._subspace(gram, updates.n), gram, updates.n)

    def _trimmed_loss(self, subspace: Subspace, gram: Array, n: int) -> float:
        return float(np.sort(subspace.sq_residuals(gram)[:n])[: n - self.num_byzantine].sum())

    def _subspace(self, gram: Array, n: int) -> Subspace:
        """Stage 1; ``gram`` holds the n clients, then the classes."""
        kept, dim = n - self.num_byzantine, len(gram) - n - 1
        if self.fit == "exhaustive":
            if self.es_subspace == "last":
                return fit_subspace(gram, np.arange(self.num_byzantine, n), dim)
            fits = (fit_subspace(gram, np.array(subset), dim) for subset in combinations(range(n), kept))
            return min(fits, key=lambda subspace: self._trimmed_loss(subspace, gram, n))
        subspace = fit_subspace(gram, np.arange(n, len(gram)), dim)
        nearest = np.empty(0, dtype=np.intp)
        for _ in range(self.max_iter if self.fit == "alternating" else 0):
            previous, nearest = nearest, np.sort(subspace.sq_residuals(gram)[:n].argsort(kind="stable")[:kept])
            if np.array_equal(nearest, previous):
                break
            subspace = fit_subspace(gram, nearest, dim)
        return subspace

    def _subspaces(self, grams: Array, n: int) -> Subspaces:
        """Stage 1 by alternation, for several sets of clients beside the same classes."""
        kept, (k, p, _) = n - self.num_byzantine, grams.shape
        found = fit_subspaces(grams, np.tile(np.arange(n, p), (k, 1)), p - n - 1)
        nearest, changing = np.full((k, kept), -1), np.arange(k)
        for _ in range(self.max_iter):
            some = Subspaces(found.origins[changing], found.axes[changing])
            residuals = some.sq_residuals(grams[changing])[:, :n]
            members = np.sort(residuals.argsort(axis=1, kind="stable")[:, :kept], axis=1)
            changed = (members != nearest[changing]).any(axis=1)
            changing, members = changing[changed], members[changed]
            if not len(changing):
                break
            nearest[changing] = members
            fitted = fit_subspaces(grams[changing], members, p - n - 1)
            found.origins[changing], found.axes[changing] = fitted.origins, fitted.axes
        return found

    def _accepted(self, clients: Array, classes: Array) -> np.ndarray:
        """Stage 2: the accepted clients, (..., n) bool, from coordinates of clients (..., n, r) and classes (..., c,
        r)."""
        scale = np.abs(classes).max(axis=(-2, -1), initial=0, keepdims=True)
        scale = np.where(scale > 0, scale, 1.0)  # makes the cut-off of the pseudo-inverse independent of units
        corners, points = (
            np.concatenate([rows / scale, np.ones((*rows.shape[:-1], 1))], axis=-1) for rows in (classes, clients)
        )
        # The paper inverts. Classes with equal projections make that singular; the pseudo-inverse shares equally.
        lowest = (points @ np.linalg.pinv(corners, rcond=1e-10)).min(axis=-1)
        best = (-lowest).argsort(axis=-1, kind="stable")[..., : lowest.shape[-1] - self.num_byzantine]
        among_best = np.zeros(lowest.shape, dtype=bool)
        np.put_along_axis(among_best, best, True, axis=-1)
        too_few = np.take_along_axis(lowest, best[..., -1:], axis=-1) <= self.p_min
        passes: np.ndarray = np.where(too_few, among_best, lowest >= self.p_min)
        return passes
