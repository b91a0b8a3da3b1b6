"""What outlives a round, of rules and of local updates; what clients say of their losses; what attackers are after."""

import io
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from robustfl_bench.interfaces import (
    Aggregator,
    Attack,
    AttackView,
    Crafted,
    LocalUpdate,
    ServerView,
    Shard,
)
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Samples
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.arfl import Arfl
from robustfl_bench.parts.protocols.state import Memory, State
from robustfl_bench.train.loop import run
from robustfl_bench.train.rounds import initial_state
from robustfl_bench.train.sight import reported_losses
from tests.presets import small as federation
from tests.presets import trained

SMALL = ("rounds=4", "batch_size=8", "attack=none")
ATTACKED = ("rounds=4", "batch_size=8", "attack=ipm", "num_byzantine=4", "byzantine_placement=replace")


@dataclass(frozen=True)
class Momentum(Aggregator):
    """A rule with a memory: the mean, with heavy-ball momentum."""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        velocity = updates.matrix.mean(dim=0) + 0.9 * server.memory.get("velocity", torch.zeros(updates.d))
        return Aggregate(velocity, memory={"velocity": velocity})


@dataclass(frozen=True)
class Counting(LocalUpdate):
    """A local update with a memory: its clients send how often they took part, and what they start from."""

    def __call__(self, network: Network, params: Tensor, samples: Samples, lr: float, out: Tensor) -> Tensor:
        table = samples.memory.setdefault("times", torch.zeros(100))
        table[list(samples.ids)] += 1
        out[:] = table[list(samples.ids)][:, None] + params
        return torch.zeros(len(out), dtype=torch.float64)

    def step_size(self, lr: float) -> float:
        return 1e-3


class Curious(Attack):
    """Tries what training from elsewhere gives, asks the rule twice, and sends its own honest update."""

    def craft(self, view: AttackView) -> Tensor:
        view.train_own(view.params + 1)
        first, second = view.aggregate(view.own), view.aggregate(view.own)
        assert torch.equal(first.vector, second.vector)
        return view.own


class Liar(Attack):
    """Reports a hundredth of its loss, and takes everything for class 3."""

    def report(self, losses: Tensor, honest: Tensor) -> Tensor:
        assert len(honest) and len(losses)
        return losses / 100

    def goal(self, shard: Shard) -> tuple[Tensor, Tensor]:
        others = shard.y != 3
        return shard.x[others], torch.full_like(shard.y[others], 3)


def through_a_file(state: State) -> State:
    """The state as a checkpoint gives it back."""
    file = io.BytesIO()
    torch.save({"state": state.stored()}, file)
    file.seek(0)
    return State.restored(torch.load(file, weights_only=True)["state"], torch.device("cpu"))


def test_a_rule_is_given_what_it_remembered_also_after_a_resume() -> None:
    f = federation(*SMALL, aggregator=Momentum())
    states = [state for state, _ in run(f, initial_state(f))]
    assert [float(state.memory[0].rule["velocity"].norm()) for state in states] == [
        float(state.previous[0].norm()) for state in states if state.previous is not None
    ]
    *_, (resumed, _) = run(f, through_a_file(states[1]))
    assert torch.equal(resumed.params, states[-1].params)
    *_, (forgetful, _) = run(f, replace(states[1], memory=(Memory(),)))
    assert not torch.equal(forgetful.params, states[-1].params)


def test_local_updates_remember_and_trials_of_attackers_leave_no_trace() -> None:
    f = federation(*ATTACKED, "participation=0.5", local_update=Counting(), attack=Curious())
    state, rounds = initial_state(f), []
    for state, _ in run(f, state):  # noqa: B020
        rounds.append({name: kept["times"].clone() for name, kept in state.memory[0].local.items()})
    assert rounds[-1]["honest"].sum() + rounds[-1]["byzantine"].sum() == 4 * f.settings.clients_per_round
    assert not rounds[-1]["honest"][f.clients.byzantine_ids].any()
    assert not rounds[-1]["byzantine"][f.clients.honest_ids].any()
    back = through_a_file(state)
    assert torch.equal(back.memory[0].local["honest"]["times"], rounds[-1]["honest"])


@pytest.mark.parametrize("placement", ["replace", "add"])
def test_losses_are_those_on_the_clients_own_samples_unless_they_lie(placement: str) -> None:
    f = federation(*ATTACKED, f"byzantine_placement={placement}", attack=Liar())
    params, everyone = f.network.initial, torch.arange(f.settings.total_clients)
    told = reported_losses(f, params, everyone, 1)
    for position, i in enumerate(f.clients.honest_ids):
        own = f.honest.slice(position)
        assert told[i].item() == pytest.approx(
            f.network.evaluate(params, f.honest.x[own], f.honest.y[own])[0], rel=1e-5
        )
    liars = told[f.clients.byzantine_ids] * 100
    if placement == "add":
        assert torch.allclose(liars, told[f.clients.honest_ids].mean().expand(4))
    else:
        own = f.byzantine.slice(0)
        loss = f.network.evaluate(params, f.byzantine.x[own], f.byzantine.y[own])[0]
        assert liars[0].item() == pytest.approx(loss, rel=1e-5)
    some = torch.tensor([int(f.clients.byzantine_ids[1]), int(f.clients.honest_ids[5]), int(f.clients.honest_ids[0])])
    assert torch.allclose(reported_losses(f, params, some, 1)[1:], told[some][1:])
    assert f.counts[f.clients.honest_ids].tolist() == f.honest.sizes.tolist()


