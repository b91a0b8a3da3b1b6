"""FedBuff: the server steps whenever its buffer holds K updates (Nguyen et al., AISTATS 2022, arXiv 2106.06639)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import at_least, between, one_of
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.protocols.base import Engine, Protocol, Setup
from robustfl_bench.parts.protocols.state import Remembered, Round, State

MEAN_ONE = math.sqrt(math.pi / 2)
"""The factor that gives the absolute value of a standard normal number the mean 1."""


@dataclass(frozen=True)
class Buffered(Protocol):
    """Clients train at their own pace, each from the model that it received; a round is one step of the server.

    The server applies the rule to the first ``buffer`` (K) updates that arrive, each scaled by
    ``1 / sqrt(1 + staleness)`` as in the paper; with ``staleness`` ``none`` they are not scaled. The staleness of an
    update is the number of server steps since its client received its model. The server then sends the new model to K
    clients that are not training, drawn as for participation, so that the share ``participation`` of the clients trains
    at any time, and a client is in a buffer at most once. With ``buffer`` null the server waits for all clients that
    train: these are synchronous rounds, with their time.

    Training takes a half-normal time of mean 1, ``slowdown`` times as long for the share ``stragglers`` of the clients,
    which are the same in all rounds. Times and clients depend on the seed, not on rule or attack.

    Byzantine clients take as long as honest ones. With ``attackers`` ``like_honest`` their updates are as stale: they
    train from the model that they received. ``fresh`` attackers ignore it and train from the newest model, so that
    their updates count in full. Crafted updates are built from the honest updates in the same buffer in both cases.
    """

    buffer: Annotated[int | None, at_least(1)] = 10
    """K: the server waits for this many updates; null: for all clients that train"""
    staleness: Annotated[str, one_of(sqrt="scaled by 1 / sqrt(1 + staleness)", none="not scaled")] = "sqrt"
    """how the server weighs late updates"""
    attackers: Annotated[
        str, one_of(like_honest="train from the model that they received", fresh="train from the newest model")
    ] = "like_honest"
    """what Byzantine clients do"""
    stragglers: Annotated[float, between(0, 1)] = 0.2
    """share of the clients that are slow"""
    slowdown: Annotated[float, at_least(1)] = 10.0
    """how many times as long a slow client trains"""

    reports = ("simulated_time", "mean_staleness")

    def check(self, setup: Setup) -> None:
        """Raise ConfigError for parts that need all clients to start from the same model, or a buffer that attackers
        alone can fill."""
        for group in ("clustering", "availability"):
            if group in setup.others:
                raise ConfigError(f"protocol=buffered has one model and all updates arrive: set {group}=none")
        if setup.local_update.sends_models:
            name = type(setup.local_update).__name__
            raise ConfigError(f"local_update {name} sends models, and a buffer needs updates: take another")
        if self.updates_per_round(setup.clients) <= setup.num_byzantine:
            raise ConfigError(
                f"{setup.num_byzantine} attackers can fill a buffer of {self.buffer}: take a larger protocol.buffer"
            )

    def updates_per_round(self, clients: int) -> int:
        """The size of the buffer. Raises ConfigError if fewer clients train at once."""
        if self.buffer is not None and self.buffer > clients:
            raise ConfigError(f"protocol.buffer must be at most the {clients} clients that train, got {self.buffer}")
        return clients if self.buffer is None else self.buffer

    def step(self, engine: Engine, state: State) -> tuple[State, Round]:
        """The next step of the server. The memory holds, for every client, when its update arrives (infinite if it does
        not train) and the round of its model; and the models of these rounds."""
        memory = state.protocol or self._begun(engine, state)
        arrives, version = (memory[name].cpu().numpy().copy() for name in ("arrives", "version"))
        arrived = np.argsort(arrives, kind="stable")[: self.updates_per_round(engine.clients_per_round)]
        now, cohorts, start = float(arrives[arrived[-1]]), (engine.cohort(arrived),), version.copy()
        if self.attackers == "fresh":
            start[engine.byzantine_ids] = state.round
        params = dict(zip(memory["numbers"].tolist(), memory["models"], strict=True))
        current = state.model(0)
        models = {number: replace(current, round=number, params=old) for number, old in params.items()}
        models[state.round] = current
        context = engine.context(state, cohorts, received={int(i): models[int(start[i])] for i in arrived})
        staleness = torch.from_numpy(state.round - start[engine.ids(cohorts[0])]).double()

        def rule(updates: Updates) -> Aggregate:
            scaled = self.staleness == "sqrt" and bool(staleness.any())
            factors = (1 + staleness.to(updates.device)).rsqrt()
            return context.aggregate(updates.mix(factors.diag()) if scaled else updates)

        trained = context.complete(rule)
        arrives[arrived] = np.inf
        self._send(engine, state.round + 1, now, arrives, version, len(arrived))
        params |= {state.round: current.params, state.round + 1: trained.params}
        notes = {"simulated_time": now, "mean_staleness": float(staleness.mean())}
        return engine.after(state, cohorts, [trained], _memory(arrives, version, params), notes)

    def _begun(self, engine: Engine, state: State) -> Remembered:
        """The memory before the first round, when the first clients have received the initial model."""
        clients = len(engine.honest_ids) + len(engine.byzantine_ids)
        arrives, version = np.full(clients, np.inf), np.zeros(clients, dtype=np.int64)
        self._send(engine, 0, 0.0, arrives, version, engine.clients_per_round)
        return _memory(arrives, version, {0: state.params[0]})

    def _send(
        self, engine: Engine, round: int, now: float, arrives: np.ndarray, version: np.ndarray, number: int
    ) -> None:
        """Enter into ``arrives`` and ``version`` (N,) that ``number`` clients that do not train get the model of
        ``round`` at the time ``now``."""
        slow = engine.draw("stragglers", 0, lambda n, rng: rng.random(n)) < self.stragglers
        times = engine.draw("training time", round, lambda n, rng: MEAN_ONE * np.abs(rng.normal(size=n)))
        times = np.where(slow, self.slowdown * times, times)
        order = np.argsort(engine.draw("participation", round, lambda n, rng: rng.random(n)), kind="stable")
        chosen = order[np.isinf(arrives[order])][:number]
        arrives[chosen], version[chosen] = now + times[chosen], round


def _memory(arrives: np.ndarray, version: np.ndarray, models: Mapping[int, Tensor]) -> Remembered:
    """The memory, with those of the ``models``, by round, from which clients train."""
    numbers = sorted(set(version[np.isfinite(arrives)].tolist()))
    return {
        "arrives": torch.from_numpy(arrives),
        "version": torch.from_numpy(version),
        "numbers": torch.tensor(numbers),
        "models": torch.stack([models[number] for number in numbers]),
    }
