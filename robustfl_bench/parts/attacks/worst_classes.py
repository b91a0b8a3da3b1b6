"""As worst, but by the error on all classes instead of that on the honest clients' samples (ours)."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, fields

from torch import Tensor

from robustfl_bench.parts.attacks.base import AttackView, Crafted, PlanView
from robustfl_bench.parts.attacks.worst import Worst
from robustfl_bench.parts.attacks.wrapped import Wrapped

Assess = Callable[[Tensor], tuple[Tensor, Tensor | None]]


@dataclass(frozen=True)
class WorstClasses(Worst):
    """All attackers send the most harmful of the attacks that ``worst`` tries, where harm is the error on all classes.

    ``worst`` judges a model by the honest clients' samples. With label skew these hold few samples of some classes, or
    none, and a test set holds all classes. Here attackers judge it by the clean samples of all clients, their own
    included, at most 2048 of them, and every class counts the same. As in ``worst``, the search is greedy: one step.
    With ``knowledge=own`` the samples are the attackers' own.
    """

    def plan(self, view: PlanView) -> object:
        search = Worst(**{each.name: getattr(self, each.name) for each in fields(self)})
        # A function, which contracts compare as it is: of a method they would copy the whole federation.
        return view.carry_out(_Assessing(search, lambda models: view.assess_by_class(models)))


@dataclass(frozen=True)
class _Assessing(Wrapped):
    """The ``attack``, whose attackers judge models by ``assess``."""

    assess: Assess = field(compare=False)

    def craft(self, view: AttackView) -> Tensor | Crafted:
        other = copy(view)
        other.assess = self.assess
        return self.attack.craft(other)
