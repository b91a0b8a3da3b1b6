"""Geometric median by Weiszfeld's iteration (Chen et al., POMACS 2017; iteration: Vardi and Zhang, PNAS 2000)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.fields import at_least
from robustfl_bench.numerics import gram_stacks
from robustfl_bench.numerics.gram_space import weiszfeld
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView


@dataclass(frozen=True)
class GeoMed(Aggregator):
    """The vector of least total distance to the updates, with equal weights; robust below half Byzantine.

    The result minimises ``sum of |x_i - y|`` over y. A step of the iteration goes from y to the mean of the updates
    with weights ``1 / |x_i - y|``. The iteration starts at the medoid, the update of least total distance to the
    others, and stops after a step of at most ``eps`` or after ``max_iter`` steps. Updates within ``eps`` of the iterate
    are treated as equal to it. The unit of ``eps`` is the median distance from the medoid. The defaults are those of
    the hdmedians package, which BOBA uses.

        >>> import numpy as np
        >>> import robustfl_bench as rb
        >>> updates = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [100.0, -100.0]])
        >>> rb.GeoMed()(updates).round(2)  # the last client attacks; the mean is at (20.4, -19.6)
        array([0.79, 0.21])

    Code: hdmedians starts at the mean, where huge updates can cancel and leave only rounding errors, and its ``eps`` is
    an absolute length. ByzFL makes 3 steps from zero, with distances of at least 0.1.
    """

    eps: Annotated[float, at_least(0)] = 1e-8
    """least step, and distance at which an update is reached, in median distances from the medoid"""
    max_iter: Annotated[int, at_least(1)] = 1000
    """maximum number of steps"""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        weights = weiszfeld(updates.gram.cpu().numpy(), np.ones(updates.n), self.eps, self.max_iter)
        return updates.combine(torch.from_numpy(weights).to(updates.device))

    def aggregate_weighted(self, updates: Updates, server: ServerView) -> Aggregate:
        masses = updates.counts.cpu().numpy()
        weights = weiszfeld(updates.gram.cpu().numpy(), masses, self.eps, self.max_iter)
        return updates.combine(torch.from_numpy(weights).to(updates.device))

    def aggregate_many(self, questions: Questions, server: Callable[[], ServerView]) -> Tensor:
        grams = questions.grams.cpu().numpy()
        weights = gram_stacks.weiszfeld(grams, np.ones(questions.n), self.eps, self.max_iter)
        return questions.combine(torch.from_numpy(weights).to(questions.rows.device))
