"""Bridges: an edit that was proven to change no number keeps the runs of before, and no other edit does."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pandas as pd
import pytest

from robustfl_bench.base.code_digest import Closure, Tree
from robustfl_bench.base.errors import DataError
from robustfl_bench.read.runs import archive, origins
from robustfl_bench.read.tables.sheets import csv_text
from robustfl_bench.runner.config import options
from robustfl_bench.runner.store import bridges, kept
from scripts.generators.bridge import sample
from scripts.generators.bridge.steps import NoBridge, steps
from tests.conftest import Bench

ENGINE = "from p.base import Part\n\ndef run(part: Part):\n    return part.work() + 1\n"
BASE = "class Part:\n    def work(self):\n        return 0\n    def spare(self):\n        return {spare}\n"
PARTS = {
    "first": "from p.base import Part\n\nclass First(Part):\n    def work(self):\n        return 1\n",
    "second": "from p.first import First\n\nclass Second(First):\n    def spare(self):\n        return 5\n",
    "third": "from p.base import Part\nfrom p.first import First\n\nclass Third(Part):\n    def work(self):\n"
    "        return First().work() + 2\n",
}
BEFORE = {"engine": ENGINE, "base": BASE.format(spare=7), **PARTS}
AFTER = BEFORE | {
    "engine": "from p.base import Part\n\ndef run(part: Part):\n    return added(part)\n\n"
    "def added(part):\n    return part.work() + 1\n",
    "base": "class Part:\n    def work(self):\n        return 0\n",
}
"""A function is divided, and a method that nothing calls is gone."""

LATER = AFTER | {"first": PARTS["first"].replace("return 1", "one = 0 + 1\n        return one")}
CONFIGS = (("first", "First"), ("second", "Second"), ("third", "Third"))
Closures = Callable[[Mapping[str, str]], dict[tuple[str, ...], Closure]]


@pytest.fixture
def closures(tmp_path: Path) -> Closures:
    """The code of runs that name one part or two, in a package with these sources."""
    numbers = iter(range(100))

    def read(sources: Mapping[str, str]) -> dict[tuple[str, ...], Closure]:
        root = tmp_path / str(next(numbers)) / "p"
        root.mkdir(parents=True)
        for name, text in {"__init__": "", **sources}.items():
            (root / f"{name}.py").write_text(text)
        tree = Tree(root)
        asked = [*([part] for part in CONFIGS), CONFIGS[:2], CONFIGS[1:]]
        return {
            tuple(name for _, name in parts): tree.closure(
                [("p.engine", "run")], [(f"p.{module}", name) for module, name in parts]
            )
            for parts in asked
        }

    return read


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the bridges."""
    monkeypatch.setattr(bridges, "FOLDER", tmp_path / "bridges")
    bridges.FOLDER.mkdir()
    return bridges.FOLDER


