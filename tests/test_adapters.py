"""Rules of other packages, unchanged: functions of a matrix, objects, class methods, strategies of Flower."""

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import robustfl_bench as rb
from robustfl_bench.doors.testing import check_aggregator, example_round
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.adapters import Foreign
from robustfl_bench.runner.config import compose, outside, targets
from tests.conftest import Bench, config_of, contents, run_folders

SMALL = ("rounds=3", "model.hidden=[4]", "num_clients=8", "num_byzantine=2", "attack=ipm")
RULES = """
import random

import numpy as np
import torch


def trimmed(matrix, f, stretch=1.0):
    rows = np.sort(matrix, axis=0).astype(np.float64)
    matrix[:] = np.nan  # it is given a copy
    return stretch * rows[f : len(rows) - f].mean(axis=0)


def median(updates: torch.Tensor, *, num_byzantine: int = 0, device=torch.device("cpu")) -> torch.Tensor:
    assert num_byzantine == 2
    return updates.sort(dim=0).values[len(updates) // 2]


def some(matrix):
    random.random()
    return matrix[np.random.permutation(len(matrix))[:2]].mean(axis=0) * float(torch.rand(1))


def needy(matrix, depth, seed):
    return matrix[0]


def wrong(matrix):
    return matrix.mean(axis=1)


def scrambled(matrix):
    return matrix[:4, :2]


def spinning(matrix):
    return matrix.mean(axis=0) * (1 + 1j)


def standing(matrix):
    return matrix.mean(axis=0)[:, None]


def forgetful(matrix):
    matrix.mean(axis=0)


def raising(matrix):
    raise KeyError


class First:
    @classmethod
    def aggregate(cls, gradients, n, f):
        assert n == len(gradients)
        return gradients[: n - f].mean(axis=0)


class Last:
    def __init__(self, *, f=0):
        self.f = f

    def aggregate(self, gradients):
        return sum(list(gradients)[self.f :]) / (len(gradients) - self.f)


class Slow:
    def __init__(self, f=0, rate=0.5):
        self.f, self.rate, self.last, self.rounds = f, rate, None, 0

    def __call__(self, matrix):
        now = np.median(matrix, axis=0)
        self.last = now if self.last is None else self.last + self.rate * (now - self.last)
        self.rounds += 1
        return self.last


class Diary:
    def __init__(self):
        self.pages = []

    def __call__(self, matrix):
        self.pages.append("a round")
        return matrix[0]


class Strategy:
    def __init__(self, num_malicious_clients=0):
        self.f = num_malicious_clients

    def aggregate_fit(self, server_round, results, failures):
        import io
        from types import SimpleNamespace

        assert not failures and server_round > 0
        models = [np.load(io.BytesIO(reply.parameters.tensors[0])) for _, reply in results]
        kept = [reply.num_examples * model for (_, reply), model in zip(results, models)][self.f :]
        made = sum(kept) / sum(reply.num_examples for _, reply in results[self.f :])
        content = io.BytesIO()
        np.save(content, made)
        return SimpleNamespace(tensors=[content.getvalue()], tensor_type="numpy.ndarray"), {}
"""


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of its own name in the current folder."""
    name = f"foreign_rules_{abs(hash(tmp_path)):x}"
    (tmp_path / f"{name}.py").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def rule_of(words: str) -> Any:
    content = compose.resolve([f"aggregator={words}", "num_byzantine=2"]).config["aggregator"]
    targets.check("aggregator", content)
    return targets.build(content)


def test_a_function_of_a_matrix_is_a_rule_with_its_arguments_as_options(bench: Bench, rules: str) -> None:
    outcome = bench(f"aggregator={rules}:trimmed", *SMALL)
    assert outcome.code == 0, outcome.err
    own = contents(Path("results"), "metrics.csv").values()
    assert bench("aggregator=trmean", *SMALL, "results_dir=ours").code == 0
    last = [text.splitlines()[-1].split(b",")[2] for text in (*own, *contents(Path("ours"), "metrics.csv").values())]
    assert float(last[0]) == pytest.approx(float(last[1]), abs=1e-5), "the trimmed mean of this package"
    ((name, folder),) = run_folders(Path("results")).items()
    assert "-trimmed-" in name
    wanted = {"_target_": f"{rules}.trimmed", "f": 2, "stretch": 1.0}
    assert config_of(folder)["aggregator"] == {
        "_target_": "robustfl_bench.adapters.Foreign", "array": "numpy", "rule": wanted,
    }  # fmt: skip
    assert bench(f"aggregator={rules}:trimmed", "aggregator.rule.stretch=0.5", *SMALL).code == 0
    assert len(run_folders(Path("results"))) == 2
    refused = bench(f"rerun={folder}", "seed=1")
    assert refused.code == 2 and f"add allow={rules}" in refused.err
    assert "-trimmed-" in bench(f"rerun={folder}", "seed=1", f"allow={rules}").out


def test_a_rule_is_called_once_a_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "counted_rule.py").write_text(
        "CALLS = []\n\n\ndef counted(matrix):\n    CALLS.append(1)\n    return matrix.mean(axis=0)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    calls = []
    for rounds in (4, 9):
        rb.run("model.hidden=[4]", "num_clients=6", f"rounds={rounds}", aggregator="counted_rule:counted")
        calls.append(len(sys.modules["counted_rule"].CALLS))
        sys.modules["counted_rule"].CALLS.clear()
    assert calls[1] - calls[0] == 9 - 4, "and some more before the first round, as a rule that nobody knows"


def test_a_changed_function_is_another_code(bench: Bench, rules: str, tmp_path: Path) -> None:
    words = (f"aggregator={rules}:trimmed", *SMALL)
    assert bench(*words).code == 0
    ((_, folder),) = run_folders(Path("results")).items()
    code = json.loads((folder / "summary.json").read_text())["code"]
    assert set(code["parts"]) == {"aggregator"} and len(code["parts"]["aggregator"]) == 64


def test_what_a_rule_is_called_with_is_read_from_its_signature(rules: str) -> None:
    content = outside.content("aggregator", f"{rules}:median")
    assert content["array"] == "torch" and content["rule"] == {
        "_target_": f"{rules}.median", "num_byzantine": "${num_byzantine_declared}",
    }  # fmt: skip
    assert outside.content("aggregator", f"{rules}:needy")["rule"] == {
        "_target_": f"{rules}.needy", "depth": "???", "seed": "${seed}",
    }  # fmt: skip
    rows = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    assert np.array_equal(rule_of(f"{rules}:median")(rows), np.median(rows, axis=0))
    assert rule_of(f"{rules}:First")(rows) == pytest.approx(rows[:7].mean(axis=0))
    assert rule_of(f"{rules}:Last")(rows) == pytest.approx(rows[2:].mean(axis=0), abs=1e-6)
    assert rule_of(f"{rules}:trimmed")(torch.from_numpy(rows)).dtype == torch.float32
    assert rule_of(f"{rules}:standing")(rows) == pytest.approx(rows.mean(axis=0), abs=1e-6), "a column is a vector"


def test_functions_and_classes_of_other_packages_are_given_as_they_are(rules: str) -> None:
    module = __import__(rules)
    small = {"rounds": 2, "model.hidden": [4], "num_clients": 8, "num_byzantine": 2}
    result = rb.run(aggregator=module.trimmed, **small)
    assert rb.run(f"aggregator={rules}:trimmed", **small).path == result.path
    assert rb.run(aggregator=module.First, **small).summary["status"] == "finished"
    with pytest.raises(rb.ConfigError, match="aggregator must be a subclass of"):
        rb.run(aggregator=dict, **small)


def test_global_random_numbers_follow_the_seed_of_the_run_and_are_left_as_they_were(bench: Bench, rules: str) -> None:
    rule = rule_of(f"{rules}:some")
    updates, server = example_round(0)
    _, same = example_round(0)
    before = np.random.get_state()[1].copy(), torch.random.get_rng_state()  # noqa: NPY002
    first, second = rule(updates, server), rule(updates, server)
    assert not torch.equal(first.vector, second.vector), "each round draws anew"
    assert torch.equal(first.vector, rule(updates, same).vector)
    assert (np.random.get_state()[1] == before[0]).all() and torch.equal(torch.random.get_rng_state(), before[1])  # noqa: NPY002
    runs = [bench(f"aggregator={rules}:some", *SMALL, f"results_dir={folder}") for folder in ("a", "b")]
    assert [run.code for run in runs] == [0, 0] and contents(Path("a")) == contents(Path("b"))


def test_what_an_object_keeps_is_the_memory_of_the_rule(rules: str) -> None:
    rule, kept = rule_of(f"{rules}:Slow"), __import__(rules).Slow(f=2)
    memory: dict[str, Any] = {}
    for seed in range(4):
        updates, server = example_round(seed)
        server.memory = memory
        aggregate = rule(updates, server)
        assert np.allclose(aggregate.vector.numpy(), kept(updates.matrix.numpy()))
        memory = aggregate.memory
    assert memory["rounds"] == 4 and set(memory) == {"last", "rounds"}
    with pytest.raises(rb.ConfigError, match="Diary keeps pages, a list, from round to round"):
        rule_of(f"{rules}:Diary")(*example_round(0))


def test_adapted_rules_are_checked_like_others(rules: str) -> None:
    check_aggregator(rule_of(f"{rules}:trimmed"), num_byzantine=2)
    with pytest.raises(AssertionError, match="order: a random order"):
        check_aggregator(rule_of(f"{rules}:First"), num_byzantine=2)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["RULES:wrong"], 1, "wrong must return a vector (8,), got shape (10,)"),
        (["RULES:scrambled"], 1, "scrambled must return a vector (8,), got shape (4, 2)"),
        (["RULES:spinning"], 1, "spinning must return a vector (8,) of real numbers, got complex ones"),
        (["RULES:forgetful"], 1, "forgetful returned nothing; it must return a vector (8,)"),
        (["RULES:raising"], 2, "raising fails on 10 updates: KeyError"),
        (["RULES:trimmed", "aggregator.rule.f=5"], 2, "trimmed makes numbers that are not finite of 10 updates"),
        (["RULES:trimmed", "aggregator.rule.f=many"], 2, "trimmed fails on 10 updates: "),
        (["RULES:needy"], 2, "aggregator.rule.depth has no default and no value; add aggregator.rule.depth=VALUE"),
        (["RULES:trimmed", "aggregator.rule.streetch=1"], 2, "did you mean aggregator.rule.stretch"),
        (["RULES:trimmed", "++aggregator.rule.streetch=1"], 2, "no option 'streetch' (did you mean stretch?)"),
        (["RULES:trimmed", "aggregator.array=list"], 2, "array must be one of numpy, torch, got 'list'"),
        (["RULES:np"], 2, "must be a subclass of robustfl_bench.interfaces.Aggregator"),
    ],
)
def test_a_mistake_is_one_line(bench: Bench, rules: str, words: list[str], code: int, message: str) -> None:
    outcome = bench(*(word.replace("RULES", rules) for word in ("aggregator=" + words[0], *words[1:])), *SMALL)
    outcome.refused(code, message)
    outcome = bench(f"attack={rules}:np")
    assert outcome.code == 2 and "must be a subclass of robustfl_bench.interfaces.Attack" in outcome.err


def test_a_strategy_of_flower_is_a_rule(bench: Bench, rules: str) -> None:
    assert bench(f"aggregator={rules}:Strategy", *SMALL).code == 0
    ((_, folder),) = run_folders(Path("results")).items()
    assert config_of(folder)["aggregator"] == {
        "_target_": "robustfl_bench.adapters.FlowerRule",
        "rule": {"_target_": f"{rules}.Strategy", "num_malicious_clients": 2},
    }
    updates, server = example_round(0)
    counted = Updates(updates.matrix, torch.arange(1.0, 21, dtype=torch.float64))
    server.params = torch.linspace(-1, 1, 50)
    shares = (counted.counts / counted.counts[2:].sum()).float()
    expected = (shares[2:, None] * updates.matrix[2:]).sum(dim=0)
    assert torch.allclose(rule_of(f"{rules}:Strategy")(counted, server).vector, expected, atol=1e-5)


def test_the_strategies_of_flower_itself_agree_with_the_rules_here() -> None:
    strategies = pytest.importorskip("flwr.server.strategy", reason="needs pip install flwr")
    updates, server = example_round(0)
    server.params = torch.linspace(-1, 1, 50)
    for strategy, ours in ((strategies.FedAvg, rb.Average()), (strategies.FedMedian, rb.CooMed())):
        theirs = rule_of(f"flwr.server.strategy:{strategy.__name__}")(updates, server).vector
        assert torch.allclose(theirs, ours(updates, server).vector, atol=1e-5)


@pytest.fixture
def byzfl(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """ByzFL's rules; the package itself imports torchvision, one of the same name without its content does not."""
    if (found := find_spec("byzfl")) is None:
        pytest.skip("needs pip install --no-deps byzfl")
    package = ModuleType("byzfl")
    package.__path__ = list(found.submodule_search_locations or [])
    before = set(sys.modules)
    monkeypatch.setitem(sys.modules, "byzfl", package)
    yield "byzfl.aggregators.aggregators"
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_rules_of_byzfl_are_used_as_they_are(byzfl: str) -> None:
    rows = np.random.default_rng(0).normal(size=(11, 30)).astype(np.float32)
    for theirs, ours in (("TrMean", rb.TrMean(2)), ("Median", rb.CooMed()), ("Average", rb.Average())):
        assert rule_of(f"{byzfl}:{theirs}")(rows) == pytest.approx(ours(rows), abs=1e-5)
    assert isinstance(rule_of(f"{byzfl}:CenteredClipping"), Foreign)
