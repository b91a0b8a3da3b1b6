"""A part from outside that draws what the seed does not fix is named, in the run, in its record and by the checks."""

import csv
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from robustfl_bench.base import contained
from robustfl_bench.commands import results as results_cli
from robustfl_bench.doors.testing import check_aggregator
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.runs.origins import origins
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.outside_code import OutsideCode
from robustfl_bench.runner.store import kept
from robustfl_bench.runner.store.lines import code_of_line
from robustfl_bench.train import rounds
from tests.conftest import Bench, contents, run_folders
from tests.processes import start

RULES = """
import os, random, time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from robustfl_bench import Aggregate, Aggregator


@dataclass(frozen=True)
class Base(Aggregator):
    exempt: ClassVar = dict.fromkeys(("order", "unanimous", "translation", "scale", "robust"), "a test")

    def aggregate(self, updates, server):
        return Aggregate(updates.mean * (1 + 0.1 * self.draw(server)))


class Numpy(Base):
    def draw(self, server):
        return np.random.rand()


class Torch(Base):
    def draw(self, server):
        return float(torch.rand(()))


class Python(Base):
    def draw(self, server):
        return random.random()


class Clock(Base):
    def draw(self, server):
        return time.time() % 1


class Fresh(Base):
    def draw(self, server):
        return np.random.default_rng().random()


class Late(Base):
    def draw(self, server):
        return random.random() if server.round else 0.0


class Hash(Base):
    def draw(self, server):
        return hash("a word") % 100 / 100


class Number(Base):
    def draw(self, server):
        return hash((3, 0.5)) % 100 / 100


class Address(Base):
    def draw(self, server):
        return id(object()) // 16 % 100 / 100


class Process(Base):
    def draw(self, server):
        return os.getpid() % 100 / 100


class Named(Base):
    def draw(self, server):
        return server.rng.random()
"""
FOUND = {
    "Numpy": "np.random", "Torch": "torch", "Python": "random", "Clock": "unknown", "Fresh": "unknown",
    "Late": "random", "Named": "", "Hash": "hash()", "Number": "", "Address": "id()", "Process": "os.getpid()",
}  # fmt: skip
SMALL = ("rounds=2", "model.hidden=[4]", "num_clients=6", "attack=none")
NOTE = "which seed does not fix: the same command gives other numbers each time; draw from the rng of the view"


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module of RULES, another one for each test."""
    name = f"drawing_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(RULES)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize("rule", FOUND)
def test_what_a_rule_draws_from_is_named_and_recorded(bench: Bench, tmp_path: Path, rules: str, rule: str) -> None:
    words = (*SMALL, f"aggregator={rules}:{rule}")
    first = bench(*words)
    assert first.code == 0 and first.out.startswith("result: ")
    (folder,) = run_folders(tmp_path / "results").values()
    recorded = json.loads((folder / "summary.json").read_text())["code"].get("unseeded")
    again = bench(*words)
    if not FOUND[rule]:
        assert again.out == f"stored {first.out}"
        assert (first.err, again.err, recorded) == ("", "", None)
        return
    assert FOUND[rule] in recorded
    (line,) = first.err.splitlines()
    assert line.startswith(f"note: aggregator {rules}.{rule} uses ") and NOTE in line
    assert again.code == 0 and again.out.startswith("result: "), "it answers no later run"
    refused, line = again.err.splitlines()
    assert refused.startswith(f"note: stored result not used: aggregator {rules}.{rule} uses ") and NOTE in line


@pytest.mark.parametrize("launcher", ["in_process", pytest.param("processes", marks=pytest.mark.slow)])
def test_a_sweep_makes_such_a_run_once_and_the_next_sweep_again(
    bench: Bench, tmp_path: Path, rules: str, launcher: str
) -> None:
    words = ("-m", *SMALL, f"aggregator={rules}:Numpy,{rules}:Named", f"hydra/launcher={launcher}")
    first, again = bench(*words), bench(*words)
    assert (first.code, again.code) == (0, 0), again.err
    assert "sweep: 2 runs: 2 finished" in first.err and "sweep: 2 runs: 2 finished; 1 were stored" in again.err
    if launcher == "in_process":  # other processes print elsewhere
        made = [sorted(line.partition(":")[0] for line in outcome.out.splitlines()) for outcome in (first, again)]
        assert made == [["result", "result"], ["result", "stored result"]]


def test_a_kept_result_of_such_a_run_answers_none_either(
    bench: Bench, tmp_path: Path, rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rule in ("Numpy", "Named"):
        assert bench(*SMALL, f"aggregator={rules}:{rule}", "results_dir=made").code == 0
    assert results_cli.main(["export", "--summary", "runs.csv", "--results-dir", "made"]) == 0
    with open("runs.csv", newline="") as file:
        lines = {line["run_id"]: {**line, "file": "mine/runs.csv"} for line in csv.DictReader(file)}
    monkeypatch.setattr(kept, "find", lines.get)
    assert bench(*SMALL, f"aggregator={rules}:Named").out.splitlines()[-1].startswith("kept result: ")
    drawn = bench(*SMALL, f"aggregator={rules}:Numpy")
    assert drawn.out.startswith("result: ") and "not used: aggregator" in drawn.err


VARIABLES = """
import os
from dataclasses import dataclass
from robustfl_bench import Aggregator

