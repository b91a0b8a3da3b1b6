"""Line searches, shared by the attacks that try their strengths on the rule in use."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from robustfl_bench.parts.attacks.base import AttackView

OBJECTIVES = {"distance": "of the aggregate from the honest mean", "loss": "of honest clients, to first order"}
SEARCHES = {
    "grid": "doubles, then refines",
    "byzfl": "ByzFL's, with step=10",
    "null": "the steps of Allouah et al.'s code",
}


Values = Callable[[Sequence[float]], list[float]]
"""The values of several numbers, which are asked together."""


def harms_of(view: AttackView, objective: str) -> Callable[[Sequence[Tensor]], list[float]]:
    """A function from vectors (d,), each sent by all attackers, to the harm that each does to the aggregate of the rule
    in use.

    ``distance`` is the Euclidean distance of the aggregate from the honest mean. ``loss`` is minus the inner product of
    the two: to first order, in units of the step size, the increase of the honest clients' loss by the server's step.
    """
    wanted = view.upload(view.mean).double()

    def harm(aggregate: Tensor) -> float:
        if objective == "distance":
            return float(torch.linalg.vector_norm(aggregate - wanted))
        return -float(aggregate @ wanted)

    def measured(sent: Sequence[Tensor]) -> list[float]:
        return [harm(vector.double()) for vector in view.aggregate_many(torch.stack(list(sent))[:, None])]

    return measured


def largest_harm(view: AttackView, direction: Tensor, limit: float, evaluations: int) -> float:
    """The gamma, among ``evaluations`` evenly spaced ones up to ``limit``, for which the honest mean plus gamma times
    ``direction`` (d,), when sent, moves the aggregate of the rule in use farthest from the honest mean."""
    tried = [limit * (i + 1) / evaluations for i in range(evaluations)]
    harms = harms_of(view, "distance")([view.mean + gamma * direction for gamma in tried])
    return tried[harms.index(max(harms))]


def maximum(values: Values, search: str | None, evaluations: int, step: float, ratio: float) -> float:
    """The number >= 0 of the largest of the ``values`` of ``evaluations`` numbers tried, by one of SEARCHES; None is
    ``line_maximum``, byzfl the same without steps back."""
    if search == "grid":
        return grid_maximum(values, evaluations, step)
    return line_maximum(lambda number: values([number])[0], evaluations, step, ratio, back=search is None)


def grid_maximum(values: Values, evaluations: int, step: float) -> float:
    """The number >= 0 of the largest of the ``values`` of ``evaluations`` numbers tried; of equal ones the smallest.

    The first half, asked together, is 0 and a grid of numbers that double: for 20 evaluations, from ``step`` / 32 to
    8 ``step``. Every other number halves, on a logarithmic scale, the wider gap beside the best so far, the upper of
    two equal ones; next to 0 and beyond the largest number, the best is halved or doubled. A value that drops suddenly
    is thus found from below, if it grows for a factor of two before.
    """
    doublings = max(1, evaluations // 2 - 1)
    grid = [0.0, *(step * 2.0 ** (i - doublings // 2 - 1) for i in range(doublings))]
    found = dict(zip(grid[:evaluations], values(grid[:evaluations]), strict=True))
    for _ in range(evaluations - len(found)):
        tried = sorted(found)
        number = _beside(tried, tried.index(max(tried, key=found.__getitem__)))
        (found[number],) = values([number])
    return max(sorted(found), key=found.__getitem__)


def _beside(tried: Sequence[float], place: int) -> float:
    """The next number of ``grid_maximum``, beside the best one of those tried, in ascending order."""
    best = tried[place]
    if best == 0:
        return tried[1] / 2
    below = tried[place - 1] or best / 4
    above = tried[place + 1] if place + 1 < len(tried) else 4 * best
    upper = above / best >= (1 - 1e-9) * best / below  # rounding does not decide
    return math.sqrt(best) * math.sqrt(above if upper else below)


def line_maximum(
    value: Callable[[float], float], evaluations: int, step: float, ratio: float, back: bool = True
) -> float:
    """The number >= 0 of the largest ``value`` among ``evaluations`` numbers tried.

    The first number is 0. The next ones are ``step`` beyond the best so far, with a step that doubles as long as each
    number beats all before it. The rest go back and forth around the best so far, with a step that shrinks by ``ratio``
    each time; without ``back`` they all start from the best so far and go up.
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
        up = (tried if back else best) + step
        tried = up if not back or tried < best else max(tried - step, tried / 2)
        if (found := value(tried)) > highest:
            best, highest = tried, found
    return best
