"""The engine against the obvious: gradients one client at a time, and what must not depend on what."""

import copy
import hashlib
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from robustfl_bench.base import seeding
from robustfl_bench.interfaces import Aggregator, Attack, AttackView, ConfigError, Shard
from robustfl_bench.numerics.metrics import max_recall_drop, recall_per_class
from robustfl_bench.numerics.network import flat
from robustfl_bench.numerics.network import network as engine_network
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch, Population, Samples
from robustfl_bench.numerics.products import times_transposed
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.models.cnn import Cnn
from robustfl_bench.parts.models.mlp import Mlp
from robustfl_bench.parts.schedules.constant import Constant
from robustfl_bench.parts.schedules.inverse_time import InverseTime
from robustfl_bench.parts.schedules.step import Step
from robustfl_bench.train.loop import run
from robustfl_bench.train.metrics import METRICS
from robustfl_bench.train.rounds import initial_state
from tests.presets import planned, trained
from tests.presets import small as federation


class Tied(nn.Module):
    """A module the layer-wise path must not touch: one weight used twice, and a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.scale = nn.Parameter(torch.ones(6))
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(torch.relu(self.layer(x.flatten(1)))) * self.scale
        out: Tensor = self.head(x)
        return out


MODELS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "mlp": (Mlp((7, 5)), (1, 4, 4)),
    "linear": (Mlp(()), (5,)),
    "cnn": (Cnn((3, 4), dense=6), (2, 10, 10)),
    "tied": (lambda shape, classes: Tied(), (6,)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("chunk", [1, 10, 1000])
def test_client_gradients_are_those_of_autograd_one_client_at_a_time(
    name: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flat, "CHUNK", chunk)
    monkeypatch.setattr(flat, "CONVOLUTIONS_CHUNK", chunk)
    model, shape = MODELS[name]
    network = Network(model, shape, 3, seed=1)
    rng = torch.Generator().manual_seed(0)
    sizes = (5, 1, 8, 3)
    x, y = torch.randn(sum(sizes), *shape, generator=rng), torch.randint(3, (sum(sizes),), generator=rng)
    params = network.initial + 0.1 * torch.randn(network.dim, generator=rng)
    out = torch.full((len(sizes), network.dim), float("nan"))
    losses = network.gradients(params, Batch(x, y, sizes), out)

    module = copy.deepcopy(network.module).double()
    nn.utils.vector_to_parameters(params.double(), module.parameters())
    for row, loss, xs, ys in zip(out, losses, x.split(sizes), y.split(sizes), strict=True):
        module.zero_grad()
        expected = nn.functional.cross_entropy(module(xs.double()), ys)
        expected.backward()
        gradient = torch.cat([p.grad.reshape(-1) for p in module.parameters() if p.grad is not None])
        torch.testing.assert_close(row.double(), gradient, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["linear", "mlp", "cnn"])
def test_losses_and_errors_of_a_stack_of_models_are_those_of_each(name: str) -> None:
    model, shape = MODELS[name]
    network = Network(model, shape, 3, seed=0)
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(1500, *shape, generator=rng), torch.randint(3, (1500,), generator=rng)
    stack = (
        network.initial * torch.linspace(-4, 4, 2 * engine_network.MODELS + 1)[:, None]
    )  # zero: all outputs are equal
    each = [network.evaluate(params, x, y) for params in stack]
    losses, errors = network.assess(stack, x, y)
    torch.testing.assert_close(losses, torch.tensor([loss for loss, _ in each], dtype=torch.float64), rtol=1e-6, atol=0)
    assert errors is not None
    assert (errors * len(y)).round().tolist() == [c.sum() - c.trace() for _, c in each if c is not None]
    assert torch.equal(network.losses(stack, x, y), losses)


@pytest.mark.parametrize("name", ["linear", "cnn"])
def test_evaluation_counts_every_sample_once(name: str) -> None:
    model, shape = MODELS[name]
    network = Network(model, shape, 3, seed=0)
    x, y = torch.randn(5000, *shape, generator=torch.Generator().manual_seed(0)), torch.arange(5000) % 3
    loss, confusion = network.evaluate(network.initial, x, y)
    assert confusion is not None
    predicted = network.logits(network.initial, x).argmax(1)
    expected = np.zeros((3, 3), dtype=int)
    np.add.at(expected, (y.numpy(), predicted.numpy()), 1)
    np.testing.assert_array_equal(confusion, expected)
    assert loss == pytest.approx(float(nn.functional.cross_entropy(network.logits(network.initial, x), y)), rel=1e-5)


def test_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    Network(Mlp(), (6,), 3, seed=0)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("shape", [(64, 300, 100), (3, 7, 2), (500, 2500, 1)])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_are_exact_to_float32_whatever_computes_them(shape: tuple[int, int, int], transposed: bool) -> None:
    (m, k, n), rng = shape, torch.Generator().manual_seed(0)
    a = torch.randn(k, m, generator=rng).T if transposed else torch.randn(m, k, generator=rng)
    b = torch.randn(k, n, generator=rng).T if transposed else torch.randn(n, k, generator=rng)
    bias = torch.randn(n, generator=rng)
    expected = a.double() @ b.double().T
    scale = a.double().norm(dim=1)[:, None] * b.double().norm(dim=1)
    assert ((times_transposed(a, b) - expected).abs() <= 1e-6 * scale).all()
    assert ((times_transposed(a, b, bias) - expected - bias).abs() <= 1e-6 * scale + 1e-6).all()


VARIANTS = [
    ("attack=none", "aggregator=average"),
    ("attack=ipm", "aggregator=krum"),
    ("attack=gauss", "aggregator=boba"),
    ("attack=lie", "aggregator=coomed", "pre_aggregation=bucketing"),
]


@pytest.mark.parametrize("placement", ["add", "replace"])
def test_compared_runs_share_shards_model_batches_and_participants(placement: str) -> None:
    shared = ("num_clients=15", "num_byzantine=3", "batch_size=8", "participation=0.7")
    seen = []
    for variant in VARIANTS:
        f = federation(*shared, f"byzantine_placement={placement}", *variant)
        rounds = []
        for number in range(3):
            present = f.cohorts.present(number).honest
            ids = f.clients.honest_ids[present].tolist()
            batch = Samples(f.honest, present, ids, 0, "batches", number, 8).batch(0)
            rounds.append(dict(zip(ids, batch.x.split(batch.sizes), strict=True)))
        seen.append((f, rounds))
    first, first_rounds = seen[0]
    common = 0
    for other, other_rounds in seen[1:]:
        assert torch.equal(first.network.initial, other.network.initial)
        assert all(np.array_equal(a, b) for a, b in zip(first.clients.shards, other.clients.shards, strict=True))
        for mine, theirs in zip(first_rounds, other_rounds, strict=True):
            both = mine.keys() & theirs.keys()
            common += len(both)
            assert all(torch.equal(mine[i], theirs[i]) for i in both)
            if placement == "replace":
                assert theirs.keys() <= mine.keys()
    assert common > 50
    assert np.array_equal(seen[1][0].clients.byzantine_ids, seen[2][0].clients.byzantine_ids)


def test_seeds_change_shards_model_and_batches() -> None:
    a, b = federation("seed=0"), federation("seed=1")
    assert not torch.equal(a.network.initial, b.network.initial)
    assert not all(np.array_equal(x, y) for x, y in zip(a.clients.shards, b.clients.shards, strict=True))


def test_a_clients_batch_does_not_depend_on_who_else_takes_part() -> None:
    population = Population(torch.arange(40.0)[:, None], torch.arange(40), [np.arange(0, 20), np.arange(20, 40)])
    together = Samples(population, [0, 1], [0, 1], 3, "batches", 5, 4).batch(0)
    alone = Samples(population, [1], [1], 3, "batches", 5, 4).batch(0)
    assert torch.equal(together.x[4:], alone.x)
    assert len(set(together.y.tolist())) == 8  # without replacement
    assert not torch.equal(alone.x, Samples(population, [1], [1], 3, "batches", 6, 4).batch(0).x)


def test_with_more_attackers_the_earlier_ones_stay_byzantine() -> None:
    few, many = (
        federation("attack=ipm", "byzantine_placement=replace", f"num_byzantine={b}").clients.byzantine_ids
        for b in (3, 6)
    )
    assert set(few) < set(many)


@pytest.mark.parametrize(("participation", "expected"), [(0.25, 6), (0.5, 12), (1.0, 23)])
def test_the_stated_share_of_clients_takes_part(participation: float, expected: int) -> None:
    f = federation("attack=ipm", "num_clients=20", "num_byzantine=3", f"participation={participation}")
    counts = [(len(there.honest), len(there.byzantine)) for there in map(f.cohorts.present, range(50))]
    assert {honest + byzantine for honest, byzantine in counts} == {expected}
    if participation < 1:
        assert len(set(counts)) > 1


@pytest.mark.parametrize("placement", ["add", "replace"])
def test_of_each_kind_the_same_share_takes_part(placement: str) -> None:
    some = ("num_clients=20", "num_byzantine=6", f"byzantine_placement={placement}", "participation=0.5")
    f, other = (federation(*some, "participation_by=kind", attack) for attack in ("attack=ipm", "attack=lie"))
    there, number = [f.cohorts.present(round) for round in range(400)], len(f.clients.honest_ids)
    assert {(len(cohort.honest), len(cohort.byzantine)) for cohort in there} == {(number // 2, 3)}
    assert there[:9] == [other.cohorts.present(round) for round in range(9)]
    for kind, clients in (("honest", number), ("byzantine", 6)):
        shares = np.bincount([i for cohort in there for i in getattr(cohort, kind)], minlength=clients) / len(there)
        assert np.abs(shares - 0.5).max() < 0.1  # every client as often as another


def test_drawing_by_kind_defines_a_run_only_where_it_changes_it() -> None:
    some = ("num_clients=20", "num_byzantine=5", "byzantine_placement=replace", "attack=ipm")
    half, kind = (*some, "participation=0.4"), "participation_by=kind"
    assert planned(*half).run_id != planned(*half, kind).run_id
    assert planned(*some).run_id == planned(*some, kind).run_id
    assert planned(*half, "attack=none").run_id == planned(*half, "attack=none", kind).run_id
    with pytest.raises(ConfigError, match="participation_by=kind is for rounds with a server: set protocol=sync"):
        planned(*half, kind, "protocol=buffered")


class Wild(Attack):
    """One row of infinities, one of huge but finite numbers whose sum overflows, the rest not numbers."""

    def craft(self, view: AttackView) -> Tensor:
        rows = torch.full((view.num_byzantine, view.honest.d), float("nan"))
        rows[0], rows[1] = float("inf"), 3e38
        return rows


def test_a_rule_never_sees_a_non_finite_update_and_every_one_is_counted() -> None:
    seen: list[Updates] = []

    class Spy(Aggregator):
        def aggregate(self, updates: Updates, server: object) -> Any:
            seen.append(Updates(updates.matrix.clone()))
            return updates.combine(torch.zeros(updates.n, dtype=torch.float64))

    f = federation("attack=ipm", "rounds=2", attack=Wild(), aggregator=Spy())
    records = [record for _, record in run(f, initial_state(f), metrics=METRICS)]
    assert all(record is not None and record["non_finite_updates"] == 3 for record in records)
    for updates in seen:
        assert updates.matrix.isfinite().all()
        assert (updates.matrix[-4] == 0).all() and (updates.matrix[-3] == 3e38).all()


class Sleeper(Attack):
    """Sends what honest training on its own, poisoned data gives."""

    _poisoned = 0

    def poison(self, shard: Shard) -> tuple[Tensor, Tensor]:
        Sleeper._poisoned += 1
        return shard.x, shard.num_classes - 1 - shard.y


def test_data_poisoning_trains_on_poisoned_data_and_crafted_clients_never_train() -> None:
    replaced = ("attack=ipm", "byzantine_placement=replace", "rounds=2", "num_byzantine=4")
    trained(federation(*replaced, attack=Sleeper()))
    assert Sleeper._poisoned == 4  # once each, not every round
    trained(crafting := federation(*replaced))
    assert "byzantine" not in vars(crafting)  # their data were never even gathered
    with pytest.raises(ConfigError, match="byzantine_placement=replace"):
        trained(federation("attack=ipm", attack=Sleeper()))


def test_server_data_are_made_only_when_read() -> None:
    without, with_server = (federation("attack=ipm", f"aggregator={rule}", "rounds=1") for rule in ("krum", "boba"))
    for f in (without, with_server):
        trained(f)
    assert "server" not in vars(without.clients)
    assert "server" in vars(with_server.clients)


def test_three_rounds_by_hand() -> None:
    """The loop against plain full-batch gradient descent on the mean of the clients' losses."""
    f = federation("rounds=3", "lr=0.2")
    state, _ = trained(f)
    params = f.network.initial.double()
    module = copy.deepcopy(f.network.module).double()
    for _ in range(3):
        nn.utils.vector_to_parameters(params, module.parameters())
        losses = [
            nn.functional.cross_entropy(module(f.clients.data.train_x[i].double()), f.clients.data.train_y[i])
            for i in f.clients.shards
        ]
        gradient = torch.autograd.grad(torch.stack(losses).mean(), list(module.parameters()))
        params = params - 0.2 * torch.cat([g.reshape(-1) for g in gradient])
    torch.testing.assert_close(state.params[0].double(), params.detach(), rtol=1e-4, atol=1e-6)


