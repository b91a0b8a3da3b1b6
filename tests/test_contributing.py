"""The examples of README.md and CONTRIBUTING.md work as printed, outside the repository."""

import importlib
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import robustfl_bench
from robustfl_bench import Aggregate, Aggregator, ServerView, Updates
from robustfl_bench.commands import results as results_cli
from robustfl_bench.doors import testing
from robustfl_bench.numerics.questions import Questions
from tests.conftest import Bench, config_of, run_folders

ROOT = Path(__file__).resolve().parent.parent
README, GUIDE = ((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))
OWN_RULE = README[README.index("## Your own rule") : README.index("## Papers")]
SMALL = ("rounds=2", "model.hidden=[4]")


def blocks(text: str, kind: str) -> list[str]:
    return [block for name, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.S | re.M) if name == kind]


def commands(text: str, program: str) -> list[list[str]]:
    """The words after the name of a program, of each line of the plain blocks that begins with it."""
    lines = [line.split("  # ")[0] for block in blocks(text, "") for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith(f"{program} ")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder; what is imported from it and how is forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("norm_median", "test_norm_median", "cosine_vote"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def test_the_example_rule_its_test_and_its_commands_run(bench: Bench, folder: Path) -> None:
    rule, test, _ = blocks(GUIDE, "python")
    (folder / "norm_median.py").write_text(rule)
    (folder / "test_norm_median.py").write_text(test)
    mentioned = [words for words in commands(GUIDE, "robustfl-bench") if "norm_median:" in " ".join(words)]
    asked = [words for words in mentioned if words[0] != "arena"]  # tests/test_entering.py enters a rule
    single, sweep = asked
    outcome = bench(*single, *SMALL)
    assert outcome.code == 0 and "-norm_median-" in outcome.out, outcome.err
    outcome = bench(*sweep, *SMALL)
    assert outcome.code == 0 and len(outcome.out.splitlines()) == 6, outcome.err
    wrong = bench(*single, "aggregator.stretch=-1")
    assert wrong.code == 2 and "aggregator: stretch must be >= 0, got -1" in wrong.err
    tests = importlib.import_module("test_norm_median")  # from the current folder, as the command sees it
    tests.test_norm_median_keeps_its_promises()


def test_the_example_of_many_questions_answers_as_one_by_one() -> None:
    names = {"Callable": Callable, "Questions": Questions, "ServerView": ServerView, "Tensor": Tensor, "torch": torch}
    exec(blocks(GUIDE, "python")[2], names)

    class Closest(Aggregator):
        """The updates, weighted by how near they are to all others."""

        exempt = dict.fromkeys(testing.PROMISES, "an example")
        aggregate_many = names["aggregate_many"]

        def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
            return updates.combine(self._weights(updates.sq_dists))

        def _weights(self, sq_dists: Tensor) -> Tensor:
            return torch.softmax(-sq_dists.mean(dim=1), dim=0)

    testing.check_aggregator(Closest(), num_byzantine=3)


def test_the_example_runs_as_a_yaml_of_the_users_own(bench: Bench, folder: Path) -> None:
    rule, *_ = blocks(GUIDE, "python")
    (option,) = blocks(GUIDE, "yaml")
    (target,) = re.findall(r"_target_: (\S+)\.NormMedian", option)
    (folder / "norm_median.py").write_text(rule)
    (folder / "my_conf" / "aggregator").mkdir(parents=True)
    (folder / "my_conf" / "aggregator" / "short.yaml").write_text(option.replace(target, "norm_median"))
    outcome = bench("--config-dir", "my_conf", "aggregator=short", "attack=ipm", *SMALL)
    assert outcome.code == 0 and "-short-" in outcome.out, outcome.err
    same = bench("aggregator=norm_median:NormMedian", "attack=ipm", *SMALL)
    assert same.out.startswith("stored result"), "the class by its name has the same identity"
    ((_, path),) = run_folders(folder / "results").items()
    assert config_of(path)["aggregator"] == {"_target_": "norm_median.NormMedian", "stretch": 1.0}


def test_the_readme_fits_two_screens() -> None:
    assert len(README.splitlines()) <= 100


def test_the_first_commands_of_the_readme_set_all_up_and_say_how_long_they_take() -> None:
    first, *_ = blocks(README, "")
    said = dict(line.split("  # ", maxsplit=1) for line in first.splitlines() if "  # " in line)
    minutes = {command.strip(): re.search(r"in about (a|\w+) minutes?", words) for command, words in said.items()}
    assert list(minutes)[:2] == ["make run", "make test"] and minutes["make run"] and minutes["make test"], first
    assert re.search(r"^make .*\btest\b", (ROOT / ".ci" / "run").read_text(), re.MULTILINE), "the gate passes the tests"


def test_the_commands_of_the_readme_run(bench: Bench, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    new, single, sweep = commands(OWN_RULE, "robustfl-bench")
    assert bench(*new).code == 0
    for words in (single, [word for word in sweep if not word.startswith("seed=")]):
        outcome = bench(*words, *SMALL)
        assert outcome.code == 0, outcome.err
    (table,) = commands(OWN_RULE, "robustfl-results")
    assert results_cli.main(table) == 0
    printed = capfd.readouterr().out
    assert "cosine_vote" in printed and "krum" in printed


def test_the_python_of_the_readme_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks(OWN_RULE, "python")
    names: dict[str, object] = {}
    exec(code, names)
    assert names["vector"].shape == (1000,)  # type: ignore[attr-defined]
    result, runs = names["result"], names["runs"]
    assert isinstance(result, robustfl_bench.Result) and len(result.metrics) == 5
    assert len(runs) == 8  # type: ignore[arg-type]
    assert "krum" in capsys.readouterr().out