AT_IMPORT = float(os.environ.get("FIRST", "1"))


@dataclass(frozen=True)
class Scales(Aggregator):
    def aggregate(self, updates, server):
        return updates.mean * AT_IMPORT * float(os.getenv("SECOND", "1"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FIRST", "SECOND"])
def test_a_changed_environment_variable_counts_as_changed_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "scaling.py").write_text(VARIABLES)

    def run() -> tuple[str, str]:
        return start(tmp_path, *SMALL, "aggregator=scaling:Scales").communicate()

    first, errors = run()
    assert "note: aggregator reads $FIRST and $SECOND: a change there counts as one of its code" in errors
    assert run()[0] == f"stored {first}"
    monkeypatch.setenv(name, "0.01")
    second, errors = run()
    assert second.startswith("result: ") and f"was made with another ${name}, which aggregator reads" in errors
    monkeypatch.delenv(name)
    assert run()[0] == first


def test_tables_and_kept_files_count_such_runs(bench: Bench, tmp_path: Path, rules: str) -> None:
    for rule in ("Numpy", "Named"):
        assert bench(*SMALL, f"aggregator={rules}:{rule}").code == 0
    line = "of 2 runs, 1 with parts that use what seed does not fix: others would differ"
    assert line in origins(records.load(tmp_path / "results"))
    kept = tmp_path / "kept.csv"
    assert results_cli.main(["export", "--summary", str(kept), "--results-dir", str(tmp_path / "results")]) == 0
    runs = archive.read(str(kept))
    assert line in origins(runs)
    assert sorted(code_of_line(code).get("unseeded", []) for code in runs["code"]) == [[], ["np.random"]]


def test_watching_changes_no_number_and_rules_of_this_package_are_not_watched(
    bench: Bench, tmp_path: Path, rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench(*SMALL, f"aggregator={rules}:Named", "results_dir=watched").code == 0
    with monkeypatch.context() as patched:
        patched.setattr(OutsideCode, "step", lambda code: rounds.step)
        assert bench(*SMALL, f"aggregator={rules}:Named", "results_dir=plain").code == 0
    assert contents(tmp_path / "watched") == contents(tmp_path / "plain")
    assert OutsideCode(compose.resolve(["aggregator=krum"]).config).step() is rounds.step


@pytest.mark.parametrize("rule", FOUND)
def test_the_checks_fail_such_a_rule(rules: str, rule: str) -> None:
    part: Any = getattr(importlib.import_module(rules), rule)()
    if not FOUND[rule]:
        check_aggregator(part)
        return
    with pytest.raises(AssertionError, match=f"{rule}: deterministic: ") as raised:
        check_aggregator(part)
    assert FOUND[rule] == "unknown" or f"it uses {FOUND[rule]}, not the stream that it is given" in str(raised.value)


READS = """
import linecache
from pathlib import Path

HERE = Path(__file__).parent
linecache.getlines(str(HERE / "launcher"))
NUMBER = (HERE / "data.txt").read_text()
"""


def test_source_that_is_shown_is_no_file_that_a_part_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch formats the stack while it is imported, which opens the launcher of the command."""
    name = f"reading_{tmp_path.name}"
    for file, content in {"launcher": "import sys", "data.txt": "1", f"{name}.py": READS}.items():
        (tmp_path / file).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    contained.watch()
    importlib.import_module(name)
    assert contained.opened_by([tmp_path / f"{name}.py"]) == [tmp_path / "data.txt"]


def test_what_a_library_keeps_for_itself_is_no_file_that_a_part_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """matplotlib reads its list of fonts as soon as somebody imports it; what it reads for the part counts."""
    library, name = tmp_path / "site-packages" / "drawing", f"drawn_{tmp_path.name}"
    cached = tmp_path / "cache" / "drawing" / "fonts.json"
    cached.parent.mkdir(parents=True)
    library.mkdir(parents=True)
    cached.write_text("[]")
    (tmp_path / "data.txt").write_text("1")
    (library / "__init__.py").write_text(
        f"from pathlib import Path\nFONTS = Path({str(cached)!r}).read_text()\n\n\n"
        "def read(path):\n    return Path(path).read_text()\n"
    )
    (tmp_path / f"{name}.py").write_text(f"import drawing\n\nNUMBER = drawing.read({str(tmp_path / 'data.txt')!r})\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(library.parent)
    monkeypatch.syspath_prepend(tmp_path)
    contained.watch()
    importlib.import_module(name)
    assert contained.opened_by([tmp_path / f"{name}.py"]) == [tmp_path / "data.txt"]
