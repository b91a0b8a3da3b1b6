"""The gradients of all nodes of gossip at once: the bytes of a node alone, and few calls."""

from typing import Any

import pytest
import torch
from torch import Tensor

from robustfl_bench.numerics.network import stacked
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.parts.models.mlp import Mlp
from robustfl_bench.parts.protocols.state import State
from robustfl_bench.train import prepared
from robustfl_bench.train.rounds import initial_state, step
from tests.presets import federation

NODES = ("num_clients=12", "num_byzantine=0", "partition=dirichlet", "batch_size=16", "lr=0.3", "protocol=gossip")


def after(rounds: int, *overrides: str) -> tuple[State, list[Tensor | None]]:
    """The state after some rounds of gossip, and the nodes' losses in each of them."""
    nodes = federation(*NODES, *overrides)
    state, losses = initial_state(nodes), []
    for _ in range(rounds):
        state, results = step(nodes, state)
        losses.append(results.models[0].losses)
    return state, losses


@pytest.mark.parametrize(
    "overrides",
    [
        ("model.hidden=[16]", "local_update=momentum", "attack=lie", "num_byzantine=2"),
        ("model.hidden=[16,8]", "augmentation=shift_flip", "batch_size=2"),
        ("model=linear", "batch_size=null", "+local_update.weight_decay=0.01"),
    ],
)
@pytest.mark.parametrize("fault", [0.0, 1e-6])
def test_gradients_of_all_nodes_at_once_have_the_bytes_of_each_alone(
    overrides: tuple[str, ...], fault: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_models, answers = stacked.own_gradients, list[bool]()
    computed = prepared.OwnModels.gradients

    def wrong(network: Network, models: Tensor, batch: Batch, out: Tensor) -> Tensor:
        losses = of_models(network, models, batch, out)
        out[-1, -1] += fault
        return losses

    def gradients(self: prepared.OwnModels, *given: Any) -> prepared.Gradients | None:
        answers.append((known := computed(self, *given)) is not None)
        return known

    monkeypatch.setattr(stacked, "own_gradients", wrong)
    monkeypatch.setattr(prepared.OwnModels, "gradients", gradients)
    together, losses_together = after(4, *overrides)
    assert answers == [fault == 0 or "model=linear" in overrides] * 4
    monkeypatch.setattr(prepared.OwnModels, "gradients", lambda *_: None)
    alone, losses_alone = after(4, *overrides)
    assert torch.equal(together.protocol["nodes"], alone.protocol["nodes"])
    for one, other in zip(losses_together, losses_alone, strict=True):
        assert one is not None and other is not None and torch.equal(one, other)


@pytest.mark.parametrize("hidden", [(32,), (16, 8)])
def test_models_with_few_samples_have_the_bytes_of_each_alone(hidden: tuple[int, ...]) -> None:
    network, draws = Network(Mlp(hidden), (1, 8, 8), 10, seed=0), torch.Generator().manual_seed(0)
    sizes = (3, 1, 2, 1, 14, 3, 1, 5, 1, 33)
    batch = Batch(torch.randn(sum(sizes), 1, 8, 8, generator=draws), torch.arange(sum(sizes)) % 10, sizes)
    models = network.initial + 0.1 * torch.randn(len(sizes), network.dim, generator=draws)
    rows, alone = torch.empty_like(models), torch.empty(1, network.dim)
    losses = stacked.own_gradients(network, models, batch, rows)
    for model, (x, y), row, loss in zip(models, batch.clients(), rows, losses, strict=True):
        assert torch.equal(network.gradients(model, Batch(x, y, (len(y),)), alone)[0], loss)
        assert torch.equal(alone[0].view(torch.int32), row.view(torch.int32))


def test_a_round_computes_gradients_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[int]()
    of_one, of_models = Network.gradients, stacked.own_gradients

    def gradients(self: Network, params: Tensor, batch: Batch, out: Tensor) -> Tensor:
        calls.append(len(out))
        return of_one(self, params, batch, out)

    def own_gradients(network: Network, models: Tensor, batch: Batch, out: Tensor) -> Tensor:
        calls.append(len(out))
        return of_models(network, models, batch, out)

    monkeypatch.setattr(Network, "gradients", gradients)
    monkeypatch.setattr(stacked, "own_gradients", own_gradients)
    after(4, "model.hidden=[16]", "local_update=momentum")
    assert calls == [12, *[1] * 12, 12, *[1] * 12, 12, 12]  # the first two rounds are checked
