"""The round of one model in one of several processes: it trains its clients and aggregates its columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.network.samples import Population
from robustfl_bench.numerics.places import Place
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import ServerView
from robustfl_bench.parts.attacks.base import AttackView
from robustfl_bench.parts.protocols.base import Rule
from robustfl_bench.parts.protocols.chunks import chunks
from robustfl_bench.parts.protocols.state import Cohort, ModelState, Round, State
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.processes.peers import Link, Peers
from robustfl_bench.train.context import Context
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.rounds import Rounds


@dataclass(frozen=True)
class Share:
    """The part of process ``peers.rank`` in rounds of models with ``d`` parameters.

    Clients are dealt out by their positions among the honest clients or among the attackers, one after the other.
    """

    peers: Peers
    d: int

    @property
    def place(self) -> Place:
        """The columns that are here."""
        mine = self._columns[self.peers.rank]
        return Place(self.d, mine.start, mine.stop, self.peers.sum if self.peers.size > 1 else None)

    def here(self, clients: Sequence[int]) -> list[int]:
        """The rows of those of the ``clients``, positions, that train in this process."""
        return self._of(self.peers.rank, clients)

    def exchanged(self, rows: Tensor, clients: Sequence[int], out: Tensor) -> None:
        """Write the columns here of the updates of all ``clients`` into ``out`` (n, k); ``rows`` (m, d) are the whole
        updates of those that train here. Raises PeerLost."""
        owners = [self._of(rank, clients) for rank in range(self.peers.size)]
        received = [out.new_empty(len(owned), out.shape[1]) for owned in owners]
        self.peers.swap([rows[:, part].contiguous() for part in self._columns], received)
        for owned, part in zip(owners, received, strict=True):
            out[owned] = part

    def gathered(self, part: Tensor) -> Tensor:
        """The whole vectors (..., d) whose columns here are ``part`` (..., k). Raises PeerLost."""
        rows = part.reshape(-1, part.shape[-1])
        received = [rows.new_empty(len(rows), columns.stop - columns.start) for columns in self._columns]
        self.peers.swap([rows.contiguous()] * self.peers.size, received)
        return torch.cat(received, dim=1).reshape(*part.shape[:-1], self.d)

    @property
    def _columns(self) -> list[slice]:
        return chunks(self.d, self.peers.size)

    def _of(self, rank: int, clients: Sequence[int]) -> list[int]:
        return [row for row, client in enumerate(clients) if client % self.peers.size == rank]


@dataclass(frozen=True, kw_only=True)
class SpreadContext(Context):
    """A round as ``Context`` makes it, in every process of a run at once.

    Updates have the columns of this process. Models, and what the server makes of the aggregate, are whole and the same
    in all processes.
    """

    share: Share

    def train_clients(
        self, population: Population, clients: list[int], ids: list[int], name: str, out: Tensor, whose: str = ""
    ) -> Updates:
        """The columns here of the updates of clients, in ``out`` (n, k) if it has that width."""
        share, rows = self.share, self.share.here(clients)
        chosen, named = ([every[row] for row in rows] for every in (clients, ids))
        own = super().train_clients(population, chosen, named, name, self.federation.storage.rows(len(rows)), whose)
        width = share.place.stop - share.place.start
        out = out if out.shape[1] == width else out.new_empty(len(clients), width)
        told = torch.zeros(2, len(clients), dtype=torch.float64)
        told[0, rows], told[1, rows] = own.counts.cpu(), own.losses.cpu() if own.losses is not None else 0.0
        share.exchanged(own.matrix, clients, out)
        counts, losses = share.peers.sum(told).to(out.device)
        return Updates(out, counts, losses, share.place)

    def receive(self, uploads: Tensor) -> int:
        self.federation.parts.course.deliver(uploads)
        return len(self.share.peers.drop_non_finite(uploads))

    def aggregate(self, updates: Updates) -> Aggregate:
        try:
            made = super().aggregate(updates)
        except ConfigError as error:
            raise ConfigError(f"{type(self.federation.parts.aggregator).__name__}: {error}; or processes=1") from error
        return replace(made, vector=self.share.gathered(made.vector))

    def _sent(self, rows: Tensor) -> Tensor:
        if not self.federation.parts.local_update.sends_models:
            return rows
        return self.share.place.share(self.model.params) - rows

    def _attack_view(self, honest: Updates, rule: Rule, questions: Callable[[Tensor], Questions]) -> AttackView:
        view, place = super()._attack_view(honest, rule, questions), self.share.place
        params, previous = place.share(view.params), None if view.previous is None else place.share(view.previous)

        def train_own(start: Tensor) -> Tensor:
            if start is not params:
                raise ConfigError("attackers who train from a model of their own need it whole: set processes=1")
            return view.train_own(view.params)

        return replace(view, params=params, previous=previous, train_own=train_own)

    @cached_property
    def _server_view(self) -> Callable[[], ServerView]:
        whole_view, share = super()._server_view, self.share
        cut = share.place.share

        def view() -> ServerView:
            whole = whole_view()
            return replace(
                whole,
                params=cut(whole.params),
                previous=None if whole.previous is None else cut(whole.previous),
                after=lambda vector: cut(whole.after(share.gathered(vector))),
                train_per_class=lambda: cut(whole.class_updates),
                train_together=lambda: cut(whole.update),
                loss=lambda models: whole.loss(share.gathered(models)),
                gradient=lambda model: cut(whole.gradient(share.gathered(model))),
                losses_of=lambda model, clients: whole.losses_of(share.gathered(model), clients),
            )

        return view


class SpreadRounds(Rounds):
    """The rounds of a federation in one of several processes."""

    def __init__(self, federation: Federation, share: Share) -> None:
        super().__init__(federation)
        self._share = share

    def context(
        self, state: State, cohorts: Sequence[Cohort], number: int = 0, received: Mapping[int, ModelState] | None = None
    ) -> SpreadContext:
        made = super().context(state, cohorts, number, received)
        return SpreadContext(**vars(made), share=self._share)


class SpreadStep:
    """The step of process ``link.rank``: it trains its clients and aggregates its columns.

    All processes end a round with the same model; the first returns the results of the round.
    """

    def __init__(self, link: Link, federation: Federation, timeout: float) -> None:
        self._link, self._share = link, Share(Peers(timeout=timeout), federation.network.dim)
        place = self._share.place
        buffer = federation.network.initial.new_empty(federation.storage.number, place.stop - place.start)
        vars(federation.storage)["buffer"] = buffer  # in place of one for whole updates

    def outcome(self, request: Request) -> Mapping[str, Any]:
        """What the summary of the run says: the number of processes, and the bytes of updates that the first sent."""
        return {"processes": {"number": self._link.size, "sent_bytes": self._share.peers.sent}}

    def __call__(self, federation: Federation, state: State) -> tuple[State, Round | None]:
        """Carry out the next round; raises PeerLost."""
        after, happened = federation.parts.course.step(SpreadRounds(federation, self._share), state)
        return after, None if self._link.rank else happened