GOLDEN = {  # may move in the last digits with the versions of PyTorch, NumPy and BLAS
    "average": (2.18544, 0.13333),
    "krum": (2.23157, 0.11111),
    "coomed": (2.19501, 0.12778),
    "boba": (2.18691, 0.13889),
}


@pytest.mark.parametrize("rule", GOLDEN)
def test_three_rounds_stay_what_they_were(rule: str) -> None:
    f = federation("rounds=3", f"aggregator={rule}")
    *_, (_, record) = run(f, initial_state(f), metrics=METRICS)
    assert record is not None
    loss, accuracy = GOLDEN[rule]
    assert record["test_loss"] == pytest.approx(loss, abs=2e-3)
    assert record["test_accuracy"] == pytest.approx(accuracy, abs=0.02)


def test_step_schedule_follows_table_6_of_boba() -> None:
    step, late = Step(100, 10, 0.95), Step(100, 10, 0.95, first_decay="late")
    assert [step(0.1, t) for t in (0, 99, 100, 109, 110)] == pytest.approx([0.1, 0.1, 0.095, 0.095, 0.09025])
    assert [late(0.1, t) for t in (100, 109, 110, 199)] == pytest.approx([0.1, 0.1, 0.095, 0.1 * 0.95**9])
    assert step(0.1, 199) == pytest.approx(0.0599, abs=1e-4)
    assert Constant()(0.3, 1000) == 0.3


