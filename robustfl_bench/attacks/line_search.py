"""Line searches, shared by the attacks that try their strengths on the rule in use."""

from collections.abc import Callable

import torch
from torch import Tensor

from robustfl_bench.attacks.base import AttackView

OBJECTIVES = {"distance": "of the aggregate from the honest mean", "loss": "of honest clients, to first order"}


def harm(view: AttackView, objective: str) -> Callable[[Tensor], float]:
    """A function from the vector (d,) that all attackers send to its harm to the aggregate of the rule in use.

    ``distance`` is the Euclidean distance of the aggregate from the honest mean. ``loss`` is minus the inner product of
    the two: to first order, in units of the step size, the increase of the honest clients' loss by the server's step.
    """
    wanted = view.upload(view.mean).double()

    def measured(rows: Tensor) -> float:
        aggregate = view.aggregate(rows).vector.double()
        if objective == "distance":
            return float(torch.linalg.vector_norm(aggregate - wanted))
        return -float(aggregate @ wanted)

    return measured


def largest_harm(view: AttackView, direction: Tensor, limit: float, evaluations: int) -> float:
    """The gamma, among ``evaluations`` evenly spaced ones up to ``limit``, for which the honest mean plus gamma times
    ``direction`` (d,), when sent, moves the aggregate of the rule in use farthest from the honest mean."""
    measured = harm(view, "distance")
    tried = [limit * (i + 1) / evaluations for i in range(evaluations)]
    return max(tried, key=lambda gamma: measured(view.mean + gamma * direction))


def line_maximum(value: Callable[[float], float], evaluations: int, step: float, ratio: float) -> float:
    """The number >= 0 of the largest ``value`` among ``evaluations`` numbers tried.

    The first number is 0. The next ones are ``step`` beyond the best so far, with a step that doubles as long as each
    number beats all before it. The rest go back and forth around the best so far, with a step that shrinks by ``ratio``
    each time.
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
