"""FLDetector: removes clients whose updates are not what their last ones predict (Zhang, Cao, Jia, Gong, KDD 2022).

"FLDetector: defending federated learning against model poisoning attacks via detecting malicious clients",
https://arxiv.org/abs/2207.09209.
"""

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustfl_bench.base.abilities import passes_on
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics.gram_space import Array
from robustfl_bench.numerics.spectra import hessian_product
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView

NEEDS_CLIENTS = "fldetector must know whose updates it gets; set pre_aggregation=none"
OF_RULE = "rule_"  # before the names in the memory of the rule for the clients that are left
REFERENCES = 10  # uniform samples to which the Gap statistic compares the scores, as in the authors' code


@passes_on("rule")
@dataclass(frozen=True)
class FlDetector(Aggregator):
    """``rule`` applied to the clients that are left, once those with inconsistent updates are detected and removed.

    A client's update x_i is predicted as its last one x_i' plus ``H (w - w')``: w - w' is the model's last step and H
    the estimate of the Hessian that L-BFGS makes of the last ``window`` steps and changes of the aggregate. Its share
    of a round is ``d_i / sum of d_j`` with ``d_i = |x_i - x_i' - H (w - w')|``, and its score the mean of its shares in
    the last ``window`` rounds. Scores therefore exist from round 2 ``window`` + 1 on. When the Gap statistic finds more
    than one group among the scores, the clients in the upper one of two groups (k-means) are removed for good, and the
    search ends. Groups are those of least sum of squares, found exactly.

    A client that was absent from the last round gets no share of this round; one without a share in the window is
    not judged. If all participants have been removed, the model does not change. The rule stores a vector for each
    client until it detects some. Once it has removed clients, its guarantees are those of ``rule`` for the others.

    A removed client never comes back, honest or not: the definition has no appeal, and under label skew the upper group
    can hold honest clients alone. ``honest_dropped`` in ``metrics.csv`` counts them.

    Training goes on from the same model. The abstract says that detected clients are removed, not what follows.

    Code: the Gap statistic has the logarithm of the mean spread of the uniform samples, as in the authors' code; its
    definition has the mean of the logarithms. That code starts after 50 rounds without attack, and prints scores but
    removes nobody.
    """

    rule: Aggregator
    """the rule for the clients that are left"""
    window: Annotated[int, at_least(1)] = 10
    """N: rounds that the estimate of the Hessian and the scores look back"""

    @property
    def whole_matrices(self) -> int:  # type: ignore[override]
        """The last updates of all clients, before and after the round, and their distances from the predictions."""
        return 3 + self.rule.whole_matrices

    def check(self, n: int) -> None:
        """Raise ConfigError if n clients are too few for the rule."""
        self.rule.check(n)

    def check_mixed(self, n: int) -> None:
        """Raise ConfigError: the rule judges clients."""
        raise ConfigError(NEEDS_CLIENTS)

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        if server.clients is None:
            raise ConfigError(NEEDS_CLIENTS)
        own = {name: kept for name, kept in server.memory.items() if not name.startswith(OF_RULE)}
        memory = {name: _for_all(name, kept, len(server.counts)) for name, kept in own.items()}
        if "removed" not in memory:
            memory = self._watched(memory, updates, server, server.clients)
        left = torch.ones_like(server.clients, dtype=torch.bool)
        if "removed" in memory:
            left = ~memory["removed"][server.clients]
        aggregate = self._of_those(left, updates, server)
        if "removed" not in memory:
            memory |= self._pair(memory, aggregate.vector, server) | {"params": server.params}
        return replace(aggregate, memory=memory | (aggregate.memory or {}))

    def _watched(
        self, memory: dict[str, Tensor], updates: Updates, server: ServerView, clients: Tensor
    ) -> dict[str, Tensor]:
        """The memory after the shares of this round are known: ``removed`` (N,) alone if there was a detection."""
        rows = updates.columns
        if "last" not in memory:
            memory |= {"last": rows.new_zeros(len(server.counts), rows.shape[1])}
            memory |= {"sent": torch.zeros(len(server.counts), dtype=torch.bool, device=rows.device)}
            memory |= {"shares": updates.counts.new_empty(0, len(server.counts))}
        if len(memory.get("steps", ())) == self.window:
            shares = self._shares(memory, updates, server, clients)
            memory["shares"] = torch.cat([memory["shares"], shares[None]])[-self.window :]
        if len(memory["shares"]) == self.window:
            scores = memory["shares"].nanmean(dim=0).cpu().numpy()
            judged = np.isfinite(scores)
            suspected = np.zeros(len(scores), dtype=bool)
            suspected[judged] = suspects(scores[judged], server.rng)
            if suspected.any():
                return {"removed": torch.from_numpy(suspected).to(rows.device)}
        last, most = memory["last"].clone(), torch.finfo(rows.dtype).max
        last[clients] = rows.clamp(-most, most)
        sent = torch.zeros_like(memory["sent"])
        sent[clients] = True
        return memory | {"last": last, "sent": sent}

    def _shares(self, memory: Mapping[str, Tensor], updates: Updates, server: ServerView, clients: Tensor) -> Tensor:
        """The shares (N,) of the clients in the distances from the predictions, nan for those without."""
        step = server.params - memory["params"]
        change = hessian_product(updates.like(torch.cat([memory["steps"], memory["changes"], step[None]])))
        # Of a quarter of everything, because a sum of three numbers can leave the range of float32.
        missed = (updates.columns / 4).sub_(memory["last"][clients], alpha=0.25).sub_(change, alpha=0.25)
        distances, known = updates.like(missed).norms, memory["sent"][clients]
        total = distances[known].sum()
        shares = distances.new_full((len(server.counts),), math.nan)
        shares[clients[known]] = distances[known] / (total if total > 0 else 1)
        return shares

    def _pair(self, memory: Mapping[str, Tensor], vector: Tensor, server: ServerView) -> dict[str, Tensor]:
        """The last steps and the changes of the aggregate, (k, d) each with k <= ``window``, with those of this
        round."""
        if server.previous is None or "params" not in memory:
            return {}
        most = torch.finfo(vector.dtype).max
        ends = {"steps": server.params - memory["params"], "changes": vector - server.previous}
        return {
            name: torch.cat([memory.get(name, end[:0].new_empty(0, len(end))), end.clamp(-most, most)[None]])[
                -self.window :
            ]
            for name, end in ends.items()
        }

    def _of_those(self, left: Tensor, updates: Updates, server: ServerView) -> Aggregate:
        """The aggregate of the clients that are ``left`` (n,) bool; its memory is under the names of the rule's."""
        if not left.any():
            kept = {name: kept for name, kept in server.memory.items() if name.startswith(OF_RULE)}
            return replace(updates.combine(torch.zeros_like(updates.counts)), memory=kept)
        view = copy(server)  # shares the values computed so far
        view.memory = {name[len(OF_RULE) :]: kept for name, kept in server.memory.items() if name.startswith(OF_RULE)}
        if not left.all():
            assert server.clients is not None
            updates, view.clients = updates.of_clients(left), server.clients[left]
        found = self.rule(updates, view)
        accepted, weights = left.clone(), found.weights
        if found.accepted is not None:
            accepted[left] = found.accepted
        elif weights is not None:
            accepted[left] = weights != 0
        if weights is not None:
            weights = weights.new_zeros(len(left)).masked_scatter(left, weights)
        memory = {OF_RULE + name: kept for name, kept in (found.memory or {}).items()}
        return Aggregate(found.vector, weights, accepted, memory)


