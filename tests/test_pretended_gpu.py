"""The engine on a GPU that is pretended (``pretend.py``): the same results as on the CPU, and who waits for whom."""

import csv
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from robustfl_bench.interfaces import ConfigError
from robustfl_bench.numerics.network import side_by_side
from robustfl_bench.numerics.network.flat import FlatModule
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.numerics.network.side_by_side import SideBySide
from robustfl_bench.parts import datasets
from robustfl_bench.parts.attacks import blindspot, pool
from robustfl_bench.train import rounds
from robustfl_bench.train.federation import federation_of
from tests import presets
from tests.pretend import DEVICE, PretendedGpu

sys.path.append(str(Path(__file__).parents[1] / "scripts" / "checks"))
import cuda_check


def of_the_cpu(seed: int, _: torch.device) -> torch.Generator:
    """A client's dropout where there are no streams on the device."""
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("section", ["models", "rules", "pre_aggregations", "attacks", "local_updates", "stacks"])
def test_every_part_computes_what_it_does_on_a_cpu(
    section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(side_by_side, "_stream", of_the_cpu)
    for module, name in ((pool, "POOL"), (blindspot, "POOL"), (blindspot, "HEADINGS")):  # attacks of their own as well
        monkeypatch.setattr(module, name, dict([*getattr(module, name).items()][::6]))
    with PretendedGpu():
        code = cuda_check.check(cuda_check.Setup(DEVICE, tiny=True), tmp_path, [section], 600)
    assert code == 0, capsys.readouterr().out
    with (tmp_path / f"{section}.csv").open() as file:
        answered = [row["case"] for row in csv.DictReader(file) if row["verdict"] == "ok"]
    least = {"models": 14, "rules": 60, "attacks": 30, "pre_aggregations": 5, "stacks": 3}
    assert len(answered) >= least.get(section, 13)


OPERATIONS = {"gru": 1_050, "lstm": 3_000, "resnet20": 500}
"""The most operations that the gradients of a group of clients may call: a few per layer, or per step of a text."""


def test_operations_of_models_with_many_small_ones() -> None:
    with PretendedGpu():
        asked = cuda_check.operations(cuda_check.Setup(DEVICE, tiny=True))
        counts = {name: answer()["value"] for name, answer in asked}
    assert counts.keys() == OPERATIONS.keys()
    assert all(0.8 * most < counts[name] <= most for name, most in OPERATIONS.items()), counts


def waits(*overrides: str) -> int:
    """How often the host waits in the third round of a run, which is not evaluated."""
    planned = presets.planned("model.hidden=[8]", "rounds=9", "eval_every=9", *overrides)
    with PretendedGpu() as gpu:
        data = datasets.load(planned.parts.dataset, None, DEVICE)
        federation = federation_of(planned.settings, planned.parts, data)
        state = rounds.initial_state(federation)
        for _ in range(3):
            gpu.waits.clear()
            state, _ = rounds.step(federation, state)
        return sum(gpu.waits.values())


CHECKS = 5  # finite: honest and crafted updates, aggregate, model; and the weights, which are recorded
RULE = {"average": 3, "krum": 3, "trmean": 1, "boba": 40}  # with n x n algebra where they need it


@pytest.mark.parametrize("rule", RULE)
def test_the_host_waits_a_few_times_a_round_whatever_the_clients_do(rule: str) -> None:
    base = ("attack=ipm", f"aggregator={rule}", "num_byzantine=3", "batch_size=16")
    few = waits(*base, "num_clients=12", "local_update=local_sgd", "local_update.steps=1")
    assert few <= CHECKS + RULE[rule] + 1
    more = waits(*base, "num_clients=24", "local_update=local_sgd", "local_update.steps=4")
    assert more <= few if rule != "boba" else more <= CHECKS + RULE[rule] + 1
    unequal = ("num_clients=12", "local_update=fedavg", "partition=dirichlet", "batch_size=64")
    assert waits(*base, *unequal) <= CHECKS + RULE[rule] + 1


def test_the_pretended_gpu_counts_and_refuses_as_a_real_one() -> None:
    with PretendedGpu() as gpu:
        x = torch.arange(6.0, device=DEVICE).view(2, 3)
        assert x.device == DEVICE and not gpu.waits
        assert x.sum().item() == 15 and x[x > 2].tolist() == [3, 4, 5]
        assert sum(gpu.waits.values()) == 3  # the value, the shape behind a mask, the list
        x[0] = torch.ones(3).to(DEVICE)
        assert torch.equal(x.cpu(), torch.tensor([[1.0, 1, 1], [3, 4, 5]]))
        with pytest.raises(RuntimeError, match="on the GPU and on the CPU"):
            x + torch.ones(2, 3)
        with pytest.raises(RuntimeError):
            x.numpy()


@pytest.mark.parametrize("by_channel", [False, True])
def test_dropout_is_drawn_for_each_client_whoever_goes_beside_it(
    by_channel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "_stream", of_the_cpu)
    drop: nn.Module = nn.Dropout2d(0.25) if by_channel else nn.Dropout(0.25)
    module = nn.Sequential(drop, nn.Flatten(), nn.Linear(12, 3))
    way = SideBySide(FlatModule(module), functional.cross_entropy)
    draw = torch.Generator().manual_seed(0)
    sizes, seeds = (4, 2, 4), (5, 6, 7)
    x, y = torch.randn(10, 3, 2, 2, generator=draw), torch.randint(3, (10,), generator=draw)
    out = torch.empty(3, way.flat.dim)
    way(way.flat.initial, Batch(x, y, sizes, noise=lambda i: seeds[i]), out)
    for row, seed, (xs, ys) in zip(out, seeds, Batch(x, y, sizes).clients(), strict=True):
        torch.testing.assert_close(row, masked_gradient(module, xs, ys, seed, by_channel))
    without = torch.empty_like(out)
    way(way.flat.initial, Batch(x, y, sizes), without)
    assert (without - out).abs().max() > 1e-3


def test_other_dropout_is_refused() -> None:
    with pytest.raises(ConfigError, match="AlphaDropout has no draws of each client on a GPU: set device=cpu"):
        SideBySide(FlatModule(nn.Sequential(nn.Linear(2, 2), nn.AlphaDropout())), functional.cross_entropy)


def masked_gradient(module: nn.Module, x: Tensor, y: Tensor, seed: int, by_channel: bool) -> Tensor:
    """A client's gradient, with its dropout written out."""
    shape = (*x.shape[:2], 1, 1) if by_channel else x.shape
    mask = torch.empty(shape).bernoulli_(0.75, generator=torch.Generator().manual_seed(seed)) / 0.75
    assert 0 < mask.count_nonzero() < mask.numel()
    loss = functional.cross_entropy(module(x * mask), y)  # the layer itself is switched off
    return torch.cat([part.reshape(-1) for part in torch.autograd.grad(loss, list(module.parameters()))])


class Counted(nn.Module):
    """A layer that cannot be batched over clients: it asks for a value."""

    def forward(self, x: Tensor) -> Tensor:
        """The inputs times the number of those that are positive in the first sample."""
        out: Tensor = x * int((x[0] > 0).sum())
        return out


def test_clients_take_turns_where_a_module_cannot_be_batched() -> None:
    module = nn.Sequential(Counted(), nn.Linear(4, 3))
    way = SideBySide(FlatModule(module), functional.cross_entropy)
    draw = torch.Generator().manual_seed(0)
    batch = Batch(torch.randn(6, 4, generator=draw), torch.randint(3, (6,), generator=draw), (3, 3))
    out = torch.empty(2, way.flat.dim)
    way(way.flat.initial, batch, out)
    assert way._takes_turns
    for row, (x, y) in zip(out, batch.clients(), strict=True):
        loss = functional.cross_entropy(module(x), y)
        expected = torch.autograd.grad(loss, list(module.parameters()))
        torch.testing.assert_close(row, torch.cat([part.reshape(-1) for part in expected]))
