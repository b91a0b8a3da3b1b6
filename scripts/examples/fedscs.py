"""FedSCS, Federated Learning with Stable Cosine Similarity (Haque and Markopoulos, IEEE ICCST 2025), as in the pull
request https://github.com/NVIDIA/NVFlare/pull/5240 (its ``FedSCSAggregator``); an example of a contributed rule.

    robustfl-bench judge fedscs:FedScs
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch

from robustfl_bench import Aggregate, Aggregator, Option, ServerView, Updates


@dataclass(frozen=True)
class FedScs(Aggregator):
    """The mean of clipped updates, weighted by the cosine to the sum of all others and by how steady it is.

    The score of an update is its cosine, or 0 if that is negative, times ``1 - |s - p| / max(s, p)``, where s is the
    cosine and p the client's score of the round before; a new client is steady. Weights are proportional to scores, and
    equal if all scores are 0. Sample counts are not used.
    """

    exempt: ClassVar = {
        "unanimous": "updates are clipped to a fixed length",
        "scale": "updates are clipped to a fixed length",
        "translation": "lengths and angles are measured from zero",
    }

    max_update_norm: Annotated[float, Option(0, ends="(]")] = 10.0
    """length to which longer updates are scaled down"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        norms = updates.norms.double()
        factors = (self.max_update_norm / norms.clamp(min=1e-300)).clamp(max=1)
        gram = updates.gram * factors[:, None] * factors[None, :]
        total = gram.sum()
        to_others = gram.sum(dim=1) - gram.diagonal()
        of_others = (total - 2 * gram.sum(dim=1) + gram.diagonal()).clamp(min=0).sqrt()
        lengths = norms * factors
        near = (lengths > 1e-12) & (of_others > 1e-12)
        cosines = torch.where(near, to_others / (lengths * of_others).clamp(min=1e-300), 0.0).clamp(0, 1)
        before = self._before(cosines, server)
        larger = torch.maximum(cosines, before)
        steady = torch.where(larger > 1e-12, 1 - (cosines - before).abs() / larger.clamp(min=1e-12), 1.0).clamp(0, 1)
        scores = cosines * steady
        shares = scores / scores.sum() if scores.sum() > 1e-12 else torch.full_like(scores, 1 / updates.n)
        aggregate = updates.combine(shares * factors)
        return Aggregate(aggregate.vector, aggregate.weights, memory=self._memory(scores, server))

    @staticmethod
    def _before(cosines: torch.Tensor, server: ServerView) -> torch.Tensor:
        """The clients' scores of the round before; of a client without one, its present cosine."""
        if "scores" not in server.memory or server.clients is None:
            return cosines
        kept = server.memory["scores"].to(cosines)[server.clients]
        return torch.where(kept.isnan(), cosines, kept)

    @staticmethod
    def _memory(scores: torch.Tensor, server: ServerView) -> dict[str, torch.Tensor]:
        """The scores by client, nan for a client that did not take part: only the round before counts."""
        if server.clients is None:
            return {}
        kept = torch.full((len(server.counts),), torch.nan, dtype=torch.float64)
        kept[server.clients.cpu()] = scores.cpu()
        return {"scores": kept}
