"""``robustfl-bench new GROUP NAME`` writes a part that runs and a test that passes."""

import importlib
import inspect
from pathlib import Path

import pytest

from robustfl_bench.commands import new
from robustfl_bench.runner.config import compose
from robustfl_bench.train.parts import GROUPS
from tests.conftest import Bench

TEMPLATES = sorted(path.stem for path in (Path(new.__file__).parent / "templates").glob("[a-z]*.py"))


def test_the_templates_are_of_groups() -> None:
    usual = {"aggregator", "attack", "dataset", "local_update", "metric", "model", "partition", "pre_aggregation"}
    assert usual <= set(TEMPLATES) <= {*GROUPS, "metric"}


@pytest.mark.parametrize("group", TEMPLATES)
def test_a_new_part_passes_its_test(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str) -> None:
    name, cls = f"own_{group}", "Own" + "".join(word.capitalize() for word in group.split("_"))
    outcome = bench("new", group, name)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith(f"wrote {name}.py and test_{name}.py; next:")
    word = f"metrics={name}:{name}" if group == "metric" else f"{group}={name}:{cls}"
    assert f"robustfl-bench {word}" in outcome.out and "Template" not in Path(f"{name}.py").read_text()
    monkeypatch.syspath_prepend(tmp_path)
    tests = [test for key, test in vars(importlib.import_module(f"test_{name}")).items() if key.startswith("test_")]
    assert tests
    for test in tests:
        test(**({"tmp_path": tmp_path} if "tmp_path" in inspect.signature(test).parameters else {}))


def test_the_first_command_and_the_sweep_that_it_prints_run(bench: Bench) -> None:
    lines = bench("new", "aggregator", "of_the_middle").out.splitlines()
    commands = [line.split()[1:] for line in lines if line.split()[0] == "robustfl-bench"]
    single, (minus_m, *swept) = commands
    outcome = bench(*single, "rounds=1", "model.hidden=[4]")
    assert outcome.code == 0 and "-of_the_middle-" in outcome.out, outcome.err
    runs = [compose.resolve(run).choices for run in compose.sweep(swept)]
    assert minus_m == "-m" and len(runs) == 36
    assert {run["aggregator"] for run in runs} == {"of_the_middle", "average", "krum", "coomed"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "robustfl-bench new: the following arguments are required: GROUP, NAME (see robustfl-bench new --help)"),
        (["aggregator"], "the following arguments are required: NAME"),
        (["aggregatr", "mine"], "no template of 'aggregatr' (did you mean aggregator"),
        (["aggregator", "MyRule"], "NAME must be lower-case letters, digits and _, such as cosine_vote; got 'MyRule'"),
        (["aggregator", "../mine"], "got '../mine'"),
        (["aggregator", "2nd"], "got '2nd'"),
        (["aggregator", 61 * "a"], "NAME must have at most 60 letters, got 61"),
        (["aggregator", "class"], "class is a word of Python"),
        (["aggregator", "random"], "random is the name of a module that is installed"),
        (["aggregator", "numpy"], "numpy is the name of a module that is installed"),
        (["aggregator", "krum"], "aggregator=krum exists already"),
        (["aggregator", "kept"], "test_kept.py exists already; take another name"),
    ],
)
def test_a_bad_name_is_one_line_and_nothing_is_written(
    bench: Bench, tmp_path: Path, words: list[str], message: str
) -> None:
    (tmp_path / "test_kept.py").write_text("kept")
    bench("new", *words).refused(2, message)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["kept"]


def test_a_file_that_cannot_be_written_is_one_line(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "unwritten.py").symlink_to(tmp_path / "nowhere" / "unwritten.py")
    outcome = bench("new", "aggregator", "unwritten")
    assert (outcome.code, outcome.err) == (2, "error: cannot write unwritten.py: No such file or directory\n")
