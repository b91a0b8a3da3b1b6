"""The strongest of many attacks, chosen anew in each round against the rule in use (ours)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from robustfl_bench.attacks.candidates import ENTRIES, Scene
from robustfl_bench.attacks.harm import HARMS, Harm, harms
from robustfl_bench.interfaces import Attack, AttackView, ConfigError, Crafted, check_choice, check_fields

NOTHING = -1  # the choice noted where no attack of the list works
REFINEMENTS = 2
TOGETHER = 1 << 20  # numbers in the models that are assessed together: what stays in the cache

Question = tuple[int, float]
"""A place in the list, and a strength."""


@dataclass(frozen=True)
class Worst(Attack):
    """All attackers send what does the most harm among a fixed list of attacks, each at a fixed ladder of strengths.

    In each round they ask the server's rule, with its pre-aggregation, about every entry of ``candidates.ENTRIES`` at
    every strength: 55 questions. Where the best entry has several strengths, a line search then asks about the
    geometric means between the best strength and its neighbours, twice. This takes at most 59 rule calls per round
    and, unless ``harm`` is slope or distance, as many evaluations of the model on 1024 honest samples.

    ``harm`` is what they maximise, see ``harm.harm``. The default, error, is the share of the honest clients' samples
    that the model gets wrong after the step, taken ``ahead`` times. The search is greedy, and greed does not always do
    the most harm over a run: results/worst says where not. Attacks that only poison data are not in the list, as the
    attackers cannot train in the middle of a round on data that they poison for it.

    ``attack_choice`` in metrics.csv is the place in the list of the attack that was sent, from 0, and -1 where no
    attack of the list works; ``attack_strength`` is its strength and ``attack_harm`` its harm.
    """

    harm: str = "error"
    ahead: int = 1

    reports = ("choice", "strength", "harm")

    def __post_init__(self) -> None:
        check_choice("harm", self.harm, HARMS)
        check_fields(self, ahead=(1, math.inf))

    def craft(self, view: AttackView) -> Crafted:
        scene = Scene(view.of_updates)
        search = _Search(view, scene, self)
        search.ask([(number, strength) for number, entry in enumerate(ENTRIES) for strength in entry.strengths])
        for _ in range(REFINEMENTS):
            search.ask(search.between())
        notes = {"choice": search.choice, "strength": search.strength, "harm": search.harm[0]}
        return Crafted(search.rows, scene.memory, notes)


class _Search:
    """Asks the rule about candidates and keeps the most harmful one; the first of equals."""

    def __init__(self, view: AttackView, scene: Scene, attack: Worst) -> None:
        self._view, self._scene, self._attack = view, scene, attack
        self._calm = view.aggregate(view.mean).vector if attack.harm == "distance" else None
        self._tried: dict[int, set[float]] = {}
        self.rows, self.choice, self.strength = view.mean, NOTHING, math.nan
        self.harm: Harm = (-math.inf, 0.0)

    def ask(self, questions: Sequence[Question]) -> None:
        """Look at entries of the list, each at a strength. Those without an answer do not count."""
        together = max(1, TOGETHER // self._view.honest.d)
        for first in range(0, len(questions), together):
            some = questions[first : first + together]
            answered = [(question, *answer) for question in some if (answer := self._answer(*question)) is not None]
            if answered:
                aggregates = [aggregate for _, _, aggregate in answered]
                found = harms(self._view, self._attack.harm, aggregates, self._calm, self._attack.ahead)
                for ((number, strength), rows, _), harm in zip(answered, found, strict=True):
                    if harm > self.harm:
                        self.rows, self.choice, self.strength, self.harm = rows, number, strength, harm

    def _answer(self, number: int, strength: float) -> tuple[Tensor, Tensor] | None:
        """What the attackers would send and the aggregate (d,); None where either is not finite or the rule refuses."""
        self._tried.setdefault(number, set()).add(strength)
        rows = self._view.upload(ENTRIES[number].rows(self._scene, strength))
        if not rows.isfinite().all():
            return None
        try:
            aggregate = self._view.aggregate(rows).vector
        except ConfigError:
            return None
        return (rows, aggregate) if aggregate.isfinite().all() else None

    def between(self) -> list[Question]:
        """The best entry at the geometric means of its strength and the neighbours among those asked about."""
        tried = sorted(self._tried.get(self.choice, ()))
        if len(tried) < 2:
            return []
        place = tried.index(self.strength)
        others = [tried[i] for i in (place - 1, place + 1) if 0 <= i < len(tried)]
        return [(self.choice, math.sqrt(self.strength * other)) for other in others]
