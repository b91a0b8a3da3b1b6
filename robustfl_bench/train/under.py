"""The federation of a run under another attack, to carry it out or to simulate it, or with other labels."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import cached_property

import numpy as np
from torch import Tensor

from robustfl_bench.numerics.network.samples import Population
from robustfl_bench.parts.attacks.base import Attack
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.stack import Stackable


class Under(Stackable):
    """The ``real`` federation under another attack.

    With a ``seed`` it is a simulation by the attackers: the clients, their samples and the server's are the same, but
    all random streams are others. With ``knowledge=own``, honest clients then have the attackers' samples.
    """

    def __init__(self, real: Federation, attack: Attack, seed: int | None = None) -> None:
        fixed = ("data", "held_out", "num_classes", "network", "shards", "honest_ids", "byzantine_ids")
        vars(self).update({name: getattr(real, name) for name in fixed})
        self.settings = real.settings if seed is None else replace(real.settings, seed=seed)
        self.parts = replace(real.parts, attack=attack)
        self._real = real
        self._blind = seed is not None and real.settings.knowledge == "own"

    @cached_property
    def honest(self) -> Population:
        return self._real.unpoisoned(self._supposed) if self._blind else self._real.honest

    @cached_property
    def counts(self) -> Tensor:
        counts = self._real.counts
        if self._blind:
            counts = counts.clone()
            counts[self.honest_ids] = counts[self._supposed]
        return counts

    @cached_property
    def label_counts(self) -> Tensor:
        return super().label_counts if self._blind else self._real.label_counts

    @cached_property
    def byzantine(self) -> Population:
        known, attack = self._real.poisonings, self.parts.attack
        if attack not in known:
            known[attack] = self._real.poisoned(self.byzantine_ids, attack)
        return known[attack]

    @cached_property
    def byzantine_clean(self) -> Population:
        return self._real.byzantine_clean

    @cached_property
    def server(self) -> Population:
        return self._real.server

    @cached_property
    def buffer(self) -> Tensor:
        return self._real.buffer

    @property
    def _supposed(self) -> np.ndarray:
        """The attackers whose samples stand for those of the honest clients, cyclically, (h,)."""
        return np.resize(self.byzantine_ids, len(self.honest_ids))


class Relabelled(Under):
    """The ``real`` federation under another attack in one round, with other labels of the attackers' own samples.

    ``choose`` maps the outputs (N, c) of the model ``params`` (d,) for these samples to the labels (N,).
    """

    def __init__(self, real: Federation, attack: Attack, params: Tensor, choose: Callable[[Tensor], Tensor]) -> None:
        super().__init__(real, attack)
        self._params, self._choose = params, choose

    @cached_property
    def byzantine(self) -> Population:
        relabelled = copy(self._real.byzantine_clean)
        relabelled.y = self._choose(self.network.outputs_for(self._params, relabelled.x)).to(relabelled.y)
        return relabelled
