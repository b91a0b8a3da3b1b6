"""Model replacement: a poisoned model scaled up until it replaces the average (Bagdasaryan et al., "How to backdoor
federated learning", AISTATS 2020)."""

from dataclasses import dataclass, replace
from typing import Annotated

from torch import Tensor

from robustfl_bench.base.fields import Option
from robustfl_bench.parts.attacks.base import AttackView, Crafted
from robustfl_bench.parts.attacks.wrapped import Wrapped


@dataclass(frozen=True)
class ModelReplacement(Wrapped):
    """The attackers apply ``attack`` and multiply their updates by ``factor``.

    With gamma = ``factor``, received model G and attacked model X, a client sends gamma (X - G) + G. With ``factor``
    null, n / b, the mean of the attackers' models replaces the model if the server averages and all other clients have
    converged. In ``backdoor`` and related attacks this factor is ``scale``.
    """

    factor: Annotated[float | None, Option()] = None
    """scale of the updates; null: clients in the round per attacker"""

    @property
    def crafts(self) -> bool:
        return True

    def craft(self, view: AttackView) -> Tensor | Crafted:
        factor = view.n / max(view.num_byzantine, 1) if self.factor is None else self.factor
        made = self.attack.craft(view)
        if isinstance(made, Crafted):
            return replace(made, rows=view.upload(factor * view.upload(made.rows)))
        return view.upload(factor * view.upload(made))
