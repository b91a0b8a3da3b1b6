"""Protocols: FedBuff against a simulation event by event, and what holds for every protocol."""

import copy
import heapq
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from robustfl_bench.base.errors import BrokenContract, ConfigError
from robustfl_bench.doors.testing import check_protocol
from robustfl_bench.parts.protocols.base import Engine, Protocol
from robustfl_bench.parts.protocols.buffered import Buffered
from robustfl_bench.parts.protocols.state import Round, State
from robustfl_bench.runner.config import compose, options
from robustfl_bench.train.federation import Federation
from robustfl_bench.train.rounds import initial_state, step
from tests.conftest import Bench
from tests.presets import Recording, trained
from tests.presets import small as federation
from tests.rounds import build

SMALL = ("num_clients=12", "num_byzantine=3", "byzantine_placement=replace", "rounds=12", "lr=0.5")
BUFFERED = (*SMALL, "protocol=buffered", "protocol.buffer=5", "protocol.stragglers=0.3")


@pytest.mark.parametrize("name", options.names("protocol"))
def test_every_protocol_keeps_its_promises(name: str) -> None:
    protocol = build("protocol", name) if name != "synchronous" else Protocol()
    check_protocol(protocol, *(["aggregator=rar"] if name == "ring" else []))


@pytest.mark.parametrize(
    "overrides",
    [
        ("attack=ipm", "aggregator=krum"),
        ("attack=label_flip", "aggregator=coomed", "participation=0.6", "batch_size=4"),
        ("attack=lie", "aggregator=centered_clipping", "local_update=momentum", "byzantine_placement=add"),
        ("attack=minmax", "knowledge=own", "aggregator=geomed", "pre_aggregation=nnm"),
    ],
    ids=lambda overrides: overrides[0],
)
def test_a_buffer_for_all_clients_makes_synchronous_rounds_to_the_bit(overrides: tuple[str, ...]) -> None:
    plain, plain_rows = trained(federation(*SMALL, *overrides))
    buffered, rows = trained(federation(*SMALL, *overrides, "protocol=buffered", "protocol.buffer=null"))
    assert torch.equal(plain.params, buffered.params)
    times = [row.pop("simulated_time") for row in rows]
    assert {row.pop("mean_staleness") for row in rows} == {0}
    assert plain_rows == rows and times == sorted(times) and times[0] > 0


def event_by_event(f: Federation, protocol: Buffered) -> tuple[Tensor, list[float], list[float]]:
    """FedBuff as its authors tell it: a queue of arrivals, one gradient at a time in float64. Returns the last model,
    and the time and the mean staleness of every step."""
    module, settings = copy.deepcopy(f.network.module).double(), f.settings
    byzantine = dict(zip(f.clients.byzantine_ids.tolist(), range(len(f.clients.byzantine_ids)), strict=True))
    honest = dict(zip(f.clients.honest_ids.tolist(), range(len(f.clients.honest_ids)), strict=True))

    def gradient(client: int, params: Tensor) -> Tensor:
        population, place = (f.byzantine, byzantine[client]) if client in byzantine else (f.honest, honest[client])
        rows = population.slice(place)
        nn.utils.vector_to_parameters(params, module.parameters())
        loss = nn.functional.cross_entropy(module(population.x[rows].double()), population.y[rows])
        return torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, list(module.parameters()))])

    def draws(name: str, round: int, normal: bool = False) -> np.ndarray:
        return f.cohorts.draw(name, round, lambda n, rng: rng.normal(size=n) if normal else rng.random(n))

    slow = draws("stragglers", 0) < protocol.stragglers
    queue: list[tuple[float, int, int]] = []

    def send(clients: list[int], version: int, now: float) -> None:
        lengths = np.abs(draws("training time", version, normal=True)) * math.sqrt(math.pi / 2)
        for client in clients:
            heapq.heappush(queue, (now + lengths[client] * (protocol.slowdown if slow[client] else 1), client, version))

    models, times, staleness = [f.network.initial.double()], [], []
    order = draws("participation", 0).argsort().tolist()
    send(order[: settings.clients_per_round], 0, 0.0)
    for round in range(f.settings.rounds):
        total, ages = torch.zeros_like(models[0]), []
        for _ in range(protocol.updates_per_round(settings.clients_per_round)):
            now, client, version = heapq.heappop(queue)
            start = round if client in byzantine and protocol.attackers == "fresh" else version
            ages.append(round - start)
            factor = 1 / math.sqrt(1 + ages[-1]) if protocol.staleness == "sqrt" else 1.0
            total += factor * gradient(client, models[start])
        models.append(models[-1] - settings.lr * total / len(ages))
        times.append(now)
        staleness.append(float(np.mean(ages)))
        busy = {client for _, client, _ in queue}
        idle = [client for client in draws("participation", round + 1).argsort().tolist() if client not in busy]
        send(idle[: len(ages)], round + 1, now)
    return models[-1].detach(), times, staleness


