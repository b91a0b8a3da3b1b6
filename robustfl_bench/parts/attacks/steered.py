"""Attackers who push the aggregate in one direction all through the run, in the disguise that the rule lets pass best
(ours)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, one_of
from robustfl_bench.numerics.updates import all_finite, finite_parts
from robustfl_bench.parts.attacks.base import Attack, AttackView, Crafted
from robustfl_bench.parts.attacks.disguises import ARMS, Stage, unit

FADING = MappingProxyType({"trend": 0.9, "past": 0.97})
"""Sums of honest means that attackers remember, with the factor by which each fades in a round."""

STEPS = (1.3, 1 / 1.3)
"""Factors by which the strength of the best disguise is tried to change."""

Memory = dict[str, Tensor]


@dataclass(frozen=True)
class Course:
    """The way of the model so far: the ``params`` (d,), those of the first round, and the ``memory`` of attackers.

    ``layers`` are the numbers of parameters of the layers, in order.
    """

    params: Tensor
    memory: Mapping[str, Tensor]
    layers: tuple[int, ...]

    @property
    def back(self) -> Tensor:
        """From the model of the first round to the model at hand, (d,)."""
        return self.params - self.memory["start"]

    def early(self, vector: Tensor) -> Tensor:
        """The vector (d,) with zeros in the second half of the layers."""
        return torch.cat([vector[: self._half], torch.zeros_like(vector[self._half :])])

    def late(self, vector: Tensor) -> Tensor:
        """The vector (d,) with zeros in the first half of the layers."""
        return vector - self.early(vector)

    @property
    def _half(self) -> int:
        return sum(self.layers[: (len(self.layers) + 1) // 2])


HEADINGS: Mapping[str, Callable[[Course], Tensor]] = MappingProxyType({
    "back": lambda course: course.back,
    "against": lambda course: -course.memory["trend"],
    "back_against": lambda course: unit(course.back) - unit(course.memory["past"]),
    "contrary": lambda course: unit(course.early(course.back)) - unit(course.late(course.back)),
    "starve": lambda course: unit(course.early(course.params)) - unit(course.late(course.back)) / 2,
})  # fmt: skip
"""Directions (d,) of the aggregate, which is subtracted from the model."""


@dataclass(frozen=True)
class Steered(Attack):
    """In every round attackers send, of many disguises, the one that moves the aggregate farthest along a heading.

    The heading stays the same over the run, so that small steps add up where a search for the greatest harm of one step
    goes to and fro. The candidates are ``disguises.DISGUISES`` at their strengths, which look honest in one kind of
    statistic each. In the first round attackers ask the rule about all of them, then about the ``best`` of what they
    know and, in turn, ``others``; two more questions change the strength of the best one, which they remember.

    They use nothing but honest updates, the model, and the rule's answers: 48 questions in the first round, then
    ``best`` + ``others`` + 2.
    """

    heading: Annotated[str, one_of(*HEADINGS)] = "back"
    """where the model shall go: back to that of the first round, against the trend of training, or both; contrary: the
    early layers back, the late ones on; starve: the early ones to zero, the late ones on"""
    best: Annotated[int, at_least(1)] = 5
    """disguises asked about in every round, the best of those known"""
    others: Annotated[int, at_least(0)] = 3
    """further ones, which take turns"""
    layers: tuple[int, ...] = ()
    """numbers of parameters of the layers; none: a single layer"""

    def craft(self, view: AttackView) -> Crafted:
        of_updates = view.of_updates
        memory = _remembered(of_updates)
        layers = self.layers or (of_updates.honest.d,)
        wish = HEADINGS[self.heading](Course(view.params, memory, layers))
        if not float(wish.norm()) > 0:
            wish = -of_updates.mean
        answer = of_updates.mean if view.previous is None else view.previous
        search = _Search(view, Stage(of_updates, wish, layers, answer), memory)
        search.ask(self._due(memory["gains"], view.round))
        search.refine()
        memory["gains"], memory["strengths"] = search.gains, search.strengths
        return Crafted(search.rows, memory)

    def questions(self, rounds: int) -> int:
        """The most questions that the attack asks in so many rounds."""
        return rounds * min(len(ARMS), self.best + self.others) + rounds * len(STEPS) + len(ARMS)

    def _due(self, gains: Tensor, round: int) -> list[int]:
        """The disguises to ask about: all if none is known, else the best, and those whose turn it is."""
        if gains.isnan().all():
            return list(range(len(gains)))
        order: list[int] = gains.argsort(descending=True, stable=True).tolist()
        best, rest = order[: self.best], sorted(order[self.best :])
        turns = range(round * self.others, (round + 1) * self.others) if rest else ()
        return [*best, *dict.fromkeys(rest[turn % len(rest)] for turn in turns)]


def _remembered(view: AttackView) -> Memory:
    """What attackers remember, with this round."""
    memory = dict(view.memory)
    for name, factor in FADING.items():
        memory[name] = view.mean if name not in memory else factor * memory[name] + view.mean
    if "start" not in memory:
        memory["start"] = view.params
        memory["gains"] = torch.full((len(ARMS),), math.nan, dtype=torch.float64)
        memory["strengths"] = torch.tensor([strength for _, strength in ARMS], dtype=torch.float64)
    return memory


class _Search:
    """Asks the rule about disguises and keeps the one whose aggregate goes farthest along the wish, first of equals.

    ``gains`` are how far each went when it was last asked about, in lengths of the honest mean.
    """

    def __init__(self, view: AttackView, stage: Stage, memory: Mapping[str, Tensor]) -> None:
        self._view, self._stage = view, stage
        self.gains, self.strengths = memory["gains"].clone(), memory["strengths"].clone()
        self._unit = max(float(stage.mean.norm()), torch.finfo(torch.float32).tiny)
        self.rows, self._gain, self._arm = view.mean, -math.inf, -1

    def ask(self, arms: Sequence[int]) -> None:
        """Ask about disguises at the strengths remembered."""
        rows = [self._rows(arm, float(self.strengths[arm])) for arm in arms]
        for arm, sent, gain in zip(arms, rows, self._asked(rows), strict=True):
            self.gains[arm] = gain
            if gain > self._gain:
                self.rows, self._gain, self._arm = sent, gain, arm

    def refine(self) -> None:
        """Try a larger and a smaller strength of the best disguise, and remember the better one."""
        if self._arm < 0:
            return
        strength = float(self.strengths[self._arm])
        tried = [ARMS[self._arm][0].changed(strength, factor) for factor in STEPS]
        rows = [self._rows(self._arm, other) for other in tried]
        for other, sent, gain in zip(tried, rows, self._asked(rows), strict=True):
            if gain > self._gain:
                self.rows, self._gain = sent, gain
                self.gains[self._arm], self.strengths[self._arm] = gain, other

    def _rows(self, arm: int, strength: float) -> Tensor:
        return self._view.upload(ARMS[arm][0].rows(self._stage, strength))

    def _asked(self, uploads: Sequence[Tensor]) -> list[float]:
        """How far the aggregates go along the wish; -inf where the rule refuses or a number is not finite.

        Uploads (d,) that all attackers share are asked together, and so are those with a row for each attacker.
        """
        gains = [-math.inf] * len(uploads)
        for dims in (1, 2):
            numbers = [i for i, rows in enumerate(uploads) if rows.dim() == dims and all_finite(rows)]
            if not numbers:
                continue
            vectors = self._vectors(torch.stack([uploads[i].view(-1, uploads[i].shape[-1]) for i in numbers]))
            along = (vectors.double() @ self._stage.towards.double() / self._unit).tolist()
            for i, gain, fine in zip(numbers, along, finite_parts(vectors), strict=True):
                gains[i] = gain if fine else -math.inf
        return gains

    def _vectors(self, candidates: Tensor) -> Tensor:
        """The aggregates (k, d) of candidates (k, 1 or b, d); nan for those that the rule refuses by ConfigError."""
        try:
            return self._view.aggregate_many(candidates)
        except ConfigError:
            if len(candidates) == 1:
                return torch.full_like(candidates[:, 0], torch.nan)
            return torch.cat([self._vectors(candidate) for candidate in candidates.split(1)])
