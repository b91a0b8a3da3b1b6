"""Attackers who simulate whole trainings, commit to the most harmful attack, and plan again later (ours)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.fields import at_least, between
from robustfl_bench.parts.attacks.base import Attack, Harm, PlanView
from robustfl_bench.parts.attacks.pool import PLAN, Acting, Entries, members, prices

LOOKS = (0.25, 0.375, 0.5)
"""The shares of the rounds after which attackers compare the model with what they foresaw of supposed clients."""

DOUBT = 0.4
"""They give up an attack under which the model errs less than this share of the error that they foresaw."""


@dataclass(frozen=True)
class _Plan:
    """A plan made before round ``round`` (from 0): the place of the chosen attack in the pool, its simulated error, the
    cost of all simulations so far, the places of the attacks that did most harm, and those of the ``others`` by their
    harm."""

    round: int
    place: int
    error: float
    spent: float
    leaders: tuple[int, ...]
    others: tuple[int, ...]

    @property
    def stored(self) -> Tensor:
        places = (len(self.leaders), *self.leaders, *self.others)
        return torch.tensor([self.round, self.place, self.error, self.spent, *places], dtype=torch.float64)

    @staticmethod
    def read(stored: Tensor) -> _Plan:
        round, place, error, spent, number, *places = stored.tolist()
        leaders, others = places[: int(number)], places[int(number) :]
        return _Plan(int(round), int(place), error, spent, tuple(map(int, leaders)), tuple(map(int, others)))

    def attack(self, pool: Sequence[Attack], own_draws: Callable[[int], np.random.Generator]) -> Acting:
        notes = {"policy": self.place, "harm": self.error}
        return Acting(pool[self.place], self.place, own_draws, self.stored, notes)


@dataclass(frozen=True)
class Planned(Attack):
    """The attackers simulate the whole training under every attack of a pool and carry out the most harmful one.

    They do so before the first round, with all attacks of a pool, on the server's rule. The most harmful attack is that
    of the largest error of the models that are evaluated in the last third of the run. The ``leaders`` are the
    attacks whose error is within ``reach`` of the largest. Where trainings depend on random draws (batches,
    participation), they are simulated with ``streams`` random streams each, never those of the run, and their harm is
    the mean. The attackers plan again ``replans`` times, evenly over the run: the leaders are simulated from the model
    at hand, and another attack takes over if its error is larger by more than ``margin``. If all attacks would help,
    the attackers train honestly.

    The whole pool is simulated once. Simulations beyond that are left out, the streams first, where the sum would cost
    more than ``budget`` trainings without attack. The costs are fixed numbers, measured where gradients are stacked
    (``stack``); elsewhere simulations take up to twice as long.

    The attackers know what ``worst`` knows, and where the other clients' data lie: ``knowledge=own`` leaves them
    simulations in which honest clients are as unequal as the attackers, with data of these. What they foresee may then
    be wrong: where the model errs far less after some rounds, they give the attack up, and simulate the next ones from
    the model at hand. Of the random draws of the run they know only their own.

    ``attack_policy`` in metrics.csv is the index of the attack in the pool, ``attack_harm`` the simulated error.
    """

    leaders: Annotated[int, at_least(1)] = 4
    """the most attacks that are simulated again"""
    reach: Annotated[float, between(0, 1)] = 0.1
    """the largest difference of their error from the largest error"""
    streams: Annotated[int, at_least(1)] = 3
    """random streams over which their harm is averaged"""
    replans: Annotated[int, at_least(0)] = 2
    """later plans"""
    margin: Annotated[float, between(0, 1)] = 0.03
    """the additional error for which attackers change their attack"""
    budget: Annotated[float, at_least(0)] = 60
    """what all simulations cost at most, in trainings without attack, unless the pool alone costs more"""

    pool: Entries | None = None
    """the attacks that are simulated, by name or as my_module:MyAttack; null: all of ``pool.POOL``"""

    reports = ("policy", "harm")

    def __post_init__(self) -> None:
        members(self.pool)

    def plan(self, view: PlanView) -> object:
        return view.carry_out(self._next(view).attack(self._simulable(view), view.own_draws))

    def _simulable(self, view: PlanView) -> tuple[Attack, ...]:
        """The attacks that may be simulated, by their places."""
        return members(self.pool)

    def _costs(self, view: PlanView) -> tuple[float, ...]:
        """What a simulation of the whole training under each of them costs, in clean trainings."""
        return prices(self._simulable(view))

    def _next(self, view: PlanView) -> _Plan:
        if PLAN not in view.memory:
            return self._first(view)
        last = _Plan.read(view.memory[PLAN])
        due = [round(view.rounds * i / (self.replans + 1)) for i in range(1, self.replans + 1)]
        if any(last.round < number <= view.round for number in due):
            return self._again(view, last)
        looks = view.supposes and view.round in [round(view.rounds * share) for share in LOOKS]
        return self._instead(view, last) if looks and view.error_at_hand < DOUBT * last.error else last

    def _first(self, view: PlanView) -> _Plan:
        costs = self._costs(view)
        harms, spent = self._simulated(view, range(len(costs)), [0]), sum(costs)
        leaders = self._leading(harms)
        others = tuple(place for place in _by_harm(harms) if place not in leaders)
        streams = range(1, 1 + self._affordable(view, leaders, spent, self.streams - 1 if view.varies else 0))
        if streams and len(leaders) > 1:
            more = self._simulated(view, leaders, streams)
            harms = {place: harms[place] + more[place] for place in leaders if place in more} or harms
            spent += len(streams) * self._price(view, leaders)
        best = _by_harm(harms)[0]
        return _Plan(view.round, best, _mean(harms[best])[0], spent, leaders, others)

    def _again(self, view: PlanView, last: _Plan) -> _Plan:
        contenders = list(dict.fromkeys((last.place, *last.leaders)))
        streams = range(self._affordable(view, contenders, last.spent, self.streams if view.varies else 1))
        if not streams or len(contenders) == 1:
            return replace(last, round=view.round)
        harms = self._simulated(view, contenders, streams)
        best = _by_harm(harms)[0]
        if last.place in harms and not self._beats(_mean(harms[best]), _mean(harms[last.place])):
            best = last.place
        spent = last.spent + len(streams) * self._price(view, contenders)
        return _Plan(view.round, best, _mean(harms[best])[0], spent, last.leaders, last.others)

    def _instead(self, view: PlanView, last: _Plan) -> _Plan:
        """The plan without the attack that is carried out: the most harmful of the next ones from the model at hand, or
        the next one where the budget is spent."""
        left = [place for place in (*last.leaders, *last.others) if place != last.place]
        some, others = tuple(left[: self.leaders]), tuple(left[self.leaders :])
        if not some:
            return last
        if not self._affordable(view, some, last.spent, 1):
            return replace(last, place=some[0], leaders=some, others=others)
        harms = self._simulated(view, some, [0])
        best, *_ = leaders = tuple(_by_harm(harms))
        return _Plan(last.round, best, _mean(harms[best])[0], last.spent + self._price(view, some), leaders, others)

    def _affordable(self, view: PlanView, places: Sequence[int], spent: float, wanted: int) -> int:
        """The random streams, as many as wanted at most, with which the budget still allows to simulate attacks."""
        return max(0, min(wanted, int((self.budget - spent) / self._price(view, places))))

    def _leading(self, harms: Mapping[int, list[Harm]]) -> tuple[int, ...]:
        """The places of at most ``leaders`` attacks whose error is within ``reach`` of the largest."""
        first, *others = _by_harm(harms)[: self.leaders]
        least = _mean(harms[first])[0] - self.reach
        return first, *(place for place in others if _mean(harms[place])[0] >= least)

    def _beats(self, one: Harm, other: Harm) -> bool:
        """By the margin of the error; where errors are 0, as in regression, by that of the loss."""
        return one[0] > other[0] + self.margin or (one[0] == other[0] == 0 and one[1] > (1 + self.margin) * other[1])

    def _simulated(self, view: PlanView, places: Iterable[int], streams: Iterable[int]) -> dict[int, list[Harm]]:
        """The harms of attacks of the pool by their places, one per random stream; without those that cannot work."""
        places, pool = list(places), self._simulable(view)
        attacks = [Acting(pool[place], place, view.own_draws) for place in places]
        by_stream = [view.simulate(attacks, stream) for stream in streams]
        return {place: [harm for harm in harms if harm is not None]
                for place, *harms in zip(places, *by_stream, strict=True) if None not in harms}  # fmt: skip

    def _price(self, view: PlanView, places: Iterable[int]) -> float:
        """What it costs to simulate attacks from the round at hand to the end, in clean trainings."""
        costs = self._costs(view)
        return (1 - view.round / view.rounds) * sum(costs[place] for place in places)


def _by_harm(harms: Mapping[int, list[Harm]]) -> list[int]:
    """The places by their mean harm, in descending order; the first of equal ones comes first."""
    return sorted(harms, key=lambda place: _mean(harms[place]), reverse=True)


def _mean(harms: Sequence[Harm]) -> Harm:
    return mean(error for error, _ in harms), mean(loss for _, loss in harms)
