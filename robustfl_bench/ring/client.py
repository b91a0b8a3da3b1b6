"""One client of the ring: its own shard, its own model, its own checkpoints."""

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from robustfl_bench.communication.ring import Ring, form_of
from robustfl_bench.engine.clients import Federation, State
from robustfl_bench.engine.evaluation import Record, model_metrics, traffic
from robustfl_bench.engine.rounds import initial_state, zero_non_finite
from robustfl_bench.experiment.plan import Plan
from robustfl_bench.experiment.summary import digest, shown
from robustfl_bench.interfaces import Attack, ConfigError
from robustfl_bench.results.store import RunFolder
from robustfl_bench.ring.checkpoints import Checkpoints
from robustfl_bench.ring.link import Link, RingBroken
from robustfl_bench.ring.reduce import reduced

GO_ON = "the same command goes on from the last checkpoint"
NOTHING_TO_DO = -2.0  # what the first client says when the result is there already


def check(planned: Plan, size: int) -> None:
    """Raise ConfigError unless ``size`` processes can carry out the plan as a ring."""
    s, communication = planned.settings, planned.parts.communication
    if not isinstance(communication, Ring):
        raise ConfigError("robustfl-ring needs communication=ring")
    if communication.bits != 32:
        raise ConfigError(f"numbers travel in 32 bits, got communication.bits={communication.bits}")
    if size != s.total_clients:
        raise ConfigError(f"every client is one process: {s.total_clients} clients, but {size} processes")
    if s.participation != 1:
        raise ConfigError(f"on a ring all clients take part, got participation={s.participation}")
    if s.device != "cpu":
        raise ConfigError(f"the ring passes on what is in the memory of the CPU, got device={s.device}")
    if s.num_byzantine and type(planned.parts.attack).craft is not Attack.craft:
        raise ConfigError("no client sees the updates of others to craft its own: take attack=label_flip, or none")


class Client:
    """Client ``link.rank`` of the ring: the honest clients come first, in their order, then the Byzantine ones.

    All end each round with the same model. The first one tests it and writes the records; all write checkpoints, every
    ``interval`` rounds.
    """

    def __init__(self, link: Link, interval: int) -> None:
        self.link, self.interval = link, interval
        self.payload: list[int] = []  # bytes of updates that each client sent in the last evaluated round
        self.checkpoints: Checkpoints | None = None

    def train(self, planned: Plan, federation: Federation, folder: RunFolder) -> Mapping[str, Any]:
        """Go on from the last round of which all clients have a checkpoint; raises RingBroken."""
        torch.set_float32_matmul_precision(planned.settings.precision)
        first, rounds = self.link.rank == 0, planned.settings.rounds
        self.checkpoints = Checkpoints(folder.path / "ring", self.link.rank)
        state = self._start(federation, self.checkpoints.saved(), folder if first else None)
        if state is None:
            return {}
        began = time.monotonic()
        tqdm.set_lock(threading.RLock())  # its usual one is shared by processes, and lost when one is killed
        with tqdm(total=rounds, initial=state.round, unit="round",
                  desc=folder.path.name, disable=None if first else True) as progress:  # fmt: skip
            for state, record in self._rounds(federation, state):  # noqa: B020
                if record is not None:
                    folder.append("metrics.csv", record)
                    folder.append("timings.csv", {"round": state.round, "seconds": time.monotonic() - began})
                    began = time.monotonic()
                    progress.set_postfix_str(shown(record))
                progress.update()
                if state.round % self.interval == 0 and state.round < rounds:
                    self.checkpoints.save(state.round, {"params": state.params, "local": state.local})
        bits = traffic(federation, 1)["bits_total"]
        sent = {"payload_bytes": self.payload, "formula_bits": bits, "bits_above": 8 * sum(self.payload) - bits}
        return {"model_sha256": digest(state.params), "ring": {"processes": self.link.size, **sent}}

    def end(self) -> None:
        """Wait until the first client has the result on disk; then checkpoints can go."""
        if self.checkpoints is None:
            self.link.gather([NOTHING_TO_DO, NOTHING_TO_DO], forming=True)
        self.link.gather([], forming=True)
        if self.checkpoints is not None:
            self.checkpoints.clear()

    def _start(
        self, federation: Federation, saved: Mapping[int, dict[str, Any]], folder: RunFolder | None
    ) -> State | None:
        """The state to go on from, with the rows of later rounds dropped from ``folder``; None: nothing to do."""
        if folder is not None:
            every, rows = federation.experiment.settings.eval_every, folder.path / "metrics.csv"
            there = {int(row["round"]) for row in folder.rows()} if rows.exists() else set()
            saved = {round: one for round, one in saved.items() if there.issuperset(range(every, round + 1, every))}
        mine = [-1.0, -1.0, *map(float, sorted(saved))][-2:]
        offers = self.link.gather(mine, forming=True)
        if offers[0, 0] == NOTHING_TO_DO:
            return None
        round = int(max(set.intersection(*map(set, offers.tolist())), default=-1))
        if folder is not None:
            folder.cut(round)
        if round < 0:
            return initial_state(federation)
        return State(round, saved[round]["params"], local=saved[round]["local"])

    def _rounds(self, federation: Federation, state: State) -> Iterator[tuple[State, Record | None]]:
        """Every round's new state, with a record where the first client evaluates it."""
        e, s, link = federation.experiment, federation.experiment.settings, self.link
        ids = np.concatenate([federation.honest_ids, federation.byzantine_ids])[[link.rank]]
        honest = link.rank < len(federation.honest_ids)
        shard = federation.clients(ids) if honest else federation.poisoned(ids)
        room, memory = federation.rows(1), state.local.setdefault("own", {})
        form, communication = form_of(e.aggregator), e.communication
        assert isinstance(communication, Ring)
        while state.round < s.rounds:
            lr, before, round = e.schedule(s.lr, state.round), link.payload, state.round + 1
            updates = federation.train(shard, [0], ids.tolist(), "batches", state.of(0), room, memory)
            non_finite = zero_non_finite(updates.matrix)
            assert updates.losses is not None
            try:
                vector = reduced(link, updates.matrix[0], form, communication.counting)
                state = replace(
                    state, round=round, params=(state.params[0] - e.local_update.step_size(lr) * vector)[None]
                )
                record = None
                if round % s.eval_every == 0 or round == s.rounds:
                    sent, model = link.payload - before, int(digest(state.params)[:12], 16)
                    told = link.gather([float(updates.losses[0]), non_finite, sent, model])
                    if len(set(told[:, 3].tolist())) > 1:
                        raise RuntimeError(f"the clients' models differ after round {round}")
                    self.payload = told[:, 2].int().tolist()
                    if link.rank == 0:
                        train_loss = told[: len(federation.honest_ids), 0].clone().mean()
                        record = {"round": round, "lr": lr, "train_loss": float(train_loss)}
                        record |= model_metrics(federation, state.params, federation.groups(state))
                        record["non_finite_updates"] = int(told[:, 1].sum())
                        record |= traffic(federation, round)
            except RingBroken as error:
                raise RingBroken(f"client {link.rank} stops in round {round}: {error}; {GO_ON}") from error
            yield state, record
