"""The privacy of the honest clients' samples, if their updates are noisy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustfl_bench.train.metric import Metric

if TYPE_CHECKING:
    from robustfl_bench.train.evaluation import Evaluation


def _epsilon(evaluation: Evaluation) -> float | None:
    """That of the honest client with the fewest samples, if it has taken part in every round: no other has more.

    None with a clustering, as clients then also tell which model fits them.
    """
    federation = evaluation.federation
    noise = federation.parts.local_update.privacy
    if noise is None or federation.parts.clustering is not None:
        return None
    fewest = int(federation.honest.sizes.min())
    return noise.epsilon(evaluation.round.number, fewest, min(federation.settings.batch_size or fewest, fewest))


METRICS = (Metric("epsilon", "Epsilon of the least private client", _epsilon, better=-1, digits=2, exact=True),)
