"""A run that cannot fit is refused before anything is loaded, in one line with n and d."""

import gc
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest
import torch
from torch import nn

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts import datasets
from robustfl_bench.parts.datasets import Digits
from robustfl_bench.parts.models import Mlp
from robustfl_bench.runner.config import request
from robustfl_bench.runner.experiment import memory, networks, plan
from tests.conftest import Bench
from tests.processes import start

SMALL = ("rounds=1", "num_clients=600", "partition=iid", "model.hidden=[10]")
MATRIX = 4 * 600 * 760  # bytes: 600 clients by 64 * 10 + 10 + 10 * 10 + 10 parameters
DIGITS, TRAIN = 4 * 1797 * 64, 4 * 1437 * 64


@pytest.mark.parametrize(
    ("overrides", "matrices", "honest", "what"),
    [
        (("local_update=fedsgd",), 1, 600, "the updates of n=600 clients by d=760 parameters take 1.82 MB"),
        (("local_update=momentum",), 2, 600, "the updates of n=600 clients"),
        (("local_update=momentum", "participation=0.01", "rounds=2"), 0.03, 600, "the samples of digits"),
        (
            ("local_update=momentum", "local_update.inner._target_=robustfl_bench.local_updates.Rsa"),
            3,
            600,
            "remembers of 600",
        ),
        (
            ("local_update=momentum", "attack=ipm", "num_byzantine=150", "byzantine_placement=replace"),
            1.75,
            450,
            "the updates of n=600 clients",
        ),
    ],
)
def test_what_a_run_needs(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    overrides: tuple[str, ...],
    matrices: float,
    honest: int,
    what: str,
) -> None:
    monkeypatch.setattr(memory.samples, "is_loaded", lambda *_: False)
    monkeypatch.setattr(memory, "_has_room", lambda _: False)
    least = int(matrices * MATRIX) + DIGITS + TRAIN * honest // 600
    monkeypatch.setattr(memory, "free_bytes", lambda: least)  # the models are not in it
    outcome = bench(*SMALL, *overrides)
    outcome.refused(2, what, "d=760")
    assert outcome.err.endswith("lower num_clients (now 600)\n") == (what != "the samples of digits")
    monkeypatch.setattr(memory, "free_bytes", lambda: least + 100_000)
    assert bench(*SMALL, *overrides).code == 0


def test_updates_that_do_not_fit_are_kept_in_a_file(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = ("aggregator=krum", "attack=ipm", "num_byzantine=20")
    usual = bench(*SMALL, *runs)
    monkeypatch.setattr(memory, "RESIDENT", 1 << 20)
    monkeypatch.setattr(memory, "free_bytes", lambda: 8 * 3 * 620**2 + (1 << 21))
    kept = bench(*SMALL, *runs, "results_dir=other")
    said = (
        "the updates of n=620 clients by d=760 parameters are kept in a file in other: 1.88 MB do not fit into memory\n"
    )
    assert kept.err.startswith(said)
    assert kept.out.split("  ")[0] == usual.out.split("  ")[0]
    monkeypatch.setattr(memory, "free_bytes", lambda: 1_900_000)
    outcome = bench(*SMALL, "aggregator=lasa", "results_dir=third", "seed=1")
    outcome.refused(2, "the 2 matrices that Lasa makes of all updates take 3.65 MB")


def test_each_of_several_processes_holds_a_part_of_the_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    config, _ = request.composed([*SMALL, "processes=4", "local_update=fedsgd"])
    planned, cpu = plan.plan(config), torch.device("cpu")
    part = 4 * (2 * 600 * 190 + 2 * 150 * 760)  # its columns of all updates, twice, and twice those of its clients
    needed = memory.needs(planned, cpu)
    assert needed["the updates of n=600 clients by d=760 parameters"] == part
    monkeypatch.setattr(memory, "free_bytes", lambda: 2 * sum(needed.values()))
    with pytest.raises(ConfigError, match=r"by d=760 parameters take 7\.3 MB in 4 processes and"):
        memory.check(planned)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(memory, "_wait_for_room", lambda *_: None)
    assert memory.check(planned) == "float32", "it fits, as two of the four are on another machine"


def test_square_matrices_are_counted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 8 * 3 * 600**2)
    run = ("attack=none", "aggregator=krum", "local_update=fedsgd")
    outcome = bench(*SMALL, *run)
    assert "the (n, n) matrices of n=600 clients take 8.64 MB" in outcome.err
    outcome = bench(*SMALL, *run, "pre_aggregation=nnm")
    assert "the (n, n) matrices of n=600 clients take 14.4 MB" in outcome.err