@pytest.mark.parametrize("attackers", ["like_honest", "fresh"])
@pytest.mark.parametrize("staleness", ["sqrt", "none"])
@pytest.mark.parametrize("participation", [1.0, 0.6])
def test_it_is_fedbuff_event_by_event(attackers: str, staleness: str, participation: float) -> None:
    asked = (*BUFFERED, f"protocol.attackers={attackers}", f"protocol.staleness={staleness}", "attack=label_flip")
    f = federation(*asked, f"participation={participation}")
    state, rows = trained(f)
    assert isinstance(f.parts.protocol, Buffered)
    params, times, ages = event_by_event(f, f.parts.protocol)
    assert [row["simulated_time"] for row in rows] == pytest.approx(times)
    assert [row["mean_staleness"] for row in rows] == pytest.approx(ages) and max(ages) > 1
    torch.testing.assert_close(state.params[0].double(), params, rtol=1e-4, atol=1e-5)


def test_times_do_not_depend_on_rule_or_attack_and_options_change_what_they_say() -> None:
    def times(*overrides: str) -> list[float]:
        return [row["simulated_time"] for row in trained(federation(*BUFFERED, *overrides))[1]]

    usual = times("attack=ipm", "aggregator=coomed")
    assert usual == times("attack=label_flip", "aggregator=geomed") == times("attack=ipm", "protocol.attackers=fresh")
    waits = [times("attack=ipm", "protocol.buffer=null", f"protocol.slowdown={factor}")[-1] for factor in (1, 2, 10)]
    assert waits == sorted(waits) and waits[0] < waits[2] / 5 and usual[-1] < waits[2] / 5
    assert times("attack=ipm", "seed=1") != usual
    added = times("attack=ipm", "byzantine_placement=add", "protocol.stragglers=0")
    assert added == times("attack=lie", "byzantine_placement=add", "protocol.stragglers=0")


@pytest.mark.parametrize("attackers", ["like_honest", "fresh"])
def test_a_crafted_update_is_scaled_as_its_staleness_says(attackers: str) -> None:
    """IPM sends the honest mean of the buffer times a constant; stale honest rows are scaled as well."""
    seen: list[Tensor] = []
    f = federation(*BUFFERED, "attack=ipm", f"protocol.attackers={attackers}", aggregator=Recording(seen))
    state, factors, ages = initial_state(f), list[float](), list[int]()
    for _ in range(f.settings.rounds):
        version = state.protocol.get("version", torch.zeros(12, dtype=torch.int64)).numpy()
        age, (state, happened) = state.round - version, step(f, state)
        (cohort,) = happened.cohorts
        rows = seen[-1].double()
        scales = torch.from_numpy(1 / np.sqrt(1 + age[f.clients.honest_ids[cohort.honest]]))
        honest = (rows[: len(scales)] / scales[:, None]).mean(dim=0)
        for row, old in zip(rows[len(scales) :], age[f.clients.byzantine_ids[cohort.byzantine]].tolist(), strict=True):
            scale = 1 / math.sqrt(1 + old) if attackers == "like_honest" else 1.0
            factors.append(float(row @ honest / (honest @ honest)) / scale)
            ages.append(old)
    assert len(factors) > 5 and max(ages) > 1
    assert factors[0] < 0 and factors == pytest.approx([factors[0]] * len(factors), rel=1e-4)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["protocol.buffer=40"], "protocol.buffer must be at most the 12 clients that train, got 40"),
        (["protocol.buffer=3"], "3 attackers can fill a buffer of 3: take a larger protocol.buffer"),
        (["protocol.buffer=0"], "buffer must be >= 1, got 0"),
        (["protocol.staleness=cubic"], "staleness must be one of sqrt, none, got 'cubic'"),
        (["protocol.attackers=late"], "attackers must be one of like_honest, fresh, got 'late'"),
        (["protocol.slowdown=0.5"], "slowdown must be >= 1, got 0.5"),
        (["availability=unreliable"], "set availability=none"),
        (["local_update=rsa", "aggregator=rsa"], "local_update Rsa sends models"),
        (["dataset=rotated_digits", "partition=natural", "clustering=ifca"], "set clustering=none"),
    ],
)
def test_what_cannot_be_is_one_line(bench: Bench, overrides: list[str], words: str) -> None:
    bench(*BUFFERED, "attack=ipm", *overrides).refused(2, words)


