"""One round of training as computed by one client of the ring."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from robustfl_bench.numerics.updates import Aggregate
from robustfl_bench.parts.protocols.ring import Ring, form_of
from robustfl_bench.parts.protocols.state import Round, State, Trained
from robustfl_bench.runner.experiment.plan import Plan
from robustfl_bench.runner.experiment.summary import digest
from robustfl_bench.runner.processes.peers import PeerLost
from robustfl_bench.runner.processes.ring.link import Link, RingBroken
from robustfl_bench.runner.processes.ring.reduce import reduced
from robustfl_bench.train.context import require_finite, require_some_finite
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.rounds import Rounds

GO_ON = "the same command goes on from the last checkpoint"


@contextmanager
def told(link: Link, number: int) -> Iterator[None]:
    """Context in which the message of a RingBroken names the client and the round ``number``."""
    try:
        yield
    except (RingBroken, PeerLost) as error:
        raise RingBroken(f"{link.member} {link.rank} stops in round {number}: {error}; {GO_ON}") from error


class RingStep:
    """The step of client ``link.rank``; ranks belong first to the honest clients, in their order, then the Byzantine.

    All clients end a round with the same model. In an evaluated round, they exchange the numbers that a record needs,
    and the first client returns the record. ``payload`` then holds the bytes of updates that each client sent in the
    round.
    """

    def __init__(self, link: Link, federation: Federation) -> None:
        ids = np.concatenate([federation.honest_ids, federation.byzantine_ids])[[link.rank]]
        honest, parts, protocol = link.rank < len(federation.honest_ids), federation.parts, federation.parts.protocol
        assert isinstance(protocol, Ring)
        self.protocol, self.payload = protocol, list[int]()
        self._link, self._ids = link, ids.tolist()
        self._samples = federation.unpoisoned(ids) if honest else federation.poisoned(ids, parts.attack)
        self._paused = None if honest else federation.unpoisoned(ids)
        self._row = federation.rows(1)

    def outcome(self, planned: Plan) -> Mapping[str, Any]:
        """What the summary of the run says of the last round on the ring: the bytes sent and those of the formulas."""
        bits = self.protocol.total_bits(planned.parts.aggregator, self._link.size, self._row.shape[1])
        sent = {"payload_bytes": self.payload, "formula_bits": bits, "bits_above": 8 * sum(self.payload) - (bits or 0)}
        return {"ring": {"processes": self._link.size, **sent}}

    def __call__(self, federation: Federation, state: State) -> tuple[State, Round | None]:
        """Carry out the next round; raises RingBroken."""
        with told(self._link, state.round + 1):
            return self._round(federation, state)

    def _round(self, federation: Federation, state: State) -> tuple[State, Round | None]:
        attack, rounds, before = federation.parts.attack, Rounds(federation), self._link.payload
        cohorts = rounds.cohorts(state)
        context = rounds.context(state, cohorts)
        name, samples = "own", self._samples
        if self._paused is not None and not attack.active(state.round + 1):
            name, samples = "own, no attack", self._paused
        updates = context.train_clients(samples, [0], self._ids, name, self._row)
        non_finite = context.receive(updates.matrix)
        form = form_of(federation.parts.aggregator)
        vector = reduced(self._link, updates.matrix[0], form, self.protocol.counting)
        params, server = context.server_step(vector)
        require_finite(params, state.round, "the model has parameters that are not finite")
        num_honest, memory = len(federation.honest_ids), replace(context.model.memory, server=server)
        trained = Trained(params, None, Aggregate(vector), num_honest, non_finite, memory)
        after, happened = rounds.after(state, cohorts, [trained])
        if not federation.settings.is_evaluated(after.round):
            return after, None
        assert updates.losses is not None
        same = int(digest(after.params)[:12], 16)
        sent = self._link.payload - before
        heard = self._link.gather([float(updates.losses[0]), non_finite, sent, same])
        if len(set(heard[:, 3].tolist())) > 1:
            raise RuntimeError(f"the clients' models differ after round {after.round}")
        self.payload = heard[:, 2].long().tolist()
        require_some_finite(num_honest, int(heard[:num_honest, 1].sum()), state.round)
        if self._link.rank:
            return after, None
        of_all = replace(trained, losses=heard[:num_honest, 0].clone(), non_finite=int(heard[:, 1].sum()))
        return after, replace(happened, models=(of_all,))
