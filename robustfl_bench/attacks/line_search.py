"""How far to go along a direction: what attacks share that try their strengths on the rule in use."""

from collections.abc import Callable

import torch
from torch import Tensor

from robustfl_bench.interfaces import AttackView

OBJECTIVES = ("distance", "loss")


def harm(view: AttackView, objective: str) -> Callable[[Tensor], float]:
    """A function: what all attackers send (d,) to the harm that it does to the aggregate of the rule in use.

    ``distance`` is the Euclidean distance of the aggregate from the honest mean. ``loss`` is minus the inner product of
    the two: to first order, in units of the step size, how much the server's step raises the honest clients' loss.
    """
    wanted = view.upload(view.mean).double()

    def measured(rows: Tensor) -> float:
        aggregate = view.aggregate(rows).vector.double()
        if objective == "distance":
            return float(torch.linalg.vector_norm(aggregate - wanted))
        return -float(aggregate @ wanted)

    return measured


def largest_harm(view: AttackView, direction: Tensor, limit: float, evaluations: int) -> float:
    """Of so many numbers, evenly spaced up to ``limit``, the one by which the honest mean must move along ``direction``
    (d,) to bring the aggregate of the rule in use farthest from the honest mean."""
    measured = harm(view, "distance")
    tried = [limit * (i + 1) / evaluations for i in range(evaluations)]
    return max(tried, key=lambda gamma: measured(view.mean + gamma * direction))


def line_maximum(value: Callable[[float], float], evaluations: int, step: float, ratio: float) -> float:
    """The number >= 0 of the largest ``value`` among so many tried.

    The first is 0. The next are ``step`` beyond the best one, with a step that doubles as long as each is better than
    all before. The others go back and forth around the best one, with a step that shrinks by ``ratio`` each time.
    """
    best, highest = 0.0, value(0.0)
    tried, left = 0.0, evaluations - 1
    while left:
        tried, left = best + step, left - 1
        if (found := value(tried)) <= highest:
            break
        best, highest, step = tried, found, 2 * step
    for _ in range(left):
        step *= ratio
        tried = tried + step if tried < best else max(tried - step, tried / 2)
        if (found := value(tried)) > highest:
            best, highest = tried, found
    return best
