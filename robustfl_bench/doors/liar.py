"""An attack as one client of another framework, who knows its own update alone."""

from collections.abc import Mapping
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.named_arrays import Vector
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.attacks.base import Attack, AttackView, Crafted


class Liar:
    """Makes what a lying client sends of its honest update, by an attack that crafts updates.

    The client knows its own update, the model, and the last step of the model, never the other clients. ``num_clients``
    take part in a round; ``seed`` fixes the draws. Raises ConfigError for an attack that poisons data or plans, when it
    is made, and, when it is asked, for one that needs several updates, the server's rule, or data.
    """

    def __init__(self, attack: Attack, num_clients: int, seed: int = 0) -> None:
        self._name = type(attack).__name__
        if not attack.crafts or attack.poisons or attack.plans:
            raise ConfigError(f"{self._name} changes data, by attack.poison(Shard(...)) where a client loads them, or "
                              "plans whole trainings: take an attack that crafts updates")  # fmt: skip
        self.attack, self._clients, self._seed = attack, num_clients, seed

    def sent(
        self,
        round: int,
        start: Vector,
        end: Vector,
        previous: Vector | None = None,
        memory: Mapping[str, Tensor] | None = None,
    ) -> tuple[Vector, dict[str, Tensor]]:
        """The model (d,) that the client sends in a round (from 0) instead of ``end``, and what the attack remembers.

        ``start`` is the model that it received, ``previous`` the one that it received before.
        """
        if not self.attack.active(round + 1):
            return end, dict(memory or {})
        params = torch.from_numpy(start).float()
        own = Updates(torch.from_numpy(start - end).float()[None])
        view = AttackView(
            honest=own,
            clients=torch.zeros(1, dtype=torch.int64),
            n=self._clients,
            num_byzantine=1,
            round=round,
            lr=1.0,
            params=params,
            previous=None if previous is None else torch.from_numpy(previous - start).float(),
            label_counts=torch.zeros(1, 0, dtype=torch.int64),
            rng=seeding.generator(self._seed, "attack", round),
            memory=dict(memory or {}),
            train_own=lambda _: own.matrix,
            aggregate=lambda _: self._lacks("the server's rule"),
            upload=lambda updates: updates,
            after=lambda aggregate: params - aggregate,
            assess=lambda _: self._lacks("data"),
        )
        made = self.attack.craft(view)
        crafted = made if isinstance(made, Crafted) else Crafted(made)
        row = crafted.rows.reshape(-1, len(params))[0]
        strange = not row.isfinite().all() and "finite" not in self.attack.exempt
        if own.matrix.isfinite().all() and (strange or torch.equal(row, own.matrix[0])):
            self._lacks("the updates of several clients")
        sent: Vector = start - row.double().numpy()
        return sent, dict(crafted.memory)

    def _lacks(self, what: str) -> NoReturn:
        raise ConfigError(f"{self._name} needs {what}, which a client alone does not know: take another attack")


def kept(memory: Mapping[str, Tensor], start: Vector) -> dict[str, np.ndarray]:
    """What a client keeps for its next round, as named arrays: the memory of the attack, and the model."""
    return {"model": start, **{f"memory.{name}": value.cpu().numpy() for name, value in memory.items()}}


def remembered(arrays: Mapping[str, np.ndarray]) -> tuple[Vector | None, dict[str, Tensor]]:
    """The model and the memory that were ``kept``."""
    memory = {name.removeprefix("memory."): torch.from_numpy(np.array(value))
              for name, value in arrays.items() if name.startswith("memory.")}  # fmt: skip
    return arrays.get("model"), memory
