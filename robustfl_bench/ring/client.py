"""One client of the ring: its own shard, its own model, its own checkpoints."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from robustfl_bench.communication.ring import Ring
from robustfl_bench.evaluation import Record, model_metrics, traffic
from robustfl_bench.experiment import Plan, shown
from robustfl_bench.federation import Federation, State
from robustfl_bench.interfaces import Attack, ConfigError
from robustfl_bench.results.store import RunFolder
from robustfl_bench.ring.checkpoints import Checkpoints
from robustfl_bench.ring.link import Link, RingBroken
from robustfl_bench.ring.reduce import reduced
from robustfl_bench.run import initial_state, zero_non_finite

NOTHING_TO_DO = -2.0  # what the first client says when the result is there already


def check(planned: Plan, size: int) -> None:
    """Raise ConfigError unless ``size`` processes can carry out the plan as a ring."""
    s, communication = planned.settings, planned.parts["communication"]
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
    if s.num_byzantine and type(planned.parts["attack"]).craft is not Attack.craft:
        raise ConfigError("no client sees the updates of others to craft its own: take attack=label_flip, or none")


class Client:
    """Client ``link.rank`` of the ring: the honest clients come first, in their order, then the Byzantine ones.

    All end each round with the same model. The first one tests it and writes the records; all write checkpoints, every
    ``interval`` rounds.
    """

    def __init__(self, link: Link, interval: int) -> None:
        self.link, self.interval = link, interval
        self.payload: list[int] = []  # bytes of updates that each client sent in the last evaluated round
        self.called = False

    def train(self, planned: Plan, federation: Federation, folder: RunFolder) -> Mapping[str, Any]:
        """Go on from the last round of which all clients have a checkpoint; raises RingBroken."""
        self.called = True
        torch.set_float32_matmul_precision(planned.settings.precision)
        first, checkpoints = self.link.rank == 0, Checkpoints(folder.path / "ring", self.link.rank)
        state = self._start(federation, checkpoints, folder if first else None)
        if state is None:
            return {}
        began = time.monotonic()
        with tqdm(total=planned.settings.rounds, initial=state.round, unit="round",
                  desc=folder.path.name, disable=None if first else True) as progress:  # fmt: skip
            for state, record in self._rounds(federation, state):  # noqa: B020
                if record is not None:
                    folder.append("metrics.csv", record)
                    folder.append("timings.csv", {"round": state.round, "seconds": time.monotonic() - began})
                    began = time.monotonic()
                    progress.set_postfix_str(shown(record))
                progress.update()
                if state.round % self.interval == 0:
                    checkpoints.save(state.round, {"params": state.params, "local": state.local})
        checkpoints.clear()
        return {"ring": self._measured(federation)}

    def decline(self) -> None:
        """Tell the others that there is nothing to do."""
        if not self.called:
            self.link.gather([NOTHING_TO_DO, NOTHING_TO_DO], forming=True)

    def _measured(self, federation: Federation) -> Mapping[str, Any]:
        """What was really sent in a round, beside the formula: bits of padding are what the last bytes are filled with."""
        planned = traffic(federation, 1)["bits_total"]
        return {
            "processes": self.link.size,
            "payload_bytes": self.payload,
            "formula_bits_total": planned,
            "bits_above_formula": 8 * sum(self.payload) - planned,
        }

    def _start(self, federation: Federation, checkpoints: Checkpoints, folder: RunFolder | None) -> State | None:
        """The state to go on from, with the rows of later rounds dropped from ``folder``; None: nothing to do."""
        saved, every = checkpoints.saved(), federation.experiment.settings.eval_every
        if folder is not None:
            there = {int(row["round"]) for row in folder.rows()} if (folder.path / "metrics.csv").exists() else set()
            saved = {r: one for r, one in saved.items() if set(range(every, r + 1, every)) <= there}
        mine = [float(round) for round in sorted(saved)[-2:]]
        offers = self.link.gather([*mine, *[-1.0] * (2 - len(mine))], forming=True)
        if offers[0, 0] == NOTHING_TO_DO:
            return None
        common = set.intersection(*(set(row) for row in offers.int().tolist())) - {-1}
        round = max(common, default=0)
        if folder is not None:
            folder.cut(round)
        if not round:
            return initial_state(federation)
        return State(round, saved[round]["params"], local=saved[round]["local"])

    def _rounds(self, federation: Federation, state: State) -> Iterator[tuple[State, Record | None]]:
        """Every round's new state, with a record where the first client evaluates it."""
        e, s, link = federation.experiment, federation.experiment.settings, self.link
        ids = np.concatenate([federation.honest_ids, federation.byzantine_ids])[[link.rank]]
        honest = link.rank < len(federation.honest_ids)
        shard = federation.clients(ids) if honest else federation.poisoned(ids)
        room, memory = federation.rows(1), state.local.setdefault("own", {})
        while state.round < s.rounds:
            lr, before, round = e.schedule(s.lr, state.round), link.payload, state.round + 1
            updates = federation.train(shard, [0], ids.tolist(), "batches", state.of(0), room, memory)
            non_finite = zero_non_finite(updates.matrix)
            evaluated = round % s.eval_every == 0 or round == s.rounds
            try:
                vector = reduced(link, updates.matrix[0], e.aggregator.ring, e.communication.counting)
                if evaluated:
                    told = link.gather([float(updates.losses[0]), non_finite, link.payload - before])
            except RingBroken as error:
                raise RingBroken(f"client {link.rank} stops in round {round}, as {error}") from error
            params = state.params[0] - e.local_update.step_size(lr) * vector
            state = replace(state, round=round, params=params[None])
            record = None
            if evaluated:
                self.payload = told[:, 2].int().tolist()
                if link.rank == 0:
                    record = {
                        "round": round,
                        "lr": lr,
                        "train_loss": float(told[: len(federation.honest_ids), 0].clone().mean()),
                    }
                    record |= model_metrics(federation, state.params, federation.groups(state))
                    record["non_finite_updates"] = int(told[:, 1].sum())
                    record |= traffic(federation, round)
            yield state, record
