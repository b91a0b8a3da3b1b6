"""One round of training as computed by one client of the ring."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from robustfl_bench.communication.ring import Ring, form_of
from robustfl_bench.engine.federation import Federation
from robustfl_bench.engine.rounds import (
    Round,
    Trained,
    require_finite,
    require_some_finite,
    server_step,
    zero_non_finite,
)
from robustfl_bench.engine.state import State
from robustfl_bench.experiment.summary import digest
from robustfl_bench.numerics.updates import Aggregate
from robustfl_bench.ring.link import Link, RingBroken
from robustfl_bench.ring.reduce import reduced

GO_ON = "the same command goes on from the last checkpoint"


@contextmanager
def told(link: Link, number: int) -> Iterator[None]:
    """Context in which the message of a RingBroken names the client and the round ``number``."""
    try:
        yield
    except RingBroken as error:
        raise RingBroken(f"client {link.rank} stops in round {number}: {error}; {GO_ON}") from error


class RingStep:
    """The step of client ``link.rank``; ranks belong first to the honest clients, in their order, then the Byzantine.

    All clients end a round with the same model. In an evaluated round, they exchange the numbers that a record needs,
    and the first client returns the record. ``payload`` then holds the bytes of updates that each client sent in the
    round.
    """

    def __init__(self, link: Link, federation: Federation) -> None:
        ids = np.concatenate([federation.honest_ids, federation.byzantine_ids])[[link.rank]]
        honest = link.rank < len(federation.honest_ids)
        self.payload: list[int] = []
        self._link, self._ids = link, ids.tolist()
        self._samples = federation.unpoisoned(ids) if honest else federation.poisoned(ids)
        self._paused = None if honest else federation.unpoisoned(ids)
        self._row = federation.rows(1)

    def __call__(self, federation: Federation, state: State) -> tuple[State, Round | None]:
        """Carry out the next round; raises RingBroken."""
        with told(self._link, state.round + 1):
            return self._round(federation, state)

    def _round(self, federation: Federation, state: State) -> tuple[State, Round | None]:
        parts, model, before = federation.parts, state.model(0), self._link.payload
        communication, lr = parts.communication, parts.schedule(federation.settings.lr, state.round)
        assert isinstance(communication, Ring)
        name, samples = "own", self._samples
        if self._paused is not None and not parts.attack.active(state.round + 1):
            name, samples = "own, no attack", self._paused
        kept = model.memory.local.setdefault(name, {})
        updates = federation.train(samples, [0], self._ids, "batches", model, self._row, kept)
        non_finite = zero_non_finite(updates.matrix)
        vector = reduced(self._link, updates.matrix[0], form_of(parts.aggregator), communication.counting)
        params, server = server_step(parts, model.params, vector, lr, model.memory.server)
        require_finite(params, model.round, "the model has parameters that are not finite")
        memory = replace(model.memory, server=server)
        after = replace(state, round=state.round + 1, params=params[None], memory=(memory,))
        if not federation.settings.is_evaluated(after.round):
            return after, None
        assert updates.losses is not None
        same = int(digest(after.params)[:12], 16)
        sent = self._link.payload - before
        heard = self._link.gather([float(updates.losses[0]), non_finite, sent, same])
        if len(set(heard[:, 3].tolist())) > 1:
            raise RuntimeError(f"the clients' models differ after round {after.round}")
        self.payload = heard[:, 2].int().tolist()
        num_honest = len(federation.honest_ids)
        require_some_finite(num_honest, int(heard[:num_honest, 1].sum()), state.round)
        if self._link.rank:
            return after, None
        losses, count = heard[:num_honest, 0].clone(), int(heard[:, 1].sum())
        trained = Trained(params, losses, Aggregate(vector), num_honest, count, memory)
        return after, Round(after.round, lr, federation.cohorts.of(state), (trained,))
