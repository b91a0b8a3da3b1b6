"""The strongest of many attacks, chosen anew in each round against the rule in use (ours)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.numerics.updates import finite_parts
from robustfl_bench.parts.attacks.base import Attack, AttackView, Crafted, Harm
from robustfl_bench.parts.attacks.candidates import ENTRIES, Scene
from robustfl_bench.parts.attacks.harm import HARMS, harms

NOTHING = -1  # the choice reported when no attack of the list works
REFINEMENTS = 2
TOGETHER = 1 << 20  # numbers in the models assessed together: as many as stay in the cache

Question = tuple[int, float]
"""An index into the list, and a strength."""


@dataclass(frozen=True)
class Worst(Attack):
    """All attackers send the most harmful of a fixed list of attacks, each at a fixed ladder of strengths.

    In each round they try every entry of ``candidates.ENTRIES`` at every strength on the server's rule, with its
    pre-aggregation: 55 questions. If the best entry has several strengths, a line search then tries the geometric means
    of the best strength and its neighbours, twice. This takes at most 59 rule calls per round, one more if ``harm`` is
    distance, and, unless ``harm`` is slope or distance, as many evaluations of the model on 1024 honest samples.

    ``harm`` is the objective, see ``harm.harms``. The default, error, is the share of the honest clients' samples that
    the model gets wrong after the step, taken ``ahead`` times. The search is greedy: it looks one step ahead, on these
    samples alone. It does not always do the most harm over a run: results/worst lists the exceptions, and ``planned``
    simulates whole runs. ``worst_classes`` judges models by all classes, on the samples of all clients. Attacks that
    only poison data are not in the list, because in the middle of a round the attackers cannot train on newly poisoned
    data.

    ``attack_choice`` in metrics.csv is the index of the sent attack in the list, from 0, or -1 if no attack of the list
    works; ``attack_strength`` is its strength and ``attack_harm`` its harm.
    """

    whole_matrices = 1

    harm: Annotated[str, one_of(**HARMS)] = "error"
    """what attackers maximise"""
    ahead: Annotated[int, at_least(1)] = 1
    """error and loss are those after this many such steps"""

    reports = ("choice", "strength", "harm")

    def craft(self, view: AttackView) -> Crafted:
        scene = Scene(view.of_updates)
        search = _Search(view, scene, self)
        search.ask([(number, strength) for number, entry in enumerate(ENTRIES) for strength in entry.strengths])
        for _ in range(REFINEMENTS):
            search.ask(search.between())
        notes = {"choice": search.choice, "strength": search.strength, "harm": search.harm[0]}
        return Crafted(search.rows, scene.memory, notes)


class _Search:
    """Tries candidates on the rule and keeps the most harmful one; in a tie, the first."""

    def __init__(self, view: AttackView, scene: Scene, attack: Worst) -> None:
        self._view, self._scene, self._attack = view, scene, attack
        self._calm = view.aggregate(view.mean).vector if attack.harm == "distance" else None
        self._tried: dict[int, set[float]] = {}
        self.rows, self.choice, self.strength = view.mean, NOTHING, math.nan
        self.harm: Harm = (-math.inf, 0.0)

    def ask(self, questions: Sequence[Question]) -> None:
        """Try entries of the list, each at a strength; those without an answer do not count."""
        together = max(1, TOGETHER // self._view.honest.d)
        for first in range(0, len(questions), together):
            some = questions[first : first + together]
            uploads = [self._view.upload(ENTRIES[number].rows(self._scene, strength)) for number, strength in some]
            for number, strength in some:
                self._tried.setdefault(number, set()).add(strength)
            aggregates = self._answers(uploads)
            answered = [i for i, aggregate in enumerate(aggregates) if aggregate is not None]
            if answered:
                vectors = [vector for vector in aggregates if vector is not None]
                found = harms(self._view, self._attack.harm, vectors, self._calm, self._attack.ahead)
                for i, harm in zip(answered, found, strict=True):
                    if harm > self.harm:
                        (self.choice, self.strength), self.rows, self.harm = some[i], uploads[i], harm

    def _answers(self, uploads: Sequence[Tensor]) -> list[Tensor | None]:
        """The aggregate (d,) for each upload; None if either is not finite or the rule raises ConfigError.

        Uploads (d,) that all attackers share are asked together, and so are those with a row for each attacker.
        """
        answers: list[Tensor | None] = [None] * len(uploads)
        for dims in (1, 2):
            asked = [i for i, rows in enumerate(uploads) if rows.dim() == dims]
            if not asked:
                continue
            candidates = torch.stack([uploads[i].view(-1, uploads[i].shape[-1]) for i in asked])
            if not all(fine := finite_parts(candidates)):
                asked, candidates = list(compress(asked, fine)), candidates[fine]
            vectors = self._vectors(candidates)
            for i, vector, known in zip(asked, vectors, finite_parts(vectors), strict=True):
                answers[i] = vector if known else None
        return answers

    def _vectors(self, candidates: Tensor) -> Tensor:
        """The aggregates (k, d) of candidates (k, 1 or b, d); nan for those that the rule refuses by ConfigError."""
        try:
            return self._view.aggregate_many(candidates) if len(candidates) else candidates[:, 0]
        except ConfigError:
            if len(candidates) == 1:
                return torch.full_like(candidates[:, 0], torch.nan)
            return torch.cat([self._vectors(candidate) for candidate in candidates.split(1)])

    def between(self) -> list[Question]:
        """The best entry at the geometric means of its strength and the neighbouring strengths tried so far."""
        tried = sorted(self._tried.get(self.choice, ()))
        if len(tried) < 2:
            return []
        place = tried.index(self.strength)
        others = [tried[i] for i in (place - 1, place + 1) if 0 <= i < len(tried)]
        return [(self.choice, math.sqrt(self.strength * other)) for other in others]
