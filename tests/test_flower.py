"""Rules as strategies of Flower's real package: whole runs with its messages, against its own strategies."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("flwr", reason='needs the real package: pip install "robustfl-bench[flower]"')

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, FedMedian, MultiKrum
from flwr.supercore.task_identity import TaskIdentity

from robustfl_bench.doors.flower import LyingMod, RobustStrategy
from robustfl_bench.interfaces import ConfigError
from robustfl_bench.parts.aggregators.average import Average
from robustfl_bench.parts.aggregators.centered_clipping import CenteredClipping
from robustfl_bench.parts.aggregators.coomed import CooMed
from robustfl_bench.parts.aggregators.fail_closed import FailClosed
from robustfl_bench.parts.aggregators.fltrust import FLTrust
from robustfl_bench.parts.aggregators.foolsgold import FoolsGold
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.attacks.held import Held
from robustfl_bench.parts.attacks.ipm import InnerProductManipulation
from robustfl_bench.parts.pre_aggregations.nnm import Nnm

Models = dict[str, np.ndarray]
NODES = [2**62 + 7 * i for i in range(9)]
START = {"w": np.zeros((3, 4), np.float32), "steps": np.array(5), "b": np.ones(2, np.float64)}


def honest(node: int, server_round: int, model: Models) -> Models:
    """A client that moves half-way to a point of its own."""
    rng = np.random.default_rng([node % 1000, server_round])
    moves = {name: 0.5 * (rng.normal(size=value.shape) - value) for name, value in model.items()}
    real = {name: value + moves[name].astype(value.dtype) for name, value in model.items() if value.dtype.kind == "f"}
    return model | {"steps": model["steps"] + 1} | real


@pytest.fixture(autouse=True)
def _process_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Flower sets in the process in which it runs a ServerApp."""
    for name in ("task_id", "run_id", "node_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)


class Fake(Grid):
    """Clients in this process: each is a function from its node, the round and the model to a model, or to a reply."""

    def __init__(self, clients: dict[int, Callable[..., Any]] | None = None, counts: Any = None) -> None:
        self.clients = dict.fromkeys(NODES, honest) | (clients or {})
        self.counts = counts or {}

    def set_run(self, run: Any) -> None: ...

    @property
    def run(self) -> Any: ...

    def create_message(self, *args: Any, **kwargs: Any) -> Any: ...

    def push_messages(self, messages: Any) -> Any: ...

    def pull_messages(self, message_ids: Any) -> Any: ...

    def get_node_ids(self) -> Iterable[int]:
        return list(self.clients)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return [self._reply(message) for message in messages]

    def _reply(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        model = {name: array.numpy() for name, array in message.content["arrays"].items()}
        made = self.clients[node](node, message.content["config"]["server-round"], model)
        if isinstance(made, Error):
            return message.create_error_reply(made)
        arrays = ArrayRecord({name: Array(np.asarray(value)) for name, value in made.items()})
        metrics = MetricRecord({"num-examples": self.counts.get(node, 10), "loss": 1.0})
        return message.create_reply(RecordDict({"arrays": arrays, "metrics": metrics}))


def trained(strategy: FedAvg, grid: Grid | None = None, rounds: int = 3) -> Models:
    start = ArrayRecord({name: Array(value) for name, value in START.items()})
    result = strategy.start(grid or Fake(), start, num_rounds=rounds)
    return {name: array.numpy() for name, array in result.arrays.items()}


def strategy(rule: Any, pre_aggregation: Any = None, **settings: Any) -> RobustStrategy:
    return RobustStrategy(rule, pre_aggregation, fraction_evaluate=0.0, **settings)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Average(weighted=True), FedAvg(fraction_evaluate=0.0)),
        (CooMed(), FedMedian(fraction_evaluate=0.0)),
    ],
    ids=["average", "median"],
)
def test_a_run_ends_with_the_model_of_flowers_own_strategy(ours: Any, theirs: FedAvg) -> None:
    grid = Fake(counts={node: 5 + i for i, node in enumerate(NODES)})
    made, expected = trained(strategy(ours), grid), trained(theirs, grid)
    assert not np.allclose(expected["w"], START["w"], atol=0.01)
    for name in ("w", "b"):
        np.testing.assert_allclose(made[name], expected[name], rtol=1e-4, atol=1e-5)
        assert (made[name].shape, made[name].dtype) == (START[name].shape, START[name].dtype)
    assert made["steps"] == 5, "what is no floating-point number stays"


def test_krum_selects_whom_flowers_krum_selects() -> None:
    def attacker(node: int, server_round: int, model: Models) -> Models:
        return {name: value + 100 if value.dtype.kind == "f" else value for name, value in model.items()}

    grid = Fake({NODES[0]: attacker, NODES[4]: attacker})
    theirs = MultiKrum(fraction_evaluate=0.0, num_malicious_nodes=2)
    made, expected = trained(strategy(Krum(num_byzantine=2)), grid, 1), trained(theirs, grid, 1)
    np.testing.assert_allclose(made["w"], expected["w"], atol=1e-5)
    assert np.abs(made["w"]).max() < 10


