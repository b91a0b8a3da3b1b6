"""Samples that runs share: those held out for validation, and the honest clients'."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from robustfl_bench.base.code_digest import package_digest
from robustfl_bench.numerics.network.samples import Population
from robustfl_bench.parts.datasets.base import Data
from robustfl_bench.runner.experiment.machine import give_back
from robustfl_bench.runner.store.shared import Content, OneCopy, SharedFiles
from robustfl_bench.train.clients import Clients, Unshared

_TRAINING = ("train_x", "train_y", "owners", "clusters")
"""The parts of data that are divided."""


@dataclass(frozen=True)
class Shelf(Unshared):
    """Samples of data with this ``digest`` in ``files``, for all runs that divide and deal out the data alike."""

    files: SharedFiles | OneCopy
    digest: str
    _held: list[Content] = field(default_factory=list, init=False)

    def divided(self, clients: Clients, data: Data) -> tuple[Data, Data | None]:
        s = clients.settings
        if s.validation_share is None:
            return super().divided(clients, data)

        def made() -> Content:
            named = zip(("clients", "held out"), super(Shelf, self).divided(clients, data), strict=True)
            return {f"{name} {part}": getattr(each, name) for part, each in named for name in _TRAINING}

        subject = f"validation {s.seed} {s.validation_share} {clients.parts.partition.by_owner}"
        content = self._shared(subject, made)
        own, held_out = (
            replace(data, **{name: content[f"{name} {part}"] for name in _TRAINING}) for part in ("clients", "held out")
        )
        return own, held_out

    def honest(self, clients: Clients) -> Population:
        def made() -> Content:
            population = super(Shelf, self).honest(clients)
            return {name: torch.as_tensor(value) for name, value in vars(population).items()}

        return _population(self._shared(_dealt(clients), made))

    def _shared(self, subject: str, make: Callable[[], Content]) -> Content:
        """What runs of these data have in common, held as long as this run is."""
        content = self.files.get(f"{subject} {package_digest()} {self.digest}", make)
        self._held.append(content)
        give_back()
        return content


def _dealt(clients: Clients) -> str:
    """All that the honest clients' samples depend on, besides the data."""
    s, total = clients.settings, hashlib.sha256()
    for array in (clients.honest_ids, *(clients.shards[i] for i in clients.honest_ids)):
        total.update(b"%d " % len(array) + np.ascontiguousarray(array, np.int64).data)
    return f"clients {(s.seed, s.validation_share, clients.parts.corruption)} {total.hexdigest()}"


def _population(content: Content) -> Population:
    """A population that is not gathered anew."""
    population = Population.__new__(Population)
    arrays = {name: content[name].numpy() for name in ("sizes", "starts")}
    vars(population).update(x=content["x"], y=content["y"], **arrays)
    return population