def test_the_attackers_goal_is_measured_where_there_are_attackers() -> None:
    f = federation(*ATTACKED, "eval_every=2", attack=Liar())
    last_state, records = trained(f)
    predicted = f.network.logits(last_state.params[0], f.clients.data.test_x).argmax(dim=1)
    expected = (predicted[f.clients.data.test_y != 3] == 3).float().mean().item()
    assert records[-1]["attack_success_rate"] == pytest.approx(expected)
    alone = federation(*SMALL, "num_byzantine=0", attack=Liar())
    assert not any("attack_success_rate" in record for record in trained(alone)[1])


class Constant(Attack):
    """Remembers the round in which it began, and never anything else."""

    def craft(self, view: AttackView) -> Crafted:
        with pytest.raises(TypeError):
            view.memory["began"] = view.params  # type: ignore[index]
        memory = view.memory if view.memory else {"began": torch.tensor(float(view.round))}
        return Crafted(-view.mean, memory)


def test_what_attackers_remember_is_theirs_per_model_and_passed_on_as_it_is() -> None:
    f = federation(*ATTACKED, attack=Constant(), aggregator=Momentum())
    states = [through_a_file(state) for state, _ in run(f, initial_state(f))]
    assert [float(state.memory[0].attack["began"]) for state in states] == [0.0] * 4
    assert all(set(state.memory[0].rule) == {"velocity"} and not state.memory[0].server for state in states)
    assert not initial_state(f).memory[0].attack


@dataclass(frozen=True)
class First(Aggregator):
    """Returns, and remembers, a row of the round's matrix as it lies there; makes no step in one of the rounds."""

    skipped: int = 2

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        row, is_skipped = updates.columns[0], server.round == self.skipped
        return Aggregate(row, memory={"first": row, "rounds": torch.tensor(server.round)}, skipped=is_skipped)


@pytest.mark.parametrize("words", [(), ("protocol=gossip", "topology=ring", "num_byzantine=0")])
def test_what_is_remembered_of_a_rounds_matrix_outlives_it(words: tuple[str, ...]) -> None:
    f = federation(*SMALL, "server_optimizer=momentum", *words, aggregator=First())
    stored, last = [], initial_state(f)
    for last, _ in run(f, last):  # noqa: B020
        stored.append(through_a_file(last))
    for state in stored[:-1]:
        *_, (resumed, _) = run(f, state)
        assert torch.equal(resumed.params, last.params)


def test_a_skipped_round_changes_neither_model_nor_optimizer_nor_the_last_aggregate() -> None:
    f = federation(*SMALL, "server_optimizer=momentum", aggregator=First())
    _, before, after, _ = [through_a_file(state) for state, _ in run(f, initial_state(f))]
    assert torch.equal(after.params, before.params) and before.previous is not None and after.previous is not None
    assert torch.equal(after.previous, before.previous)
    assert torch.equal(after.memory[0].server["velocity"], before.memory[0].server["velocity"])
    assert int(after.memory[0].rule["rounds"]) == 2, "the rule itself may remember the round"
    f = federation(*SMALL, aggregator=First(skipped=0))
    first, second = [state for state, _ in run(f, initial_state(f))][:2]
    assert first.previous is None and torch.equal(first.params[0], f.network.initial) and second.previous is not None


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_arfl_remembers_the_losses_at_the_model_that_comes_next(optimizer: str) -> None:
    f = federation(*SMALL, f"server_optimizer={optimizer}", aggregator=Arfl())
    for state, _ in run(f, initial_state(f)):
        told = reported_losses(f, state.params[0], torch.arange(f.settings.total_clients), 1)
        torch.testing.assert_close(state.memory[0].rule["losses"], told, rtol=1e-5, atol=1e-6)


SEEN: list[Tensor] = []


@dataclass(frozen=True)
class Seeing(Aggregator):
    """The mean; shows what it is given."""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        SEEN.append(updates.columns.clone())
        return Aggregate(updates.columns.mean(dim=0))


def test_clients_that_attackers_suppose_have_noise_of_their_own() -> None:
    private = ("local_update=private", "local_update.noise=50", "local_update.delta=null", "knowledge=own")
    f = federation(*ATTACKED, *private, aggregator=Seeing(), attack=Curious())
    SEEN.clear()
    next(iter(run(f, initial_state(f))))
    supposed, real = SEEN[0], SEEN[-1]
    honest = len(f.clients.honest_ids)
    alike = [float(torch.corrcoef(torch.stack([supposed[i], real[i]]))[0, 1]) for i in range(honest)]
    assert max(map(abs, alike)) < 0.5, "else attackers who know no update would know its noise"
