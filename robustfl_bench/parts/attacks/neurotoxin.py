"""Neurotoxin: a backdoor in the coordinates that honest clients change least (Zhang et al., ICML 2022).

Zhang, Panda, Song, Yang, Mahoney, Gonzalez, Ramchandran, Mittal, "Neurotoxin: durable backdoors in federated learning",
https://arxiv.org/abs/2206.10341.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import between, one_of
from robustfl_bench.parts.attacks.base import AttackView, Crafted
from robustfl_bench.parts.attacks.wrapped import Wrapped


@dataclass(frozen=True)
class Neurotoxin(Wrapped):
    """The attackers apply ``attack`` and set to 0 the coordinates in which the ``reference`` is largest.

    Honest clients then have less reason to undo a backdoor once the attackers stop, which ``scheduled`` around this
    attack makes them do. The paper takes the last global update as the reference, so the attackers need to know no
    honest client; in a first round without one nothing is set to 0. The paper projects the gradient in each local step.
    Here the whole update is projected, which is the same for clients that make one step.

    Coordinates as large as the largest of those that are not avoided are not avoided either: none is, if all are of one
    size, as after a rule that takes signs.

    Code: the authors' reference is the gradient of clean samples of 30 clients at the received model, summed
    (``reference=honest`` is the mean over the clients of the round). They avoid 1 to 5% of the coordinates.
    """

    avoided: Annotated[float, between(0, 1)] = 0.05
    """share of the coordinates, those of largest size in the reference, that the attackers leave alone"""
    reference: Annotated[
        str, one_of(previous="the last aggregate, as in the paper", honest="the mean honest update, as in the code")
    ] = "previous"
    """what shows where honest clients change the model"""

    @property
    def crafts(self) -> bool:
        return True

    @property
    def needs_honest(self) -> bool:
        return self.reference == "honest" or self.attack.needs_honest

    def craft(self, view: AttackView) -> Tensor | Crafted:
        made = self.attack.craft(view)
        reference = view.previous if self.reference == "previous" else view.upload(view.mean)
        kept = view.honest.d - round(self.avoided * view.honest.d)
        if reference is None or kept == view.honest.d:
            return made
        sizes = reference.abs()[None]
        quiet = sizes[0] <= view.honest.place.kth_smallest(sizes.clone(), kept)[0] if kept else sizes[0] < 0
        if isinstance(made, Crafted):
            return replace(made, rows=view.upload(view.upload(made.rows) * quiet))
        return view.upload(view.upload(made) * quiet)
