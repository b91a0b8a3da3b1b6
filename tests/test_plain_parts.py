"""Functions and plain classes as attacks, partitions, local updates and models: the same numbers as parts of this
package, arguments as options, mistakes in one line."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import robustfl_bench as rb
from robustfl_bench.doors.api.run import of_folder
from robustfl_bench.runner.config import outside
from tests.conftest import Bench, config_of

SMALL = ("rounds=3", "model.hidden=[4]", "num_clients=6", "partition=iid")
ATTACKED = (*SMALL, "num_byzantine=2")
PARTS = """
import random

import numpy as np
import torch
from torch import nn


def away(honest, strength=2.0):
    honest -= 1  # it is given a copy
    return -strength * (honest + 1).mean(axis=0, dtype=np.float64)


def knowing(honest: torch.Tensor, n, f, params, previous, round, lr, rng, own, mean, std, ask):
    assert (n, f, len(own), lr) == (6, 2, 2, 0.1) and params.shape == mean.shape == std.shape
    assert (previous is None) == (round == 0) and ask(mean).shape == mean.shape
    return torch.stack([mean, std]) * float(rng.random()) * random.random()


class Growing:
    def __init__(self, factor):
        self.factor, self.calls = factor, 0

    def __call__(self, honest):
        self.calls += 1
        return -self.factor * self.calls * honest.mean(axis=0)


def flipped(x, y, num_classes, shift=1):
    return x, (y + shift) % num_classes


def short(x, y):
    return x[:1], y


def narrow(honest):
    return honest[:, :2]


def in_turn(labels, num_clients):
    return np.arange(len(labels)) % num_clients


def sorted_lists(labels, num_clients, rng):
    parts = np.array_split(np.argsort(labels, kind="stable"), num_clients)
    return {client: parts[i] for i, client in enumerate(rng.permutation(num_clients))}


def lonely(labels, num_clients):
    return labels * 1.5


def from_one(labels, num_clients):
    return 1 + np.arange(len(labels)) % num_clients


def below(labels, num_clients):
    return np.arange(len(labels)) % num_clients - 1


def silent(first):
    first.mean()


def two_steps(params, gradient, lr, steps=2):
    for _ in range(steps):
        params = params - lr * gradient(params)
    return params


class Net(nn.Module):
    def __init__(self, in_features, num_classes, width=4):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(in_features, width), nn.ReLU(), nn.Linear(width, num_classes)
        )

    def forward(self, x):
        return self.layers(x)


def made(input_shape, num_classes, width=4):
    return Net(int(np.prod(input_shape)), num_classes, width)


class Normed(nn.Module):
    def __init__(self, in_features, num_classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(in_features), nn.Linear(in_features, num_classes))

    def forward(self, x):
        return self.layers(x)


def nothing(num_classes):
    return num_classes
"""


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of an importable module with the parts above, another one for each test."""
    name = f"plain_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(PARTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield name
    sys.modules.pop(name, None)


def ended(bench: Bench, *words: str) -> tuple[Path, np.ndarray]:
    """The folder of a run and its metrics, the learning rate and what depends on an attack left out."""
    outcome = bench(*words)
    assert outcome.code == 0, outcome.err
    folder = Path(outcome.out.split()[-1])
    table = of_folder(folder).metrics
    return folder, table[["train_loss", "test_loss", "test_accuracy"]].to_numpy()


def test_an_attack_is_a_function_of_the_honest_updates(bench: Bench, parts: str) -> None:
    folder, own = ended(bench, f"attack={parts}:away", *ATTACKED)
    _, ours = ended(bench, "attack=ipm", "attack.scale=2", *ATTACKED)
    assert own == pytest.approx(ours, rel=1e-4) and "-away2-" in folder.name
    assert config_of(folder)["attack"] == {
        "_target_": "robustfl_bench.adapters.PlainAttack", "array": "numpy",
        "function": {"_target_": f"{parts}.away", "strength": 2.0},
    }  # fmt: skip
    _, other = ended(bench, f"attack={parts}:away", "attack.function.strength=0", *ATTACKED)
    assert not np.allclose(own, other)
    _, again = ended(bench, f"attack={parts}:away", *ATTACKED, "results_dir=again")
    assert np.array_equal(own, again)


def test_an_attack_gets_what_it_names_and_global_draws_follow_the_seed(bench: Bench, parts: str) -> None:
    words = (f"attack={parts}:knowing", *SMALL, "num_byzantine=2", "byzantine_placement=replace", "lr=0.1")
    _, first = ended(bench, *words)
    _, again = ended(bench, *words, "results_dir=again")
    assert np.array_equal(first, again)


def test_what_an_object_keeps_is_the_memory_of_the_attack(bench: Bench, parts: str) -> None:
    _, own = ended(bench, f"attack={parts}:Growing", "attack.function.factor=1", *ATTACKED, "rounds=1")
    _, grown = ended(bench, f"attack={parts}:Growing", "attack.function.factor=1", *ATTACKED, "rounds=2")
    _, ours = ended(bench, "attack=ipm", "attack.scale=1", *ATTACKED, "rounds=2")
    assert own[0] == pytest.approx(ours[0], rel=1e-4) and not np.allclose(grown[1], ours[1], rtol=1e-4)
    assert "has no default" in bench(f"attack={parts}:Growing", *ATTACKED).err