def test_replies_that_do_not_fit_count_as_none_and_non_finite_updates_as_zero() -> None:
    def crash(*_: Any) -> Error:
        return Error(code=0, reason="gone")

    def other_shape(node: int, server_round: int, model: Models) -> Models:
        return model | {"w": np.zeros(7, np.float32)}

    def nan(node: int, server_round: int, model: Models) -> Models:
        return model | {"w": np.full((3, 4), np.nan, np.float32)}

    grid = Fake({NODES[0]: crash, NODES[1]: other_shape, NODES[2]: nan}, counts={NODES[3]: -1, NODES[4]: float("nan")})
    ours = strategy(Average())
    made = trained(ours, grid, 1)
    moved = [honest(node, 1, START)["w"] for node in NODES[5:]]
    np.testing.assert_allclose(made["w"], np.sum(moved, axis=0) / 5, atol=1e-6)
    assert ours.last is not None and ours.last.weights is not None and len(ours.last.weights) == 5


def test_state_goes_from_round_to_round() -> None:
    seen = []

    class Spy(CenteredClipping):
        def aggregate(self, updates: Any, server: Any) -> Any:
            seen.append((server.round, server.previous, len(server.counts)))
            return super().aggregate(updates, server)

    ours = strategy(Spy())
    trained(ours)
    assert [(round, counts) for round, _, counts in seen] == [(0, 9), (1, 9), (2, 9)]
    assert seen[0][1] is None and all(isinstance(previous, torch.Tensor) for _, previous, _ in seen[1:])
    remembering = strategy(FoolsGold())
    trained(remembering, rounds=2)
    first = [honest(node, 1, START)["b"] - 1 for node in NODES]
    assert remembering.last is not None and remembering.last.memory is not None
    sums = remembering.last.memory["sums"]
    assert sums.shape == (9, 14) and not torch.allclose(sums[:, 12:], -torch.tensor(np.array(first)).float())


def test_a_pre_aggregation_and_a_server_rate_are_applied() -> None:
    whole, half = (
        trained(strategy(Average(), Nnm(2)), rounds=1),
        trained(strategy(Average(), Nnm(2), server_lr=0.5), rounds=1),
    )
    plain = trained(strategy(Average()), rounds=1)
    np.testing.assert_allclose(half["w"], whole["w"] / 2, atol=1e-6)
    assert not np.allclose(whole["w"], plain["w"], atol=1e-3)


def test_what_a_flower_server_cannot_give_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^FLTrust needs samples of the server, .* take another rule$"):
        trained(strategy(FLTrust()))
    with pytest.raises(ConfigError, match=r"^Krum needs n > 2f \+ 2, got n=9, f=4"):
        trained(strategy(Krum(num_byzantine=4)))
    with pytest.raises(ConfigError, match="server_lr must be > 0"):
        strategy(Average(), server_lr=0)


def test_with_too_few_replies_the_model_stays() -> None:
    def crash(*_: Any) -> Error:
        return Error(code=0, reason="gone")

    ours = strategy(Krum(num_byzantine=3))
    start = ArrayRecord({name: Array(value) for name, value in START.items()})
    grid = Fake({NODES[0]: crash})
    replies = grid.send_and_receive(ours.configure_train(1, start, ConfigRecord(), grid))
    arrays, metrics = ours.aggregate_train(1, replies)
    assert arrays is None and metrics is not None and metrics["loss"] == pytest.approx(1.0)


def _context(node: int) -> Context:
    return Context(
        run_id=1, node_id=node, node_config={"partition-id": NODES.index(node)}, state=RecordDict(), run_config={}
    )


class WithMods(Fake):
    """The same clients behind a mod, each with a context of its own."""

    def __init__(self, mod: LyingMod) -> None:
        super().__init__()
        self.mod, self.contexts = mod, {node: _context(node) for node in NODES}

    def _reply(self, message: Message) -> Message:
        return self.mod(
            message, self.contexts[message.metadata.dst_node_id], lambda asked, _: super(WithMods, self)._reply(asked)
        )


def test_a_client_lies_by_a_mod() -> None:
    seen: list[Any] = []

    class Seen(Average):
        def aggregate(self, updates: Any, server: Any) -> Any:
            seen.append(updates.matrix.clone())
            return super().aggregate(updates, server)

    trained(strategy(Seen()), Fake(), 2)
    honestly, seen[:] = list(seen), []
    trained(strategy(Seen()), WithMods(LyingMod(InnerProductManipulation(scale=3), len(NODES), partitions=[0, 4])), 1)
    (lied,) = seen
    for place in range(len(NODES)):
        factor = -3 if place in (0, 4) else 1
        torch.testing.assert_close(lied[place], factor * honestly[0][place])
    grid = WithMods(LyingMod(InnerProductManipulation(scale=3), len(NODES), partitions=[0]))
    trained(ours := strategy(Krum(num_byzantine=2)), grid, 1)
    assert ours.last is not None and ours.last.weights is not None and ours.last.weights[0] == 0


def test_what_an_attack_remembers_is_in_the_context_of_the_client() -> None:
    grid = WithMods(LyingMod(Held(entry="rewind", strength=1), len(NODES), partitions=[2]))
    trained(strategy(Average()), grid, 3)
    assert LyingMod.STATE in grid.contexts[NODES[2]].state and LyingMod.STATE not in grid.contexts[NODES[1]].state


def test_a_rule_that_fails_closed_leaves_the_model_as_it_is() -> None:
    grid = WithMods(LyingMod(InnerProductManipulation(scale=30), len(NODES), partitions=[0, 1, 2]))
    made = trained(strategy(FailClosed(Average(), num_byzantine=2)), grid, 1)
    np.testing.assert_allclose(made["w"], START["w"])
    assert np.abs(trained(strategy(FailClosed(Average(), num_byzantine=3)), grid, 1)["w"]).max() > 0.1
