"""Momentum and weight decay of the clients and of the server, against PyTorch's optimisers and by hand."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robustfl_bench.base import seeding
from robustfl_bench.interfaces import LocalUpdate, ServerOptimizer
from robustfl_bench.numerics.network.client_rows import ClientRows
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Population, Samples
from robustfl_bench.parts.local_updates.fedsgd import FedSgd
from robustfl_bench.parts.local_updates.local_sgd import LocalSgd
from robustfl_bench.parts.local_updates.momentum import Momentum
from robustfl_bench.parts.local_updates.momentum_from_zero import MomentumFromZero
from robustfl_bench.parts.protocols.state import Memory, State
from robustfl_bench.parts.server_optimizers.adaptive import Adaptive
from robustfl_bench.parts.server_optimizers.sgd import Sgd
from robustfl_bench.runner.config import compose
from robustfl_bench.train.loop import run
from robustfl_bench.train.rounds import initial_state
from tests.presets import federation as clustered
from tests.presets import small, trained
from tests.rounds import refused
from tests.test_clustering import LINEAR
from tests.test_local_sgd import MEMORIES, NETWORK, START, gradient, population, samples
from tests.test_memory import through_a_file

# --- clients ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight_decay", [None, 0.2])
def test_a_client_alone_with_its_server_is_pytorchs_damped_momentum(weight_decay: float | None) -> None:
    train, memory = Momentum(FedSgd(weight_decay), beta=0.8), {}
    ours, theirs = START.clone(), torch.nn.Parameter(START.clone().double())
    decay = weight_decay or 0.0
    optimiser = torch.optim.SGD([theirs], lr=0.3, momentum=0.8, dampening=0.8, weight_decay=decay)
    for round in range(6):
        drawn, out = samples(4, round, (2,), memory=memory), torch.empty(1, NETWORK.dim)
        train(NETWORK, ours, drawn, 0.3, out)
        ours = ours - train.step_size(0.3) * out[0]
        ((x, y),) = drawn.batch(0).clients()
        theirs.grad = gradient(theirs.detach(), x, y)
        optimiser.step()
        torch.testing.assert_close(ours.double(), theirs.detach(), rtol=1e-4, atol=1e-6)


def test_absent_clients_keep_their_momentum_and_newcomers_begin_with_their_gradient() -> None:
    train, memory, by_hand = Momentum(FedSgd(), beta=0.9), {}, {}
    for round, present in enumerate([(0, 1), (1,), (0, 1, 2), (2, 0), (0, 1, 2)]):
        drawn, out = samples(4, round, present, memory=memory), torch.empty(len(present), NETWORK.dim)
        losses, plain = train(NETWORK, START, drawn, 0.1, out), torch.empty_like(out)
        assert torch.equal(losses, FedSgd()(NETWORK, START, drawn, 0.1, plain))
        for client, row, g in zip(present, out, plain, strict=True):
            by_hand[client] = 0.9 * by_hand[client] + 0.1 * g if client in by_hand else g
            torch.testing.assert_close(row, by_hand[client])
        rows = [len(block) for name, block in memory.items() if name.startswith("momenta_")]
        assert sum(rows) == len(by_hand) == len(ClientRows(memory, "momenta", 3)), "none for who never took part"


def test_a_momentum_from_zero_is_the_other_but_for_the_share_of_the_first_gradient() -> None:
    memories: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
    first: dict[int, tuple[int, Tensor]] = {}
    for round, present in enumerate([(0, 1), (1,), (0, 1, 2), (2, 0)]):
        rows = []
        for kind, memory in zip((Momentum, MomentumFromZero), memories, strict=True):
            out = torch.empty(len(present), NETWORK.dim)
            kind(FedSgd(), beta=0.9)(NETWORK, START, samples(4, round, present, memory=memory), 0.1, out)
            rows.append(out)
        for client, usual, from_zero in zip(present, *rows, strict=True):
            steps, g = first.get(client, (0, usual.clone()))
            torch.testing.assert_close(from_zero, usual - 0.9 ** (steps + 1) * g)
            first[client] = (steps + 1, g)


@dataclass(frozen=True)
class Drawn(LocalUpdate):
    """Sends numbers that depend on the client and the round alone, to the last bit."""

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        for row, i in zip(out, samples.ids, strict=True):
            draws = seeding.generator(samples.seed, samples.round, i).standard_normal(len(row), dtype=np.float32)
            row.copy_(torch.from_numpy(draws))
        return torch.zeros(len(out), dtype=torch.float64)


def test_a_client_s_momentum_has_the_same_bits_in_any_company_and_on_a_machine_of_its_own() -> None:
    whole, alone, own = {}, {}, {}
    everyone, train = population(), Momentum(Drawn())
    only = Population(everyone.x, everyone.y, [np.arange(20)[everyone.slice(1)]])
    for round in range(4):
        together, one, apart = torch.empty(3, NETWORK.dim), torch.empty(1, NETWORK.dim), torch.empty(1, NETWORK.dim)
        train(NETWORK, START, samples(4, round, memory=whole), 0.1, together)
        train(NETWORK, START, samples(4, round, (1,), memory=alone), 0.1, one)
        train(NETWORK, START, replace(samples(4, round, (1,), memory=own), population=only, clients=[0]), 0.1, apart)
        assert torch.equal(together[1:2], one) and torch.equal(one, apart)


def test_vectors_of_clients_are_added_in_blocks_that_stay_where_they_are() -> None:
    memory: dict[str, Tensor] = {}
    rows = ClientRows(memory, "v", 6)
    assert not len(rows) and rows.missing([3, 1]) == [0, 1] and rows.block([3, 1]) is None
    first = torch.tensor([[3.0], [1.0]])
    rows.add([3, 1], first)
    assert rows.block([3, 1]) is memory["v_0"] is first
    assert rows.block([1, 3]) is None and rows.block([3]) is None and rows.block([3, 1, 0]) is None
    assert rows.missing([0, 1, 2, 3]) == [0, 2] and rows.block([0]) is None
    rows.add([0], torch.tensor([[0.0]]))
    again = ClientRows(through_a_file_of(memory), "v", 6)
    for held in (rows, again):
        assert [(i, float(v)) for i, v in held.vectors([5, 0, 1, 3])] == [(1, 0.0), (2, 1.0), (3, 3.0)]
        assert len(held) == 3 and held.block([0]) is not None and held.block([0, 3]) is None
    for _, vector in rows.vectors([1]):
        vector += 10
    assert first.tolist() == [[3.0], [11.0]]


def through_a_file_of(memory: dict[str, Tensor]) -> dict[str, Tensor]:
    state = replace(State.start(torch.zeros(1, 1)), memory=(Memory(local={"honest": memory}),))
    return through_a_file(state).memory[0].local["honest"]


@pytest.mark.parametrize("name", ["momentum", "saga", "broadcast", "rsa"])
def test_only_clients_that_took_part_are_remembered(name: str) -> None:
    f = small(*MEMORIES[name], "attack=none", "rounds=3", "batch_size=8", "num_clients=30", "participation=0.2")
    seen = set[int]().union(*(f.cohorts.present(number).honest for number in range(3)))
    last, _ = trained(f)
    kept = last.memory[0].local["honest"]
    vectors = sum(len(value) for name, value in kept.items() if name.rpartition("_")[2].isdigit())
    assert len(seen) < 18 and vectors == len(seen) * (2 if name == "broadcast" else 1)  # BROADCAST compresses SAGA's


def test_no_momentum_and_no_memory_leave_the_inner_update_as_it_is() -> None:
    inner, memory = LocalSgd(upload="model", server_lr=0.5), {}
    for round in range(3):
        plain, none, fresh = (torch.empty(3, NETWORK.dim) for _ in range(3))
        inner(NETWORK, START, samples(4, round), 0.1, plain)
        Momentum(inner, beta=0)(NETWORK, START, samples(4, round, memory=memory), 0.1, none)
        Momentum(inner, beta=0.9)(NETWORK, START, samples(4, round), 0.1, fresh)
        torch.testing.assert_close(none, plain)
        assert torch.equal(fresh, plain)
    around = Momentum(inner)
    assert around.sends_models and around.step_size(0.1) == inner.step_size(0.1)


def test_poisoned_clients_have_momentum_of_their_own() -> None:
    base = ("attack=label_flip", "byzantine_placement=replace", "rounds=3", "batch_size=8", "model.hidden=[8]")

    def memories(*overrides: str) -> Iterator[dict[str, Any]]:
        federation = small(*base, *overrides)
        for state, _ in run(federation, initial_state(federation)):
            yield {kind: kept["momenta_0"].clone() for kind, kept in state.memory[0].local.items()}

    for before, after in zip(*([*memories("local_update=momentum")][i:] for i in (0, 1)), strict=False):
        assert set(after) == {"honest", "byzantine"} and after["byzantine"].shape[0] == 4
        assert not any(torch.equal(before[kind], after[kind]) for kind in after)


def test_the_server_s_updates_are_no_smaller_than_the_clients() -> None:
    """Nothing is remembered of them: a tenth of a gradient would be no member of the clients' subspace."""
    plain = ("aggregator=server", "attack=none", "rounds=2")
    with_momentum, without = (
        [state.params for state, _ in run(federation, initial_state(federation))]
        for federation in (small(*plain, "local_update=momentum"), small(*plain))
    )
    assert all(map(torch.equal, with_momentum, without))


