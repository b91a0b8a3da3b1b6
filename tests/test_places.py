"""Rules on updates whose columns are in several places, in a file, or in bfloat16: the same aggregates and weights as
with all in one memory, in float32."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.doors.testing import example_round, example_view
from robustfl_bench.numerics import in_bfloat16, on_disk
from robustfl_bench.numerics.places import Place
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerView
from robustfl_bench.parts.attacks.base import Attack, AttackView, Crafted
from robustfl_bench.parts.protocols.chunks import chunks
from robustfl_bench.train.federation import federation_of
from robustfl_bench.train.rounds import initial_state, step
from robustfl_bench.train.storage import InBfloat16, InMemory, OnDisk
from tests.presets import small, trained
from tests.rounds import build, fewest, names

RULES = [name for name in names("aggregator") if name != "boba_es"]
NEED_ROWS = {"byzfl", "zeno", "avgrej", "selfrej"}  # rules that test each client's whole model on the server's data


OTHER_RUNS = {"none", "planned", "brifca_outlier", "dba"}  # attacks of other data, and of many rounds


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
            after=lambda vector: server.after(whole(vector))[mine],
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


def near_ties_of(rows: Tensor) -> Tensor:
    """Clients that differ in the third digit."""
    return rows[:1] + 1e-3 * rows


def outliers_of(rows: Tensor) -> Tensor:
    """Honest clients under label skew, and attackers of all sizes, two of them opposite."""
    rows = rows.clone()
    rows[0] *= 1e4
    rows[1], rows[2] = 1e12 * rows[5], -1e12 * rows[5]
    return rows


def near_ties() -> tuple[Tensor, ServerView]:
    updates, server = example_round(2, 17, 3)
    return near_ties_of(updates.matrix), server


def outliers() -> tuple[Tensor, ServerView]:
    updates, server = example_round(3, 17, 3)
    return outliers_of(updates.matrix), server


def skewed() -> tuple[Tensor, ServerView]:
    """A second round: the server has a last aggregate and remembers nothing of its rule."""
    updates, server = example_round(4, 17, 3)
    return updates.matrix, replace(server, previous=updates.matrix[5:].mean(dim=0), layers=(7, 13, 25, 5))


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


@pytest.mark.parametrize("name", [name for name in RULES if name not in NEED_ROWS])
def test_rules_do_not_care_where_columns_are_with_the_fewest_clients(name: str) -> None:
    """Where the last of Krum's selections compare one distance, which places add up in another order."""
    for f in (1, 2):
        made: Aggregator = build("aggregator", name, num_byzantine=f)
        for seed in range(3):
            updates, server = example_round(seed, fewest(made, f) - f, f, d=20)
            alone = made(Updates(updates.matrix), replace(server, rng=np.random.default_rng(0))).vector
            found = Group(2, 20).aggregates(made, updates.matrix, server)
            vector = torch.cat([aggregate.vector for aggregate in found])
            assert torch.allclose(vector, alone, rtol=1e-3, atol=1e-4), (f, seed)


@pytest.mark.parametrize("name", sorted(NEED_ROWS & set(RULES)))
def test_rules_that_need_whole_updates_say_so(name: str) -> None:
    matrix, server = skewed()
    with pytest.raises(ConfigError, match="whole updates are needed"):
        Group(2, matrix.shape[1]).aggregates(rule(name), matrix, server)


WIDE = 17_000  # columns: more than a block of those that are read once


def on_file(rows: Tensor, folder: Path) -> Tensor:
    """A copy of the rows in a file."""
    stored = on_disk.empty(*rows.shape, folder)
    stored[:] = rows
    return stored