def masks(of: Iterable[Iterable[bytes]]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for place, units in enumerate(of):
        for unit in units:
            found[unit] = found.get(unit, 0) | 1 << place
    return found


def between(before: Mapping[object, Closure], after: Mapping[object, Closure]) -> bridges.Bridge:
    named = [masks([unit.named for unit in one.units] for one in side.values()) for side in (before, after)]
    return steps(*named, masks(map(bridges.whole, one.wholes) for one in after.values()))


def write(path: Path, bridge: bridges.Bridge) -> None:
    proof = csv_text([sample.COLUMNS]).encode()
    bridges.sample_of(path).write_bytes(proof)
    path.write_text(csv_text([bridges.COLUMNS, *bridges.rows(bridge, bridges.proof_of(proof))]))
    bridges.bridges.cache_clear()
    bridges.lead.cache_clear()


def test_runs_of_before_count_where_a_bridge_leads_to_todays_code(closures: Closures, folder: Path) -> None:
    before, after = closures(BEFORE), closures(AFTER)
    assert not any(bridges.lead(before[name].digest, after[name]) for name in before)
    write(folder / "1_divided.csv", between(before, after))
    for name, one in after.items():
        assert bridges.lead(before[name].digest, one) and bridges.lead(before[name].digest[:12], one)
        others = {other.digest for other in before.values()} - {before[name].digest}
        assert len(others) >= 2 and not any(bridges.lead(other, one) for other in {*others, "0" * 12})
    assert {unit.name for unit in before["Third",].units} >= {"Part.spare"}, "of a class that is named, all methods"


@pytest.mark.parametrize("name", ["engine", "base", "first"])
def test_a_later_edit_ends_a_bridge(closures: Closures, folder: Path, name: str) -> None:
    before, after = closures(BEFORE), closures(AFTER)
    write(folder / "1_divided.csv", between(before, after))
    edited = closures(AFTER | {name: AFTER[name].replace("return ", "return 2 * ")})
    assert not any(bridges.lead(before[own].digest, one) for own, one in edited.items())


def test_bridges_follow_each_other(closures: Closures, folder: Path) -> None:
    before, after, later = closures(BEFORE), closures(AFTER), closures(LATER)
    write(folder / "1_divided.csv", between(before, after))
    write(folder / "2_zero.csv", between(after, later))
    assert all(bridges.lead(before[name].digest, one) and bridges.lead(after[name].digest, one)
               for name, one in later.items())  # fmt: skip
    assert not bridges.lead(later["First",].digest, before["First",]), "a bridge has one direction"


def test_what_the_code_of_after_does_not_tell_is_no_bridge(closures: Closures) -> None:
    """Of two runs with the same units after the edit, one had a unit that the other had not."""
    before, after = closures(BEFORE), closures(AFTER)
    named = [masks([unit.named for unit in one.units] for one in side.values()) for side in (before, after)]
    named[0][b"Lost" + b"0" * 32] = 0b00010
    named[1] |= {unit: mask | (mask & 1) << 1 | (mask & 2) >> 1 for unit, mask in named[1].items()}
    with pytest.raises(NoBridge, match=r"nothing in the code of after tells in which runs .*Lost"):
        steps(*named, {})


def test_a_bridge_is_what_was_written_with_its_sample(closures: Closures, folder: Path) -> None:
    before, after = closures(BEFORE), closures(AFTER)
    path = folder / "1_divided.csv"
    write(path, between(before, after))
    text = path.read_text()
    path.write_text(text.replace(",before,", ",after,", 1))
    with pytest.raises(DataError, match=r"divided.csv: line \d+ is not what was written: it does not fit its seal"):
        bridges.read(path)
    path.write_text(text)
    bridges.sample_of(path).write_text("edited")
    with pytest.raises(DataError, match=r"its sample, 1_divided_sample\.csv, is not the one that proved it"):
        bridges.read(path)
    bridges.sample_of(path).unlink()
    with pytest.raises(DataError, match=r"cannot read the bridge .*divided"):
        bridges.read(path)
    path.write_text("run,run_id\n")
    bridges.sample_of(path).write_text("")
    with pytest.raises(DataError, match="is no bridge: its columns must be step, side, unit, digest, proof, seal"):
        bridges.read(path)


def test_runs_that_end_otherwise_prove_nothing() -> None:
    runs = [sample.Chosen(["aggregator=krum"], "1a"), sample.Chosen(["dataset=cifar10"])]
    made: dict[str, object] = {
        "status": "finished",
        "processor": "Abacus",
        "metrics.csv": "a" * 64,
        "weights.csv": "b" * 64,
    }
    made |= {"model": "c" * 64, "versions": {"torch": 2}, "final": {"test_accuracy": 0.5}}
    absent = {"status": "DataError: no data"}
    (line,) = sample.lines(runs, [made, absent], [made, absent], ["before", "after"])
    assert line[:7] == ("aggregator=krum", "1a", "finished", "a" * 16, "b" * 16, "c" * 16, "")
    assert kept.sealer(())(line[:-1]) == line[-1] and len(line) == len(sample.COLUMNS)
    for name in ("metrics.csv", "weights.csv", "model", "status"):
        with pytest.raises(NoBridge, match=rf"aggregator=krum has another {name}: finished; after: "):
            list(sample.lines(runs, [made, absent], [made | {name: "diverged"}, absent], ["before", "after"]))
    row = {"state": "finished", "processor": "Abacus", "versions": "torch 2", "final_accuracy": 0.5}
    for changed, word in (({}, "equal"), ({"final_accuracy": 0.4}, "other"), ({"processor": "Z1"}, "")):
        ((*_, told, _, _, _, _),) = sample.lines([sample.Chosen(["seed=1"], "", row | changed)], [made], [made], "ab")
        assert told == word


def test_a_sample_has_every_option_and_a_sweep() -> None:
    rows = archive.read(str(kept.FOLDER / "privacy" / "digits.csv"))

    def everything(group: str, name: str) -> bool:
        return True

    runs = sample.chosen(rows, 12, seconds=1e9, rounds=3, seed=0, has=everything)
    again = [run for run in runs if run.kept is not None]
    assert len(again) >= 12 and {run.kept["aggregator"] for run in again if run.kept} == set(rows["aggregator"])
    assert runs[-1].overrides == sample.TOGETHER
    words = {word for run in runs for word in run.overrides}
    assert {f"attack={name}" for name in options.names("attack")} - set(rows["attack"].map("attack={}".format)) <= words
    before = sample.chosen(rows, 12, 1e9, 3, 0, has=lambda group, name: (group, name) != ("attack", "blindspot"))
    assert words - {word for run in before for word in run.overrides} == {"attack=blindspot"}, (
        "no code of before has it"
    )
    cut = sample.chosen(rows, 12, seconds=0, rounds=3, seed=0, has=everything)
    assert not any(run.kept for run in cut) and all("rounds=3" in run.overrides for run in cut if run.run_id)


SMALL = ("rounds=1", "num_byzantine=0", "model.hidden=[2]")


def test_a_stored_result_that_a_bridge_leads_to_answers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first = bench(*SMALL)
    monkeypatch.setattr(Closure, "digest", property(lambda _: "1" * 64))
    monkeypatch.setattr(bridges, "lead", lambda digest, closure: len(digest) == 64)
    assert bench(*SMALL).out == f"stored {first.out}"


def test_kept_runs_count_that_a_bridge_leads_to(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = pd.DataFrame({"code": ["0" * 12, "1" * 12, None], "precision": "highest"})
    assert origins.outdated(runs).tolist() == [True, True, False]
    monkeypatch.setattr(bridges, "lead", lambda digest, closure: digest == "1" * 12)
    assert origins.outdated(runs).tolist() == [True, False, False]


def test_the_bridges_of_the_package_can_be_read_and_have_a_sample() -> None:
    paths = bridges.files(kept.FOLDER / "bridges")
    assert [path.name.partition("_")[0] for path in paths] == [str(number + 1) for number in range(len(paths))]
    for path in paths:
        assert bridges.read(path)
        header, *lines = bridges.sample_of(path).read_text().splitlines()
        assert tuple(header.split(",")) == sample.COLUMNS and len(lines) >= 100