@pytest.mark.parametrize(
    ("dataset", "numbers", "copied"),
    [
        ("mnist", 70_000 * 784, 60_000 * 784),
        ("rotated_mnist", 70_000 * 784, 60_000 * 784),
        ("mnist_writers", 70_000 * 784, 0),  # which reads all of MNIST, and keeps some writers
        ("cifar10", 60_000 * 3072, 50_000 * 3072),
    ],
)
def test_samples_are_counted_by_what_their_files_are_known_to_hold(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, dataset: str, numbers: int, copied: int
) -> None:
    monkeypatch.setattr(datasets, "require", lambda *_: None)  # which would end a run without files first
    monkeypatch.setattr(memory, "free_bytes", lambda: 4 * (numbers + copied))
    run = (f"dataset={dataset}", "data_dir=none_here", "num_clients=4", "num_byzantine=0", "model.hidden=[2]")
    outcome = bench(*run)
    outcome.refused(2, f"the samples of {dataset} take ", "(n=4, d=")
    assert outcome.err.endswith(f"take a smaller data set than dataset={dataset}\n")
    monkeypatch.setattr(memory, "free_bytes", lambda: 4 * (numbers + copied) + 1_000_000)
    assert "no mnist in" in (absent := bench(*run)).err or "no cifar10 in" in absent.err
    assert absent.code == 3


def test_files_that_declare_no_sizes_are_counted_as_they_lie(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for part in ("train", "test"):
        (tmp_path / "femnist" / part).mkdir(parents=True)
        (tmp_path / "femnist" / part / "all.json").write_bytes(b"x" * 2_000_000)
    run = ("dataset=femnist", "data_dir=.", "num_clients=4", "num_byzantine=0", "model.hidden=[2]")
    monkeypatch.setattr(memory, "free_bytes", lambda: 3_999_999)
    outcome = bench(*run)
    outcome.refused(2, "the files of femnist take 4 MB and 4 MB are free")
    assert outcome.err.endswith("take a smaller data set than dataset=femnist\n")
    monkeypatch.setattr(memory, "free_bytes", lambda: 4_100_000)
    assert "not a JSON file of LEAF" in bench(*run).err


def test_data_in_memory_are_not_counted_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_has_room", lambda _: False)
    datasets._load.cache_clear()
    gc.unfreeze()  # a sweep in this process has left the runs of earlier tests out of collections
    gc.collect()
    small = ("rounds=1", "num_clients=4", "num_byzantine=0", "partition=iid", "model.hidden=[2]")
    monkeypatch.setattr(memory, "free_bytes", lambda: DIGITS)
    assert "the samples of digits take 460 kB" in bench(*small).err
    monkeypatch.setattr(memory, "free_bytes", lambda: 2 * DIGITS)
    assert bench(*small).code == 0
    monkeypatch.setattr(memory, "free_bytes", lambda: DIGITS - 1)
    assert bench(*small, "seed=1").code == 0


@pytest.mark.parametrize("hidden", [(), (30, 20)], ids=str)
def test_the_outputs_of_dense_layers_are_counted_without_a_forward_pass(hidden: tuple[int, ...]) -> None:
    dataset = Digits()
    module, counted = Mlp(hidden)(dataset.input_shape, dataset.num_classes), list[int]()
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            layer.register_forward_hook(lambda _, __, output: counted.append(output.numel()))
    module(torch.zeros(1, *dataset.input_shape))
    assert networks.outputs_per_sample(Mlp(hidden), dataset) == sum(counted)


def test_a_size_is_computed_once_for_models_of_the_package_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, made = Digits(), list[object]()
    build = networks._shapes_of
    monkeypatch.setattr(networks, "_shapes_of", lambda model, data: made.append(model) or build(model, data))
    sizes = [networks.num_params(Mlp((width, 3)), dataset) for width in (5, 7, 5)]
    assert sizes == [64 * 5 + 5 + 5 * 3 + 3 + 40, 64 * 7 + 7 + 7 * 3 + 3 + 40, 64 * 5 + 5 + 5 * 3 + 3 + 40]
    assert made == [Mlp((5, 3)), Mlp((7, 3))]

    class Elsewhere(Mlp):  # whose code nobody knows
        pass

    made.clear()
    assert [networks.num_params(Elsewhere((5, 3)), dataset) for _ in range(2)] == sizes[::2] and len(made) == 2


def refuse_compiler() -> None:
    """From now on, importing the compiler of PyTorch ends this process."""

    class Refusing(MetaPathFinder):
        def find_spec(self, fullname: str, path: object, target: object = None) -> None:
            if fullname == "torch._dynamo":
                raise SystemExit("imported the compiler of PyTorch")

    sys.meta_path.insert(0, Refusing())
    assert "torch._dynamo" not in sys.modules, "what is imported before a run imports it"


def test_a_dense_run_does_not_import_the_compiler_of_pytorch(tmp_path: Path) -> None:
    """It would take over a second of every start."""
    command = start(tmp_path, *SMALL, first=refuse_compiler)
    printed, errors = command.communicate()
    assert command.returncode == 0 and printed.startswith("result: "), errors
