"""S-CC: sequential centered clipping over small groups that mix clients of all directions.

Ozfatura, Ozfatura, Küpçü, Gündüz, IEEE TIFS 2024, "Byzantines can also learn from history", section V,
https://arxiv.org/abs/2208.09894; defaults of the authors' FL-Byzantine-Library.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from robustfl_bench.base.fields import SCALE, Flag, at_least
from robustfl_bench.numerics.clipping import ClippingCentre
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class SequentialClipping(Aggregator):
    """Consecutive steps of centered clipping, one for each group of clients, from the last aggregate.

    The step of a group goes from v to ``v + mean of (x_i - v) min(1, radius / |x_i - v|)`` over its clients. Clients
    are sorted by the cosine between their update and the last aggregate and cut into ``bucket_size`` parts; a group has
    one random client of every part. In the first round v starts at 0 and all groups are random. With ``mean_first`` the
    mean m of a group is clipped instead: ``v + (m - v) min(1, radius / |m - v|)``. ``passes`` 2 goes through all
    clients a second time, in newly drawn groups, as the library's ``ccs_ecc`` does. ``weights`` are as in centered
    clipping.
    """

    radius: Annotated[float, at_least(0), SCALE] = 1.0
    """longest step"""
    bucket_size: Annotated[int, at_least(1)] = 3
    """clients in a group"""
    mean_first: Flag = False
    """true: clips a group's mean instead of each of its updates"""
    passes: Annotated[int, at_least(1)] = 1
    """how often the rule goes through all clients"""

    @property
    def exempt(self) -> Mapping[str, str]:  # type: ignore[override]
        """The promises that the rule does not make; the mean of a group keeps rounding errors of huge updates that
        cancel."""
        always = {
            "order": "groups are drawn by position in the matrix",
            "unanimous": "no group moves it farther than the radius",
            "translation": "it starts from the last aggregate",
            "scale": "the radius is a length",
        }
        return always | ({"robust": "huge updates of opposite directions cancel in a group"} if self.mean_first else {})

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        centre = ClippingCentre(updates, server.previous, self.radius)
        random = server.previous is None
        move = centre.step_to_mean if self.mean_first else centre.step
        for _ in range(self.passes):
            order = server.rng.permutation(updates.n) if random else centre.cosines.argsort(kind="stable")
            for group in self._groups(order, server.rng):
                move(group)
        return centre.aggregate()

    def _groups(self, order: NDArray[np.intp], rng: np.random.Generator) -> list[NDArray[np.intp]]:
        """Groups with one client of each of ``bucket_size`` parts of the order; the last groups may be smaller."""
        parts = [rng.permutation(part) for part in np.array_split(order, min(self.bucket_size, len(order)))]
        return [np.array([part[i] for part in parts if i < len(part)]) for i in range(len(parts[0]))]
