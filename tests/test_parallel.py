"""The same bytes for every ``num_threads``: of gradients, rules, attacks and whole runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info
from torch import Tensor

from robustfl_bench.base.parallel import each, workers
from robustfl_bench.doors.testing import example_round, example_view
from robustfl_bench.interfaces import ConfigError
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Population, Samples
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.local_updates.fedavg import FedAvg
from robustfl_bench.parts.local_updates.local_sgd import LocalSgd
from robustfl_bench.parts.models.cnn import Cnn
from robustfl_bench.parts.models.gru import Gru
from robustfl_bench.parts.models.lenet import LeNet
from robustfl_bench.parts.models.mlp import Mlp
from robustfl_bench.runner.config.options import CONF
from tests.conftest import Bench, contents, run_folders
from tests.rounds import build

WIDE = 20_000  # coordinates, more than are taken at once
VECTORS = torch.randn(50, 8, generator=torch.Generator().manual_seed(1))
MODELS = {
    "mlp": (Mlp((64, 32)), (1, 28, 28)),
    "cnn": (Cnn((8, 8), 16), (3, 16, 16)),
    "lenet": (LeNet(), (1, 28, 28)),
    "gru": (Gru(), (12,)),
}


def over_threads(compute: Callable[[], Tensor]) -> list[bytes]:
    """The bytes of what is computed by one, two and three threads."""
    found = []
    for number in (1, 2, 3):
        with workers(number):
            found.append(compute().numpy().tobytes())
    return found


def same(compute: Callable[[], Tensor]) -> bool:
    return len(set(over_threads(compute))) == 1


# --- the threads -----------------------------------------------------------------------------------------------------


def test_tasks_keep_their_order_and_what_they_depend_on() -> None:
    assert each(str, range(3)) == ["0", "1", "2"]
    with workers(3):
        assert torch.get_num_threads() == 1
        assert {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"} == {1}
        assert each(lambda i: each(lambda j: (i, j), range(2)), range(40)) == [[(i, 0), (i, 1)] for i in range(40)]
        assert each(lambda _: torch.get_num_threads(), range(9)) == [1] * 9
        with torch.no_grad():
            assert each(lambda _: torch.is_grad_enabled(), range(9)) == [False] * 9
        assert each(lambda _: torch.is_grad_enabled(), range(9)) == [True] * 9
        with pytest.raises(ZeroDivisionError):
            each(lambda i: 1 // (i - 5), range(9))


def test_the_threads_before_are_those_after() -> None:
    before = torch.get_num_threads(), threadpool_info()
    with pytest.raises(KeyError), workers(2):
        raise KeyError
    assert (torch.get_num_threads(), threadpool_info()) == before


# --- clients ---------------------------------------------------------------------------------------------------------


def clients_of(name: str) -> tuple[Network, Population]:
    model, shape = MODELS[name]
    network = Network(model, shape, 4, 0, VECTORS if name == "gru" else None)  # type: ignore[arg-type]
    draw, sizes = torch.Generator().manual_seed(0), [40, 7, 130, 64, 1, 200, 90]
    tokens = torch.randint(1, 50, (sum(sizes), *shape), generator=draw)
    x = tokens if name == "gru" else torch.randn(sum(sizes), *shape, generator=draw)
    y = torch.randint(4, (len(x),), generator=draw)
    return network, Population(x, y, np.split(np.arange(len(y)), np.cumsum(sizes)[:-1]))


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    network, population = clients_of(name)
    batch = population.batch(range(len(population)))

    def compute() -> Tensor:
        out, own = (torch.empty(len(population), network.dim) for _ in range(2))
        stack = torch.stack([network.initial * (1 + 0.1 * i) for i in range(len(population))])
        network.gradients(network.initial, batch, out)
        network.own_gradients(stack, batch, own)
        losses = network.client_losses(stack[:2], batch)
        test = [network.evaluate(network.initial, population.x, population.y)[0]]
        server = network.losses(stack, population.x[:50], population.y[:50])
        return torch.cat([part.double().flatten() for part in (out, own, losses, torch.tensor(test), server)])

    assert same(compute)


@pytest.mark.parametrize(
    "update", [LocalSgd(2), LocalSgd(None, 2, "difference", momentum=0.5), FedAvg(2, mu=0.1)], ids=str
)
def test_local_updates(update: Any) -> None:
    network, population = clients_of("mlp")
    everyone = range(len(population))

    def compute() -> Tensor:
        out = torch.empty(len(population), network.dim)
        losses = update(network, network.initial, Samples(population, everyone, everyone, 0, "test", 0, 32), 0.1, out)
        return torch.cat([out.flatten().double(), losses])

    assert same(compute)


def test_a_gradient_does_not_depend_on_who_shares_the_work() -> None:
    """Two threads use the module's copies at once, whose hooks must not meet: client by client, one thread agrees."""
    network, population = clients_of("lenet")
    out = torch.empty(len(population), network.dim)
    with workers(3):
        for _ in range(5):
            network.gradients(network.initial, population.batch(range(len(population))), out)
    for row, (x, y) in zip(out, population.batch(range(len(population))).clients(), strict=True):
        torch.testing.assert_close(row, network.gradient(network.initial, x, y), rtol=1e-4, atol=1e-6)


# --- rules and attacks -----------------------------------------------------------------------------------------------


def test_rules() -> None:
    wrong, asked = [], 0
    for path in sorted((CONF / "aggregator").glob("*.yaml")):
        rule = build("aggregator", path.stem, num_byzantine=1)
        updates, server = example_round(0, d=WIDE, wild=1, honest=9)

        def compute(rule: Any = rule, updates: Updates = updates, seed: int = 0) -> Tensor:
            _, server = example_round(seed, d=WIDE, wild=1, honest=9)
            return rule(Updates(updates.matrix), server).vector  # type: ignore[no-any-return]

        try:
            rule(updates, server)
        except ConfigError:
            continue
        asked += 1
        if not same(compute):
            wrong.append(path.stem)
    assert asked > 40 and not wrong


@pytest.mark.parametrize(
    "name", ["ipm", "lie", "minmax", "minsum", "mimic", "gauss", "krum_attack", "trim_attack", "rop"]
)
def test_attacks(name: str) -> None:
    attack = build("attack", name)

    def compute() -> Tensor:
        crafted = attack.craft(example_view(d=WIDE))
        return getattr(crafted, "rows", crafted)  # type: ignore[no-any-return]

    assert same(compute)


@pytest.mark.parametrize(
    "overrides",
    [
        ("dataset=digits", "attack=lie", "aggregator=boba", "batch_size=8"),
        ("dataset=digits", "attack=minmax", "pre_aggregation=bucketing", "aggregator=krum", "local_update=fedavg"),
        ("dataset=digits", "attack=ipm", "aggregator=trmean", "model=dropout_cnn", "model.dense=8"),
    ],
    ids=" ".join,
)
def test_runs(bench: Bench, tmp_path: Path, overrides: tuple[str, ...]) -> None:
    """Their rows."""
    common = ("rounds=2", "num_byzantine=2", "num_clients=10", *overrides)
    for number in (1, 2, 3):
        outcome = bench(*common, f"num_threads={number}", f"results_dir=by_{number}")
        assert outcome.code == 0, outcome.err
    runs = [contents(tmp_path / f"by_{number}", "metrics.csv") for number in (1, 2, 3)]
    assert len(run_folders(tmp_path / "by_1")) == 1 and runs[0] == runs[1] == runs[2]
