"""Gradients from factors in bfloat16: how far from float32 they are, and which runs take them."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from robustfl_bench.base.parallel import workers
from robustfl_bench.interfaces import Model
from robustfl_bench.numerics.network import bfloat16
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch, Population, Samples
from robustfl_bench.parts.local_updates.fedavg import FedAvg
from robustfl_bench.parts.models import Cnn, Mlp
from robustfl_bench.runner.config import compose
from robustfl_bench.train import code_digest
from tests.conftest import Bench

SIZES = (64, 64, 16, 600)
SMALL = ("rounds=2", "num_clients=4", "num_byzantine=0", "partition=iid", "model.hidden=[16]")


def drawn() -> Batch:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(sum(SIZES), 1, 28, 28, generator=draw)
    return Batch(x, torch.randint(10, (len(x),), generator=draw), SIZES)


def gradients(network: Network, batch: Batch) -> tuple[Tensor, Tensor]:
    out = torch.full((len(batch.sizes), network.dim), torch.nan)
    return out, network.gradients(network.initial, batch, out)


def test_a_gradient_is_within_a_tenth_of_its_length_and_not_nearer_than_its_factors() -> None:
    """Factors are within 2^-8; a gradient is further, because ReLU masks of features near 0 flip."""
    network, batch = Network(Mlp((200, 200)), (1, 28, 28), 10, seed=0), drawn()
    (exact, losses), (found, near) = gradients(network, batch), gradients(bfloat16.Rounded(network), batch)
    errors = (found - exact).norm(dim=1) / exact.norm(dim=1)
    assert found.dtype == torch.float32 and bool((errors < 0.1).all()) and bool((errors > 1e-3).all())
    assert bool(((near - losses).abs() < 1e-3 * losses).all())
    parts = zip(bfloat16.Rounded(network).views(found - exact).items(), network.views(exact).values(), strict=True)
    last = [float(off.norm() / whole.norm()) for (name, off), whole in parts if name.startswith("5.")]
    assert len(last) == 2 and max(last) < 2**-7


def test_a_model_for_each_client_gives_the_same_as_one_for_all() -> None:
    network, batch = bfloat16.Rounded(Network(Mlp((24, 16)), (1, 28, 28), 10, seed=0)), drawn()
    together, losses = gradients(network, batch)
    own = torch.full_like(together, torch.nan)
    found = network.own_gradients(network.initial.repeat(len(SIZES), 1), batch, own)
    torch.testing.assert_close(own, together, atol=1e-5, rtol=2**-6)
    torch.testing.assert_close(found, losses, atol=0, rtol=1e-4)


def test_local_epochs_descend_by_these_gradients() -> None:
    network = bfloat16.Rounded(Network(Mlp((24,)), (1, 28, 28), 10, seed=0))
    x, y = drawn().x[:64], drawn().y[:64]
    population = Population(x, y, [torch.arange(64).numpy()])
    out, row, local = torch.empty(1, network.dim), torch.empty(1, network.dim), network.initial.clone()
    samples = Samples(population, [0], [0], 0, "batches", 0, None)
    FedAvg(epochs=3)(network, network.initial, samples, 0.1, out)
    for _ in range(3):
        network.gradients(local, population.batch([0]), row)
        local.sub_(row[0], alpha=0.1)
    assert torch.equal(out[0], network.initial - local)


def test_the_number_of_threads_changes_no_byte() -> None:
    network, batch = bfloat16.Rounded(Network(Mlp((24, 16)), (1, 28, 28), 10, seed=0)), drawn()
    found = []
    for threads in (1, 3):
        with workers(threads):
            own = torch.empty(len(SIZES), network.dim)
            network.own_gradients(network.initial.repeat(len(SIZES), 1), batch, own)
            found.append((*gradients(network, batch), own))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_the_samples_of_a_population_are_converted_once() -> None:
    network, batch = bfloat16.Rounded(Network(Mlp((8,)), (1, 28, 28), 10, seed=0)), drawn()
    population = Population(batch.x, batch.y, [part.numpy() for part in torch.arange(sum(SIZES)).split(SIZES)])
    first, second = (network._samples(population.batch(clients)) for clients in (range(4), [0, 2]))
    assert first.all_x is second.all_x and first.all_x.dtype == torch.bfloat16
    assert torch.equal(second.x, population.batch([0, 2]).x.flatten(1).bfloat16())
    del first, second, population
    assert len(network._converted) == 0


@pytest.mark.parametrize(
    ("model", "shape", "expected"),
    [(Mlp((8,)), (1, 8, 8), True), (Mlp(()), (1, 8, 8), False), (Cnn(), (3, 32, 32), False)],
)
@pytest.mark.parametrize("units", [True, False])
def test_it_pays_with_units_and_a_dense_network(
    model: Model, shape: tuple[int, ...], expected: bool, units: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: units)
    assert (bfloat16.rounded(Network(model, shape, 10, seed=0)) is not None) == (units and expected)


def test_a_run_takes_it_with_medium_only_and_records_it(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bfloat16, "has_units", lambda: True)
    losses = {}
    for precision in ("highest", "medium"):
        done = bench(*SMALL, f"precision={precision}", f"results_dir={precision}")
        (folder,) = (tmp_path / precision / "runs").iterdir()
        assert done.code == 0 and "products are in float32" not in done.err
        losses[precision] = (folder / "metrics.csv").read_text()
        products = json.loads((folder / "summary.json").read_text())["products"]
        assert products == ("bfloat16" if precision == "medium" else "float32")
    assert losses["highest"] != losses["medium"]


def test_its_code_belongs_to_runs_with_medium_only() -> None:
    def units(*overrides: str) -> set[str]:
        return {unit.name for unit in code_digest.closure_of(compose.resolve(overrides).identity).units}

    assert units("precision=medium") - units() >= {"Rounded.gradients", "_gradients"}
    assert units("precision=high") == units()