def test_monnas_schedule_is_a_half_then_a_third_of_the_rate() -> None:
    found = [InverseTime()(0.6, t) for t in (0, 49, 50, 99, 100, 599)]
    assert found == pytest.approx([0.6, 0.6, 0.3, 0.3, 0.2, 0.05])
    assert InverseTime(halving=10, interval=1)(0.6, 5) == pytest.approx(0.4)


def test_max_recall_drop_and_recall_by_hand() -> None:
    assert recall_per_class([[8, 2], [5, 15]]) == pytest.approx([0.8, 0.75])
    assert np.isnan(recall_per_class([[0, 0], [1, 1]])[0])
    assert max_recall_drop([0.9, 0.8, 0.7], [0.85, 0.95, 0.6]) == pytest.approx(0.1)
    assert max_recall_drop([0.9, 0.8, 0.7], [0.85, 0.95, 0.6], absolute=True) == pytest.approx(0.15)
    assert max_recall_drop([0.5, 0.5], [0.6, 0.7]) == pytest.approx(-0.1)


def test_streams_are_named() -> None:
    def draw(*name: str | int) -> list[float]:
        return seeding.generator(*name).random(3).tolist()  # type: ignore[arg-type]

    assert draw(0, "a", 1) == draw(0, "a", 1)
    streams = [draw(0, "a", 1), draw(0, "a", 2), draw(1, "a", 1), draw(0, "b", 1), draw(0, "a1"), draw(0, "a", 11)]
    assert len({tuple(stream) for stream in streams}) == len(streams)
    assert seeding.integer(0, "a") < 2**63


@pytest.mark.parametrize("name", [(), ("client", 3, 7), ("a", 2**40)])
def test_a_stream_is_philox_with_the_digest_of_its_name_as_key(name: tuple[str | int, ...]) -> None:
    digest = hashlib.blake2b("\x1f".join(["5", *map(str, name)]).encode(), digest_size=16).digest()
    expected = np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "big")))
    found = seeding.generator(5, *name)
    assert np.array_equal(found.integers(2**63, size=99), expected.integers(2**63, size=99))
