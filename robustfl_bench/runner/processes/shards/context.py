"""The round of one model in one of several processes: it trains its clients and aggregates its columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.network.samples import Population
from robustfl_bench.numerics.questions import Questions
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import ServerView
from robustfl_bench.parts.attacks.base import AttackView
from robustfl_bench.parts.protocols.base import Rule
from robustfl_bench.parts.protocols.state import Cohort, ModelState, State
from robustfl_bench.runner.processes.shards.share import Share
from robustfl_bench.train.context import Context
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.rounds import Rounds


@dataclass(frozen=True, kw_only=True)
class SpreadContext(Context):
    """A round as ``Context`` makes it, in every process of a run at once.

    Updates have the columns of this process. Models, and what the server makes of the aggregate, are whole and the same
    in all processes.
    """

    share: Share

    def train_clients(
        self, population: Population, clients: list[int], ids: list[int], name: str, out: Tensor
    ) -> Updates:
        """The columns here of the updates of clients, in ``out`` (n, k) if it has that width."""
        share, rows = self.share, self.share.here(clients)
        chosen, named = ([every[row] for row in rows] for every in (clients, ids))
        own = super().train_clients(population, chosen, named, name, self.federation.rows(len(rows)))
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