@pytest.mark.parametrize("added", ["local_update.weight_decay", "server_optimizer.weight_decay"])
def test_momentum_and_weight_decay_change_an_identity_only_where_they_are_set(added: str) -> None:
    plain = compose.resolve(["aggregator=krum", "attack=ipm"])
    assert list(plain.identity["local_update"]) == list(plain.identity["server_optimizer"]) == ["_target_"]
    assert compose.resolve(["aggregator=krum", "attack=ipm", f"+{added}=0.1"]).run_id != plain.run_id


# --- the server ------------------------------------------------------------------------------------------------------


def steps_of(rule: ServerOptimizer, rates: list[float]) -> tuple[list[Tensor], list[Tensor]]:
    """The aggregates that a server is given, and the parameters after each step from START."""
    rng = torch.Generator().manual_seed(0)
    aggregates = [torch.randn(NETWORK.dim, generator=rng) for _ in rates]
    params, memory, after = START, {}, []
    for aggregate, rate in zip(aggregates, rates, strict=True):
        given = [params, aggregate, *memory.values()]
        copies = [tensor.clone() for tensor in given]
        params, memory = rule(params, aggregate, rate, memory)
        assert all(map(torch.equal, given, copies)), "a step leaves what it is given as it is"
        after.append(params)
    return aggregates, after


