"""A protocol: the server waits only for the clients that answer first (ours)."""

from dataclasses import dataclass
from typing import Annotated

import torch

from robustfl_bench import ConfigError, Engine, Protocol, Round, Setup, State, between


@dataclass(frozen=True)
class Template(Protocol):
    """The updates of the ``share`` of the participating clients that answer first; those of the others are lost.

    A client answers after an exponential time of mean 1.
    """

    share: Annotated[float, between(0.01, 1)] = 0.8
    """share of the participating clients that the server waits for; 1: synchronous rounds"""

    reports = ("simulated_time",)

    def check(self, setup: Setup) -> None:
        """Raise ConfigError if a run with these parts cannot follow the protocol; called before any data are loaded."""
        for group in ("clustering", "availability"):
            if group in setup.others:
                raise ConfigError(f"{type(self).__name__} has one model and loses no other updates: set {group}=none")

    def updates_per_round(self, clients: int) -> int:
        """The number of updates that the rule receives if ``clients`` take part in a round."""
        return max(1, round(self.share * clients))

    def step(self, engine: Engine, state: State) -> tuple[State, Round]:
        """The next round. What must last is in ``state.protocol``: tensors by name, none before the first round."""
        (present,) = engine.cohorts(state)
        ids = engine.ids(present)
        times = engine.draw("answer", state.round, lambda n, rng: rng.exponential(size=n))[ids]
        first = times.argsort()[: self.updates_per_round(len(ids))]
        cohorts = [engine.cohort(ids[first])]
        trained = engine.context(state, cohorts).complete()
        start = state.protocol.get("now", torch.zeros((), dtype=torch.float64))
        now = start + times[first].max()
        return engine.after(state, cohorts, [trained], {"now": now}, {"simulated_time": float(now)})