@pytest.mark.parametrize(
    ("override", "now"),
    [
        ("communication=ring", "protocol=ring"),
        ("communication=none", "protocol=synchronous"),
        ("communication.bits=16", "protocol.bits=16"),
    ],
)
def test_the_former_name_of_the_group_says_the_new_one(bench: Bench, override: str, now: str) -> None:
    outcome = bench(override, "aggregator=rar")
    assert (outcome.code, outcome.err) == (2, f"error: communication is now called protocol: write {now}\n")
    with pytest.raises(ConfigError, match=f"write {now}"):
        compose.resolve([override])


class Forgetful(Protocol):
    """Returns the state without its round."""

    def step(self, engine: Engine, state: State) -> tuple[State, Round]:
        after, happened = super().step(engine, state)
        return replace(after, round=state.round), happened


class Keeps(Protocol):
    """Keeps its rounds on itself."""

    def __init__(self) -> None:
        self.count = 0

    def step(self, engine: Engine, state: State) -> tuple[State, Round]:
        self.count += 1
        return super().step(engine, state)


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        (Forgetful(), "protocol Forgetful made round 1 and a state after 0 rounds, expected 1"),
        (Keeps(), "protocol Keeps keeps count on itself, which is lost when a run resumes"),
    ],
)
def test_a_protocol_that_breaks_its_contract_is_named(protocol: Protocol, words: str) -> None:
    f = federation(*SMALL, protocol=protocol)
    with pytest.raises(BrokenContract, match=words):
        step(f, initial_state(f))


class Picky(Protocol):
    """Takes the clients whose first parameters are small, so the rule decides who takes part."""

    def step(self, engine: Engine, state: State) -> tuple[State, Round]:
        (cohort,) = engine.cohorts(state)
        half = len(cohort.honest) // 2 + int(float(state.params.sum()) * 1e6) % 2
        cohorts = [replace(cohort, honest=cohort.honest[:half])]
        return engine.after(state, cohorts, [engine.context(state, cohorts).complete()])


def test_check_protocol_tells_unpaired_clients() -> None:
    with pytest.raises(AssertionError, match="Picky: paired: the honest clients of a round depend"):
        check_protocol(Picky())
    Picky.exempt = {"paired": "picks by the model"}
    check_protocol(Picky())


def test_a_class_from_outside_is_a_protocol(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_course.py").write_text(
        "from dataclasses import dataclass\n\nfrom robustfl_bench import Protocol\n\n\n@dataclass(frozen=True)\n"
        "class Counted(Protocol):\n    reports = ('answers',)\n    weight: float = 1.0\n\n"
        "    def step(self, engine, state):\n        cohorts = engine.cohorts(state)\n"
        "        trained = engine.context(state, cohorts).complete()\n"
        "        notes = {'answers': self.weight * len(cohorts[0])}\n"
        "        return engine.after(state, cohorts, [trained], notes=notes)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    small = ("rounds=2", "model.hidden=[4]", "num_clients=5", "attack=none")
    outcome = bench("protocol=own_course:Counted", "protocol.weight=2", *small)
    assert outcome.code == 0, outcome.err
    (rows,) = [path.read_text() for path in tmp_path.glob("results/runs/*/metrics.csv")]
    header, *lines = rows.splitlines()
    assert header.split(",")[-1] == "protocol_answers" and {line.split(",")[-1] for line in lines} == {"10"}
    assert compose.resolve(["protocol=own_course:Counted", *small]).run_id != compose.resolve([*small]).run_id
