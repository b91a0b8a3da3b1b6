"""Clients whose samples other runs share."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch

from robustfl_bench.base.code_digest import package_digest
from robustfl_bench.base.heap import give_back
from robustfl_bench.numerics.network.samples import Population
from robustfl_bench.parts.datasets.base import Data
from robustfl_bench.runner.store.shared import Content, OneCopy, SharedFiles
from robustfl_bench.train.parts import Parts
from robustfl_bench.train.settings import Settings
from robustfl_bench.train.stack import Stackable


class SharedClients(Stackable):
    """A federation whose validation samples, and honest clients' samples, are on a ``shelf``, for all runs that divide
    and deal out the data alike."""

    def __init__(self, settings: Settings, parts: Parts, data: Data, shelf: SharedFiles | OneCopy) -> None:
        self._shelf, self._digest, self._held = shelf, data.digest, list[Content]()
        super().__init__(settings, parts, data)

    def divided(self, data: Data) -> tuple[Data, Data | None]:
        """As the base class."""
        s = self.settings
        if s.validation_share is None:
            return super().divided(data)

        def made() -> Content:
            clients, held_out = super(SharedClients, self).divided(data)
            return {f"{name} {part}": getattr(each, name) for name in _TRAINING
                    for part, each in (("clients", clients), ("held out", held_out))}  # fmt: skip

        subject = f"validation {s.seed} {s.validation_share} {self.parts.partition.by_owner}"
        content = self._shared(subject, made)
        clients, held_out = (
            replace(data, **{name: content[f"{name} {part}"] for name in _TRAINING}) for part in ("clients", "held out")
        )
        return clients, held_out

    @cached_property
    def honest(self) -> Population:
        """The honest clients' own samples."""
        return _population(self._shared(self._dealt, lambda: _content(self.unpoisoned(self.honest_ids))))

    def _shared(self, subject: str, make: Callable[[], Content]) -> Content:
        """What runs of these data have in common, held as long as this run is."""
        content = self._shelf.get(f"{subject} {package_digest()} {self._digest}", make)
        self._held.append(content)
        give_back()
        return content

    @property
    def _dealt(self) -> str:
        """All that the honest clients' samples depend on, besides the data."""
        s, parts = self.settings, self.parts
        total = hashlib.sha256()
        for array in (self.honest_ids, *(self.shards[i] for i in self.honest_ids)):
            total.update(b"%d " % len(array) + np.ascontiguousarray(array, np.int64).data)
        return f"clients {(s.seed, s.validation_share, parts.corruption)} {total.hexdigest()}"


_TRAINING = ("train_x", "train_y", "owners", "clusters")
"""The parts of data that are divided."""


def _content(population: Population) -> Content:
    return {name: torch.as_tensor(value) for name, value in vars(population).items()}


def _population(content: Content) -> Population:
    """A population that is not gathered anew."""
    population = Population.__new__(Population)
    arrays = {name: content[name].numpy() for name in ("sizes", "starts")}
    vars(population).update(x=content["x"], y=content["y"], **arrays)
    return population