RATES = [0.3, 0.3, 0.1, 0.1, 0.05]


@pytest.mark.parametrize("momentum", [None, 0.9])
@pytest.mark.parametrize("weight_decay", [None, 0.1])
def test_the_server_s_sgd_is_pytorchs(momentum: float | None, weight_decay: float | None) -> None:
    aggregates, after = steps_of(Sgd(momentum, weight_decay), RATES)
    theirs = torch.nn.Parameter(START.clone())
    optimiser = torch.optim.SGD([theirs], lr=1, momentum=momentum or 0, weight_decay=weight_decay or 0)
    for aggregate, rate, ours in zip(aggregates, RATES, after, strict=True):
        optimiser.param_groups[0]["lr"], theirs.grad = rate, aggregate.clone()
        optimiser.step()
        torch.testing.assert_close(ours, theirs.detach())


def test_the_server_s_adam_is_pytorchs_without_its_correction() -> None:
    tau, (beta1, beta2) = 0.02, (0.8, 0.95)
    aggregates, after = steps_of(Adaptive("adam", beta1, beta2, tau), RATES)
    theirs = torch.nn.Parameter(START.clone())
    optimiser = torch.optim.Adam([theirs], betas=(beta1, beta2))
    optimiser.state[theirs] = {
        "step": torch.tensor(0.0),
        "exp_avg": torch.zeros_like(theirs),
        "exp_avg_sq": torch.full_like(theirs, tau**2),
    }
    for t, (aggregate, rate, ours) in enumerate(zip(aggregates, RATES, after, strict=True), start=1):
        root = (1 - beta2**t) ** 0.5  # what PyTorch divides the square root by, and its eps is not
        optimiser.param_groups[0].update(lr=rate * (1 - beta1**t) / root, eps=tau / root)
        theirs.grad = aggregate.clone()
        optimiser.step()
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)


def test_the_server_s_adagrad_is_pytorchs() -> None:
    aggregates, after = steps_of(Adaptive("adagrad", beta1=0, tau=0.02), RATES)
    theirs = torch.nn.Parameter(START.clone())
    optimiser = torch.optim.Adagrad([theirs], initial_accumulator_value=0.02**2, eps=0.02)
    for aggregate, rate, ours in zip(aggregates, RATES, after, strict=True):
        optimiser.param_groups[0]["lr"], theirs.grad = rate, aggregate.clone()
        optimiser.step()
        torch.testing.assert_close(ours, theirs.detach())


def test_yogi_by_hand() -> None:
    aggregates, after = steps_of(Adaptive("yogi", 0.9, 0.8, 0.5), RATES)
    for i in (0, 7, NETWORK.dim - 1):
        params, m, v = float(START[i]), 0.0, 0.25
        for aggregate, rate, ours in zip(aggregates, RATES, after, strict=True):
            a = float(aggregate[i])
            m, v = 0.9 * m + 0.1 * a, v + 0.2 * a * a * (1 if a * a > v else -1)
            params -= rate * m / (v**0.5 + 0.5)
            assert float(ours[i]) == pytest.approx(params, rel=1e-4)


@pytest.mark.parametrize("name", ["momentum", "adam", "yogi", "adagrad"])
def test_every_model_of_a_clustering_has_an_optimizer_of_its_own(name: str) -> None:
    federation = clustered(*LINEAR, "clustering=ifca", "local_update=momentum", f"server_optimizer={name}", "rounds=3")
    last, _ = trained(federation)
    first, second, _ = (memory.server for memory in last.memory)
    assert set(first) == set(second) and first
    assert not any(torch.equal(first[key], second[key]) for key in first)
    assert {len(memory.local["honest"]["momenta"]) for memory in last.memory if memory.server} == {21}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Momentum(FedSgd(), beta=1.5), "beta must be in"),
        (lambda: Momentum(Momentum(FedSgd())), "goes around another local update"),
        (lambda: FedSgd(weight_decay=-1), "weight_decay must be >= 0"),
        (lambda: Sgd(momentum=-0.1), "momentum must be in"),
        (lambda: Adaptive("rmsprop"), "kind must be one of adagrad, adam, yogi"),
        (lambda: Adaptive(tau=0), "tau must be >= 1e-18"),
    ],
)
def test_bad_options_are_one_clear_line(make: Any, message: str) -> None:
    refused(make, message)
