"""Rules on updates whose columns are in several places: the same aggregates and weights as with all in one."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor

from robustfl_bench.aggregators.base import Aggregator, ServerView
from robustfl_bench.attacks.base import Attack, AttackView, Crafted
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.numerics.places import Place
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.protocols.chunks import chunks
from robustfl_bench.testing import example_round, example_view
from tests.rounds import build, names

RULES = [name for name in names("aggregator") if name != "boba_es"]
NEED_ROWS = {"byzfl", "zeno", "avgrej", "selfrej"}  # rules that test each client's whole model on the server's data


def rule(name: str) -> Aggregator:
    made: Aggregator = build("aggregator", name, num_byzantine=3)
    return made


Result = TypeVar("Result")


class Asked(BaseException):
    """A place asks for a sum that is not known yet."""


class Group:
    """Places in one process. Each computes until it needs what another has not computed yet, and then starts anew."""

    def __init__(self, size: int, d: int) -> None:
        self.columns, self.d = chunks(d, size), d
        self._answered: list[list[Tensor]] = []  # the parts of every exchange so far
        self._next, self._asked = 0, torch.empty(0)

    def _gathered(self, part: Tensor) -> list[Tensor]:
        if self._next == len(self._answered):
            self._asked = part.clone()
            raise Asked
        self._next += 1
        return [part.clone() for part in self._answered[self._next - 1]]

    def _add_up(self, numbers: Tensor) -> Tensor:
        total, *others = self._gathered(numbers)
        for other in others:
            total += other
        return total

    def place(self, rank: int) -> Place:
        return Place(self.d, self.columns[rank].start, self.columns[rank].stop, self._add_up)

    def server(self, rank: int, server: ServerView) -> ServerView:
        """The view of a server whose vectors have the columns of a place."""
        mine = self.columns[rank]

        def whole(model: Tensor) -> Tensor:
            return torch.cat(self._gathered(model), dim=-1)

        return replace(
            server,
            params=server.params[mine],
            rng=np.random.default_rng(0),
            previous=None if server.previous is None else server.previous[mine],
            train_per_class=lambda: server.class_updates[:, mine],
            train_together=lambda: server.update[mine],
            gradient=lambda model: server.gradient(whole(model))[mine],
            loss=lambda models: server.loss(whole(models)),
            losses_of=lambda model, clients: server.losses_of(whole(model), clients),
        )

    def everywhere(self, work: Callable[[int, slice], Result]) -> list[Result]:
        """The results of ``work`` (rank, its columns) of every place."""
        self._answered = []
        while True:
            found, asked = list[Result](), list[Tensor]()
            for rank, mine in enumerate(self.columns):
                self._next = 0
                try:
                    found.append(work(rank, mine))
                except Asked:
                    asked.append(self._asked)
            if len(found) == len(self.columns):
                return found
            assert len(asked) == len(self.columns), "some places ask for a sum and others do not"
            self._answered.append(asked)

    def aggregates(self, rule: Aggregator, matrix: Tensor, server: ServerView) -> list[Aggregate]:
        """The aggregate of every place."""
        return self.everywhere(
            lambda rank, mine: rule(
                Updates(matrix[:, mine].contiguous(), place=self.place(rank)), self.server(rank, server)
            )
        )


def near_ties() -> tuple[Tensor, ServerView]:
    """Clients that differ in the third digit."""
    updates, server = example_round(2, 17, 3)
    return updates.matrix[:1] + 1e-3 * updates.matrix, server


def outliers() -> tuple[Tensor, ServerView]:
    """Honest clients under label skew, and attackers of all sizes, two of them opposite."""
    updates, server = example_round(3, 17, 3)
    rows = updates.matrix.clone()
    rows[0] *= 1e4
    rows[1], rows[2] = 1e12 * rows[5], -1e12 * rows[5]
    return rows, server


def skewed() -> tuple[Tensor, ServerView]:
    """A second round: the server has a last aggregate and remembers nothing of its rule."""
    updates, server = example_round(4, 17, 3)
    return updates.matrix, replace(server, previous=updates.matrix[5:].mean(dim=0), layers=(7, 20, 3, 20))


@pytest.mark.parametrize("round_", [near_ties, outliers, skewed])
@pytest.mark.parametrize("name", [name for name in RULES if name not in NEED_ROWS])
def test_rules_do_not_care_where_columns_are(name: str, round_: Callable[[], tuple[Tensor, ServerView]]) -> None:
    matrix, server = round_()
    alone = rule(name)(Updates(matrix), replace(server, rng=np.random.default_rng(0)))
    lengths = matrix.norm(dim=1).double()
    unit = lengths.median()
    summed = 0.0 if alone.weights is None else float(alone.weights.abs() @ lengths)  # float32 rounds every summand
    for size in (1, 2, 7):
        found = Group(size, matrix.shape[1]).aggregates(rule(name), matrix, server)
        vector = torch.cat([aggregate.vector for aggregate in found])
        assert (vector - alone.vector).norm() <= 2e-5 * max(unit, alone.vector.norm()) + 1e-6 * summed, size
        for aggregate in found:
            assert (aggregate.weights is None) == (alone.weights is None)
            if aggregate.weights is not None and alone.weights is not None:
                assert torch.equal(aggregate.weights, found[0].weights), size
                assert torch.allclose(aggregate.weights, alone.weights, atol=1e-5), size


@pytest.mark.parametrize("name", sorted(NEED_ROWS & set(RULES)))
def test_rules_that_need_whole_updates_say_so(name: str) -> None:
    matrix, server = skewed()
    with pytest.raises(ConfigError, match="whole updates are needed"):
        Group(2, matrix.shape[1]).aggregates(rule(name), matrix, server)


def test_more_places_than_columns() -> None:
    matrix, server = example_round(5, 9, 3, d=3)[0].matrix, example_round(5, 9, 3, d=3)[1]
    for name in ("krum", "trmean", "geomed", "average"):
        found = Group(5, 3).aggregates(rule(name), matrix, server)
        vector = torch.cat([aggregate.vector for aggregate in found])
        assert torch.allclose(vector, rule(name)(Updates(matrix), server).vector, atol=1e-5), name


def test_mixed_and_appended_updates_stay_where_they_are() -> None:
    matrix = example_round(6)[0].matrix
    place = Group(1, matrix.shape[1]).place(0)
    updates = Updates(matrix, place=replace(place, d=2 * place.d))
    mixed = updates.mix(torch.eye(20, dtype=torch.float64))
    assert mixed.place == updates.place
    assert mixed.d == 2 * matrix.shape[1]
    with pytest.raises(ConfigError, match="whole updates"):
        _ = mixed.matrix


CRAFTED = [name for name in names("attack") if (made := build("attack", name)).crafts and made.by_columns]


def crafted(attack: Attack, view: AttackView) -> tuple[Tensor, dict[str, Tensor]]:
    """Two rounds: the rows of the second, and the memory."""
    view.rng = np.random.default_rng(1)
    first = attack.craft(view)
    view.memory = first.memory if isinstance(first, Crafted) else {}
    view.previous = view.params
    made = attack.craft(view)
    return (made.rows, dict(made.memory)) if isinstance(made, Crafted) else (made, {})


@pytest.mark.parametrize(
    "name", [*CRAFTED, "mimic attack.warmup=5", "lie attack.noise=each", "free_rider attack.noise=1"]
)
def test_attacks_by_columns_do_not_care_where_columns_are(name: str) -> None:
    attack = build("attack", *name.split())
    rows, _ = crafted(attack, example_view())
    unit = example_view().honest.norms.median()

    def at(rank: int, mine: slice) -> Tensor:
        whole, place = example_view(), group.place(rank)
        honest = Updates(whole.honest.matrix[:, mine].contiguous(), whole.honest.counts, place=place)
        view = replace(
            whole, honest=honest, params=whole.params[mine], train_own=lambda _: whole.train_own(whole.params)[:, mine]
        )
        return crafted(attack, view)[0]

    for size in (2, 5):
        group = Group(size, example_view().honest.d)
        found = torch.cat(group.everywhere(at), dim=-1)
        assert found.shape == rows.shape
        assert (found - rows).norm() <= 1e-5 * max(unit, rows.norm()), size


def test_the_attacks_of_papers_work_by_columns() -> None:
    assert set(CRAFTED) >= {"gauss", "ipm", "lie", "mimic", "minmax", "minsum", "sign_flip", "trim_attack", "rop"}