@pytest.mark.parametrize("change", [near_ties_of, outliers_of])
@pytest.mark.parametrize("name", RULES)
def test_rules_on_a_file_give_the_same_bytes(name: str, change: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    updates, server = wide()
    matrix = change(updates)
    found = rule(name)(Updates(on_file(matrix, tmp_path)), replace(server, rng=np.random.default_rng(0)))
    alone = rule(name)(Updates(matrix), replace(server, rng=np.random.default_rng(0)))
    assert torch.equal(found.vector, alone.vector)
    assert (found.weights is None) == (alone.weights is None)
    assert found.weights is None or alone.weights is None or torch.equal(found.weights, alone.weights)


@cache
def wide() -> tuple[Tensor, ServerView]:
    updates, server = example_round(7, 17, 3, d=WIDE)
    return updates.matrix, server


@pytest.mark.parametrize("attack", [name for name in names("attack") if name not in OTHER_RUNS])
def test_attacks_on_a_file_give_the_same_bytes(attack: str, tmp_path: Path) -> None:
    run = (f"attack={attack}", "num_clients=9", "num_byzantine=2", "byzantine_placement=replace", "rounds=1",
           "aggregator=trmean", "partition=iid", f"results_dir={tmp_path}")  # fmt: skip
    asked, ends = small(*run), []
    for store in (InMemory, partial(OnDisk, folder=tmp_path)):
        federation = federation_of(asked.settings, asked.parts, asked.clients.data, store)
        ends.append(step(federation, initial_state(federation))[0].params)
    assert torch.equal(*ends)


def test_columns_are_read_from_the_file_and_all_else_is_mapped(tmp_path: Path) -> None:
    rows = torch.arange(40.0).reshape(4, 10)
    stored = on_file(rows, tmp_path)
    part = stored[1:, 2:8]
    assert torch.equal(part, rows[1:, 2:8])
    assert torch.equal(part[:, 1:3], rows[1:, 3:5]) and torch.equal(part[[2, 0]], rows[[3, 1], 2:8])
    stored[2] = -1.0
    assert (part[1] == -1).all() and (stored[:, 4:6][2] == -1).all()
    assert np.array_equal(stored.numpy()[:, 3:9], stored[:, 3:9].numpy())
    far = on_file(torch.arange(8192.0).reshape(2, 4096), tmp_path)
    assert far.numpy()[:, ::2048].tolist() == [[0, 2048], [4096, 6144]]
    assert not list(tmp_path.iterdir()), "the files have no names"


def test_few_pages_of_a_file_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_disk, "RESIDENT", 1 << 22)
    stored, before = on_disk.empty(64, 1 << 18, tmp_path), on_disk._resident()  # 64 MiB
    stored[:] = 1.0
    for _ in range(1000):
        if on_disk._resident() < before + (1 << 23):
            break
        time.sleep(0.01)
    assert on_disk._resident() < before + (1 << 23)
    assert stored.sum() == 1 << 24


def test_a_disk_without_room_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"need a file of 4e\+06 GB .*: .*results_dir"):
        on_disk.empty(10**6, 10**9, tmp_path)


@pytest.mark.parametrize("name", RULES)
def test_rules_on_updates_in_bfloat16_give_the_same_bytes(name: str) -> None:
    updates, server = wide()
    for change, columns in ((near_ties_of, WIDE), (outliers_of, WIDE), (outliers_of, 40)):
        matrix = change(updates)[:, :columns].bfloat16().float()
        stored = in_bfloat16.empty(*matrix.shape)
        stored[:] = matrix
        view = server if columns == WIDE else example_round(7, 17, 3, d=columns)[1]
        found, alone = (rule(name)(Updates(rows), replace(view, rng=np.random.default_rng(0)))
                        for rows in (stored, matrix))  # fmt: skip
        assert type(found.vector) is Tensor and torch.equal(found.vector, alone.vector)
        assert (found.weights is None) == (alone.weights is None)
        assert found.weights is None or alone.weights is None or torch.equal(found.weights, alone.weights)


@pytest.mark.parametrize(
    "run",
    [("attack=none", "aggregator=krum", "local_update=momentum"),
     ("attack=lie", "aggregator=trmean", "participation=0.6", "batch_size=8"),
     ("attack=label_flip", "aggregator=boba", "local_update=local_sgd", "batch_size=8"),
     ("attack=gaussian", "aggregator=lasa", "eval_every=3")],
)  # fmt: skip
def test_rounds_with_updates_in_bfloat16_give_the_same_bytes(run: tuple[str, ...]) -> None:
    asked = small(*run, "num_clients=19", "num_byzantine=3", "byzantine_placement=replace", "rounds=3",
                  "partition=dirichlet", "protocol=star", "protocol.bits=16",
                  "protocol.update_dtype=bfloat16")  # fmt: skip
    ends = [trained(federation_of(asked.settings, asked.parts, asked.clients.data, store))[0].params
            for store in (InMemory, partial(InBfloat16, batch_size=asked.settings.batch_size))]  # fmt: skip
    assert torch.equal(*ends)


def test_updates_in_bfloat16_are_written_by_rows_and_read_as_float32() -> None:
    rows = torch.randn(5, 7)
    stored = in_bfloat16.empty(5, 7)
    stored[:2], stored[2:] = rows[:2], rows[2:]
    rounded = rows.bfloat16().float()
    assert stored.dtype == torch.float32 and stored.nbytes == 4 * 35 and stored[1:].stored.nbytes == 2 * 28
    stored[1:][torch.tensor([0, 2])] = 0.0
    for row in stored:
        row.copy_(row.bfloat16())
    rounded[[1, 3]] = 0
    for read in (lambda m: m[:, 2:5], lambda m: m[3], lambda m: m.sum(dim=1), lambda m: m.abs().amax(dim=0),
                 lambda m: torch.stack(list(m)), lambda m: torch.cat([m, m]), lambda m: m @ m.T,
                 lambda m: m.split(3, 1)[1] + 1,
                 lambda m: m[[2, 0], 1:],
                 lambda m: torch.from_numpy(np.asarray(m)), lambda m: torch.from_numpy(m.numpy()[:, ::3]),
                 lambda m: torch.from_numpy(m.numpy().max(axis=0) - m.numpy()), lambda m: m.new_ones(3)):  # fmt: skip
        assert type(read(stored)) is Tensor and torch.equal(read(stored), read(rounded))
    with pytest.raises(TypeError, match="stored in bfloat16"):
        stored.add_(1)


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