def _for_all(name: str, kept: Tensor, clients: int) -> Tensor:
    """What is kept of every client, with room for those that another framework's server has met since: they have sent
    nothing, are not removed, and have no shares."""
    if name == "shares":
        return torch.nn.functional.pad(kept, (0, clients - kept.shape[1]), value=math.nan)
    if name not in ("last", "sent", "removed"):
        return kept
    return torch.cat([kept, kept.new_zeros(clients - len(kept), *kept.shape[1:])])


def suspects(scores: Array, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which clients are suspected by their scores (n,): the upper one of two groups if the Gap statistic finds more
    than one group, else none (Tibshirani, Walther, Hastie, JRSS B 2001)."""
    least, most = (float(scores.min()), float(scores.max())) if len(scores) > 2 else (0.0, 0.0)
    if not least < most:
        return np.zeros(len(scores), dtype=bool)
    scaled = (scores - least) / (most - least)
    alone, apart, border = _spreads(scaled)
    uniform = np.array([_spreads(row)[:2] for row in rng.random((REFERENCES, len(scores)))])
    gap_of_one, gap_of_two = np.log(uniform.mean(axis=0)) - np.log(np.maximum([alone, apart], np.finfo(float).tiny))
    error = math.sqrt(1 + 1 / REFERENCES) * np.log(uniform[:, 1]).std()
    groups: NDArray[np.bool_] = scaled > (border if gap_of_one < gap_of_two - error else 1)
    return groups


def _spreads(values: Array) -> tuple[float, float, float]:
    """Sums of squared distances of ``values`` (n,) from their mean and, in the best two groups, from the groups' means;
    and the largest value in the lower group."""
    ordered = np.sort(values)
    sizes = np.arange(1, len(ordered) + 1)
    below = (ordered**2).cumsum() - ordered.cumsum() ** 2 / sizes
    turned = ordered[::-1]
    above = ((turned**2).cumsum() - turned.cumsum() ** 2 / sizes)[::-1]
    both = (below[:-1] + above[1:]).clip(min=0)
    best = int(both.argmin())
    return float(below[-1]), float(both[best]), float(ordered[best])
