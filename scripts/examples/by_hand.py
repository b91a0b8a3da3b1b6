"""Four attacks written by hand, each for one rule and with its formula at hand; none asks the rule anything (ours).

robustfl-bench -m +experiment=arena/silos aggregator=meamed attack=by_hand:NearTheMedian
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench import Attack, AttackView, Crafted, Option


def back(view: AttackView) -> tuple[Tensor, dict[str, Tensor]]:
    """The way of the model since the first round (d,), along which an aggregate undoes training; what to remember."""
    memory = {"start": view.memory.get("start", view.params)}
    way = view.params - memory["start"]
    return (way if bool(way.any()) else -view.mean), memory


@dataclass(frozen=True)
class NearTheMedian(Attack):
    """For MeaMed, which averages in every coordinate the n - f values that are nearest to the median: all attackers
    send the farthest value that still is among these, on the side that leads back."""

    share: Annotated[float, Option(0)] = 1.0
    """of the distance of the last honest value that is averaged"""

    def craft(self, view: AttackView) -> Crafted:
        way, memory = back(view)
        rows = view.honest.columns
        middle = rows.median(dim=0).values
        nearest = (rows - middle).abs().sort(dim=0).values
        reach = nearest[max(0, view.n - 2 * view.num_byzantine - 1)]
        return Crafted(middle + self.share * reach * way.sign(), memory)


@dataclass(frozen=True)
class UnitBack(Attack):
    """For Fed-NGA, which averages updates of length 1: all attackers lean on what the honest clients have in common,
    then back; only the direction counts."""

    lean: Annotated[float, Option()] = -1.0
    """length of the part along the honest mean, for 1 of the part that leads back"""

    def craft(self, view: AttackView) -> Crafted:
        way, memory = back(view)
        mean = view.mean / view.mean.norm().clamp(min=1e-12)
        return Crafted(way / way.norm().clamp(min=1e-12) + self.lean * mean, memory)


@dataclass(frozen=True)
class Elected(Attack):
    """For FedSECA, which elects the sign of every coordinate and averages what is large there: the attackers agree with
    most clients in the signs of coordinates where the vote is clear, and put all their size where it is not."""

    clear: Annotated[float, Option(0)] = 1.0
    """votes that make a coordinate clear, by the number of attackers"""

    def craft(self, view: AttackView) -> Crafted:
        way, memory = back(view)
        votes = view.honest.columns.sign().sum(dim=0)
        sure = votes.abs() > self.clear * view.num_byzantine
        sizes = view.honest.columns.abs().median(dim=0).values
        largest = 10 * float(view.honest.columns.abs().max())
        return Crafted(torch.where(sure, votes.sign() * sizes, largest * way.sign()), memory)


@dataclass(frozen=True)
class Outvote(Attack):
    """For SignSGD, RLR and BRACE, which let a majority decide on every coordinate: the attackers vote together where
    their votes can turn it, and there for the way back; elsewhere as the majority does."""

    def craft(self, view: AttackView) -> Crafted:
        way, memory = back(view)
        votes = view.honest.columns.sign().sum(dim=0)
        open_ = votes.abs() < view.num_byzantine
        length = float(view.honest.norms.median()) / view.honest.d**0.5
        return Crafted(length * torch.where(open_, way.sign(), votes.sign()), memory)