def test_a_function_of_samples_and_labels_poisons(bench: Bench, parts: str) -> None:
    placed = (*ATTACKED, "byzantine_placement=replace")
    _, own = ended(bench, f"attack={parts}:flipped", "attack.function.shift=3", *placed)
    _, clean = ended(bench, f"attack={parts}:flipped", "attack.function.shift=0", *placed)
    assert not np.allclose(own, clean)
    assert outside.content("attack", f"{parts}:flipped")["_target_"].endswith(".PlainPoison")
    outcome = bench(f"attack={parts}:flipped", *ATTACKED)
    assert outcome.code == 2 and "set byzantine_placement=replace" in outcome.err
    bench(f"attack={parts}:short", *placed).refused(1, "short must return samples and as many labels")


@pytest.mark.parametrize("name", ["in_turn", "sorted_lists"])
def test_a_partition_is_a_function_of_the_labels(bench: Bench, parts: str, name: str) -> None:
    folder, own = ended(bench, *SMALL, f"partition={parts}:{name}")
    assert f"digits-{name}-" in folder.name
    _, again = ended(bench, *SMALL, f"partition={parts}:{name}", "results_dir=again")
    assert np.array_equal(own, again)


def test_a_local_update_is_a_function_of_the_model(bench: Bench, parts: str) -> None:
    local = ("local_update=local_sgd", "local_update.steps=2", "local_update.upload=difference")
    _, ours = ended(bench, *SMALL, *local, "batch_size=16")
    _, own = ended(bench, *SMALL, f"local_update={parts}:two_steps", "batch_size=16")
    assert own == pytest.approx(ours, rel=1e-4)
    _, longer = ended(
        bench, *SMALL, f"local_update={parts}:two_steps", "local_update.function.steps=3", "batch_size=16"
    )
    assert not np.allclose(own, longer)


@pytest.mark.parametrize("name", ["Net", "made"])
def test_a_model_is_a_class_of_pytorch_or_a_function(bench: Bench, parts: str, name: str) -> None:
    words = ("rounds=3", "num_clients=6", "partition=iid")
    folder, own = ended(bench, *words, f"model={parts}:{name}")
    _, ours = ended(bench, *words, "model=mlp", "model.hidden=[4]")
    assert own == pytest.approx(ours, rel=1e-4), "the same layers from the same seed"
    _, wider = ended(bench, *words, f"model={parts}:{name}", "model.function.width=8")
    assert not np.allclose(own, wider)
    assert json.loads((folder / "summary.json").read_text())["choices"]["model"] == name.lower()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["attack=PARTS:narrow"], 1, "narrow must return updates (310,) or (2, 310), got shape (6, 2)"),
        (["attack=PARTS:np"], 2, "attack must be a subclass of robustfl_bench.interfaces.Attack"),
        (["partition=PARTS:lonely"], 1, "lonely must return the client of each of the"),
        (["attack=PARTS:silent"], 1, "silent returned nothing; it must return updates (310,) or (2, 310)"),
        (["local_update=PARTS:silent"], 1, "silent returned nothing; it must return a model (310,)"),
        (["partition=PARTS:from_one"], 1, "from_one must return clients from 0 to 5, got 1 to 6"),
        (["partition=PARTS:below"], 1, "below must return clients from 0 to 5, got -1 to 4"),
        (["attack=PARTS:away", "attack.function.streng=1"], 2, "did you mean attack.function.strength"),
        (["model=PARTS:nothing"], 2, "model nothing must make a torch.nn.Module, got a int"),
        (["model=PARTS:away"], 2, "model.function.honest has no default"),
        (["model=PARTS:Normed"], 2, "BatchNorm"),
        (["schedule=PARTS:away"], 2, "schedule must be a subclass of robustfl_bench.interfaces.Schedule"),
    ],
)
def test_a_mistake_is_one_line(bench: Bench, parts: str, words: list[str], code: int, message: str) -> None:
    given = [word.replace("PARTS", parts) for word in words]
    small = [
        word for word in ATTACKED if not (word.startswith("model.") and any(w.startswith("model=") for w in given))
    ]
    outcome = bench(*small, *given)
    assert outcome.code == code and message in outcome.err and len(outcome.err.splitlines()) == 1, outcome.err


def test_objects_of_python_are_the_same_runs(parts: str) -> None:
    module = __import__(parts)
    small = {"rounds": 2, "num_clients": 6, "partition": module.in_turn, "num_byzantine": 2}
    result = rb.run(attack=module.away, model=module.Net, local_update=module.two_steps, **small)
    words = (f"attack={parts}:away", f"model={parts}:Net", f"local_update={parts}:two_steps")
    same = rb.run(*words, f"partition={parts}:in_turn", "rounds=2", "num_clients=6", "num_byzantine=2")
    assert result.path == same.path and torch.isfinite(torch.tensor(result.accuracy))
