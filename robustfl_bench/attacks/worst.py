"""The strongest of many attacks, chosen anew in each round against the rule in use (ours)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor

from robustfl_bench.attacks.candidates import ENTRIES, Entry, Scene
from robustfl_bench.attacks.harm import HARMS, harm
from robustfl_bench.interfaces import Attack, AttackView, ConfigError, Crafted, check_choice, check_fields
from robustfl_bench.updates import Updates

NOTHING = -1  # the choice noted where no attack of the list works
REFINEMENTS = 2


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
        scene = Scene(_in_updates(view))
        search = _Search(view, scene, self)
        for number, entry in enumerate(ENTRIES):
            for strength in entry.strengths:
                search.ask(number, entry, strength)
        for _ in range(REFINEMENTS):
            for strength in search.between():
                search.ask(search.choice, ENTRIES[search.choice], strength)
        notes = {"choice": search.choice, "strength": search.strength, "harm": search.harm[0]}
        return Crafted(search.rows, scene.memory, notes)


class _Search:
    """Asks the rule about candidates and keeps the most harmful one; the first of equals."""

    def __init__(self, view: AttackView, scene: Scene, attack: Worst) -> None:
        self._view, self._scene, self._attack = view, scene, attack
        self._calm = view.aggregate(view.mean).vector if attack.harm == "distance" else None
        self._tried: dict[int, set[float]] = {}
        self.rows, self.choice, self.strength, self.harm = view.mean, NOTHING, math.nan, (-math.inf, 0.0)

    def ask(self, number: int, entry: Entry, strength: float) -> None:
        """Look at one entry of the list at one strength. Rows or aggregates that are not finite do not count."""
        self._tried.setdefault(number, set()).add(strength)
        rows = self._view.upload(entry.rows(self._scene, strength))
        if not rows.isfinite().all():
            return
        try:
            aggregate = self._view.aggregate(rows).vector
        except ConfigError:  # the rule refuses such updates
            return
        if not aggregate.isfinite().all():
            return
        found = harm(self._view, self._attack.harm, aggregate, self._calm, self._attack.ahead)
        if found > self.harm:
            self.rows, self.choice, self.strength, self.harm = rows, number, strength, found

    def between(self) -> Iterator[float]:
        """The geometric means of the best strength and its neighbours among those asked about."""
        tried = sorted(self._tried.get(self.choice, ()))
        if len(tried) > 1:
            place = tried.index(self.strength)
            for other in (tried[i] for i in (place - 1, place + 1) if 0 <= i < len(tried)):
                yield math.sqrt(tried[place] * other)


def _in_updates(view: AttackView) -> AttackView:
    """The view with the honest clients' updates where they send models."""
    matrix: Tensor = view.upload(view.honest.matrix)
    if matrix is view.honest.matrix:
        return view
    return replace(view, honest=Updates(matrix, view.honest.counts, view.honest.losses))
