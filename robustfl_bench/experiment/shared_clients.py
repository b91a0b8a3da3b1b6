"""Clients whose samples other processes on this machine share."""

import hashlib
from functools import cached_property

import numpy as np
import torch

from robustfl_bench.base.code_digest import package_digest
from robustfl_bench.base.heap import give_back
from robustfl_bench.datasets.base import Data
from robustfl_bench.engine.parts import Parts
from robustfl_bench.engine.settings import Settings
from robustfl_bench.engine.stack import Stackable
from robustfl_bench.network.samples import Population
from robustfl_bench.store.shared import Content, SharedFiles


class SharedClients(Stackable):
    """A federation whose honest clients' samples are in a file of ``files``, for all runs that deal out the data
    alike."""

    def __init__(self, settings: Settings, parts: Parts, data: Data, files: SharedFiles) -> None:
        super().__init__(settings, parts, data)
        self._files, self._digest = files, data.digest

    @cached_property
    def honest(self) -> Population:
        """The honest clients' own samples."""
        content = self._files.get(self._dealt, lambda: _content(self.unpoisoned(self.honest_ids)))
        give_back()
        return _population(content)

    @property
    def _dealt(self) -> str:
        """All that the honest clients' samples depend on."""
        s, parts = self.settings, self.parts
        total = hashlib.sha256()
        for array in (self.honest_ids, *(self.shards[i] for i in self.honest_ids)):
            total.update(b"%d " % len(array) + np.ascontiguousarray(array, np.int64).data)
        drawn = (s.seed, s.validation_share, parts.corruption)
        return f"clients {package_digest()} {self._digest} {drawn} {total.hexdigest()}"


def _content(population: Population) -> Content:
    return {name: torch.as_tensor(value) for name, value in vars(population).items()}


def _population(content: Content) -> Population:
    """A population that is not gathered anew."""
    population = Population.__new__(Population)
    arrays = {name: content[name].numpy() for name in ("sizes", "starts")}
    vars(population).update(x=content["x"], y=content["y"], **arrays)
    return population
