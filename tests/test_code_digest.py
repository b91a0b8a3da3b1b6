"""The digest of a run's code: of the functions and constants that its numbers come from, and of no others."""

import inspect
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import robustfl_bench
from robustfl_bench.base import code_digest as base
from robustfl_bench.base import public, units
from robustfl_bench.numerics.network import bfloat16
from robustfl_bench.runner.config import compose
from robustfl_bench.train import code_digest

P = "robustfl_bench"


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package that takes the place of the package itself."""
    folder = tmp_path / P
    shutil.copytree(public.PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__", "*.npz", "conf"))
    for module in (base, public):
        monkeypatch.setattr(module, "PACKAGE", folder)
    forget()
    yield folder
    forget()


def forget() -> None:
    for module in (base, public):
        for cached in filter(lambda one: hasattr(one, "cache_clear"), vars(module).values()):
            cached.cache_clear()


def digest(*overrides: str) -> str:
    return code_digest.code_digest(compose.resolve(overrides).identity)


RUNS: dict[str, Callable[[], str]] = {
    "krum": partial(digest, "aggregator=krum"),
    "boba": partial(digest, "aggregator=boba"),
    "worst": partial(digest, "attack=worst"),
    "nested": partial(digest, "aggregator=b_krum"),
    "chain": partial(digest, "pre_aggregation=[clipping,nnm]"),
    "wrapped": partial(digest, "attack=scheduled"),
}


def changed(file: Path, pattern: str, replacement: str) -> set[str]:
    """The RUNS whose digest an edit of a file changes."""
    before = {name: run() for name, run in RUNS.items()}
    text, count = re.subn(pattern, replacement, file.read_text(), count=1, flags=re.DOTALL)
    assert count, f"{pattern} is not in {file}"
    file.write_text(text)
    forget()
    return {name for name, run in RUNS.items() if run() != before[name]}


@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "expected"),
    [
        ("parts/aggregators/krum.py", r"argsort\(stable=True\)|lowest\(", r"\g<0>+", None),
        ("parts/aggregators/boba.py", r"$", "\nEDITED = True\n", set()),  # nothing reads it
        (
            "parts/attacks/minmax.py",
            r"def craft\(self, view: AttackView\)([^\n]*)\n",
            r"\g<0>        view = view\n",
            {"worst"},
        ),
        ("parts/pre_aggregations/clipping.py", r"def prepare\(self[^\n]*\n", r"\g<0>        rng = rng\n", {"chain"}),
        ("train/storage.py", r"def rows\(self[^\n]*\n", r"\g<0>        n = n\n", set(RUNS)),
        ("base/seeding.py", r"digest_size=16", "digest_size=17", set(RUNS)),
        ("commands/bench.py", r"$", "\nEDITED = True\n", set()),
        ("runner/config/compose.py", r"def resolve\(", "def resolved(", set()),
        ("read/tables/sheets.py", r".*", "", set()),
    ],
)
def test_an_edit_changes_the_runs_that_it_can_change_and_no_others(
    copied: Path, file: str, pattern: str, replacement: str, expected: set[str] | None
) -> None:
    if expected is None:  # a syntax error would be no edit: change a number of krum's file instead
        pattern, replacement, expected = (
            r"num_selected: Annotated\[int \| None, at_least\(1\)\] = 1",
            "num_selected: Annotated[int | None, at_least(1)] = 2",
            {"krum", "nested"},
        )
    assert changed(copied / file, pattern, replacement) == expected


@pytest.mark.parametrize(
    ("file", "pattern", "replacement"),
    [
        ("parts/trackers/base.py", r"    done: int\n", "    done: int\n    host: str = ''\n"),  # a tracker
        ("parts/aggregators/krum.py", r'"""', '"""Not only '),  # a docstring
        ("parts/aggregators/krum.py", r"\n\n", "\n# a comment\n\n"),
        ("parts/aggregators/krum.py", r"needs n >", "wants n >"),  # the words of an error
        ("parts/aggregators/trmean.py", r"def aggregate\(", "def aggregate("),  # an unrelated rule, see below
        ("base/errors.py", r"did you mean", "is it"),
        (
            "train/loop.py",
            r"    for metric in metrics:",
            '    row["one_more_column"] = 1.0\n    for metric in metrics:',
        ),
    ],
)
def test_what_changes_no_number_changes_no_digest(copied: Path, file: str, pattern: str, replacement: str) -> None:
    if file.endswith("trmean.py"):
        pattern, replacement = r"(def aggregate\([^\n]*\n)", r"\1        updates = updates\n"
    assert changed(copied / file, pattern, replacement) == set()


END_OF_TABLE = r"(?<=wrapper=.combine..,)\n    }\n"
NEW_ABILITIES = """
        "whisper": Ability(wrapper="own"),
    }

    loudness: ClassVar[float] = 1.0

    def whisper(self, view: AttackView) -> Tensor:
        return view.own / self.loudness
"""


def test_a_new_ability_is_one_file_and_changes_only_runs_that_ask_for_it(copied: Path) -> None:
    base, asking = copied / "parts/attacks/base.py", copied / "parts/attacks/scheduled.py"
    assert changed(base, END_OF_TABLE, NEW_ABILITIES) == set()
    assert changed(asking, r"        return \(round", "        self.whisper(None)\n        return (round") == {
        "wrapped"
    }
    assert changed(base, "self.loudness", "self.loudness + 1") == {"wrapped"}
    assert changed(base, "loudness: ClassVar.float. = 1", "loudness: ClassVar[float] = 2") == {"wrapped"}
    assert changed(base, '"whisper": Ability.wrapper="own"', '"whisper": Ability(wrapper="forward"') == {"wrapped"}


def test_what_a_wrapper_passes_on_counts_and_what_only_explains_does_not(copied: Path) -> None:
    attack, rule, abilities = (
        copied / name for name in ("parts/attacks/base.py", "parts/aggregators/krum.py", "base/abilities.py")
    )
    assert changed(attack, '"poisons": Ability', '"goal": Ability(wrapper="own"),\n        "poisons": Ability') == set(
        RUNS
    )
    assert changed(abilities, r"setattr\(cls, name, _Passed", 'setattr(cls, name, "" or _Passed') == {"wrapped"}
    assert changed(rule, r"\n    num_byzantine", "\n    exempt = {'order': 'a reason'}\n    num_byzantine") == set()
    assert changed(rule, r"\n    num_byzantine", "\n    square_matrices = 9\n    num_byzantine") == set()


def test_names_of_locals_and_annotations_do_not_count_and_all_else_does() -> None:
    def unit(text: str) -> bytes:
        return units.Module("one", text.encode()).units["f"][0].digest

    first = unit("def f(x):\n    total = x + 1\n    return total\n")
    assert first == unit('def f(x: "int") -> float:\n    """Adds."""\n    other = x + 1  # here\n    return other\n')
    assert first != unit("def f(y):\n    total = y + 1\n    return total\n"), "a parameter can be given by name"
    assert first != unit("def f(x):\n    total = x + 2\n    return total\n")
    assert first != unit("total = 3\ndef f(x):\n    total = x + 1\n    return total\n"), (
        "a name of the module is no local"
    )


def test_a_constant_a_helper_and_a_base_class_in_another_file_count(copied: Path) -> None:
    assert changed(
        copied / "numerics" / "selection.py", r"def nearest_sums\(([^\n]*)\n", r"\g<0>    dists = dists\n"
    ) >= {"krum"}
    rule = copied / "parts" / "aggregators" / "moved.py"
    shutil.move(copied / "parts" / "aggregators" / "krum.py", rule)
    before = {name: run() for name, run in RUNS.items()}
    forget()
    assert {name: run() for name, run in RUNS.items()} == before, "where a rule stands does not count"


def test_imports_for_type_checkers_bring_classes_and_no_code(copied: Path) -> None:
    rounds = copied / "train" / "rounds.py"
    added = "\nif TYPE_CHECKING:\n    from robustfl_bench.read.tables import sheets\n"
    assert changed(rounds, r"$", added.replace("\\", "")) == set()


ROOMS = {
    "train", "numerics", "aggregators", "attacks", "partitions", "pre_aggregations", "local_updates",
    "models", "clustering", "availability", "schedules", "server_data", "server_optimizers", "corruptions",
}  # fmt: skip
RECORDED = re.compile(
    r"train/(loop|metric|metrics/\w+|evaluation|code_digest)\.py|Settings\.|Parts\.optional|kind$|blocked$|Cohorts\.arrivals|Clients\.names|State\.stored|_shallow|\.privacy$|Attack\.poisons$|\.exempt$|\.remembered$"
)
"""What records, names or refuses: it changes no number of the training."""


@pytest.mark.parametrize(
    "overrides",
    [
        ["aggregator=boba", "attack=worst", "pre_aggregation=[clipping,nnm]"],
        ["aggregator=fltrust", "attack=label_flip", "byzantine_placement=replace", "local_update=momentum"],
        ["aggregator=b_mkrum", "attack=backdoor", "byzantine_placement=replace", "local_update=fedavg", "batch_size=8"],
        ["aggregator=lasa", "attack=minmax", "local_update=saga", "batch_size=4"],
        ["aggregator=zeno", "attack=tailored", "availability=unreliable", "server_optimizer=adam"],
        ["precision=medium", "local_update=momentum"],
    ],
    ids=lambda overrides: overrides[0],
)
def test_every_function_that_a_run_enters_is_in_its_digest(
    overrides: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bfloat16, "has_units", lambda: True)
    entered, seen = set[str](), set[CodeType]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code in seen:
            return
        seen.add(frame.f_code)
        path = Path(frame.f_code.co_filename)
        function = frame.f_code.co_flags & inspect.CO_OPTIMIZED  # not the body of a class, at its import
        if function and public.PACKAGE in path.parents:
            place = path.relative_to(public.PACKAGE)
            name = frame.f_code.co_qualname.partition(".<locals>")[0]
            room = place.parts[place.parts[0] == "parts"]
            if room in ROOMS and "<" not in name and (name[0].islower() or "." in name or name[0] == "_"):
                entered.add(f"{place.as_posix()} {name}")

    small = ["rounds=2", "model.hidden=[4]", "num_clients=12", "num_byzantine=2", "num_threads=1"]
    asked = [*overrides, *small]
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        robustfl_bench.run(*asked, results_dir=tmp_path)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    covered = {unit.name for unit in code_digest.closure_of(compose.resolve(asked).identity).units}
    relevant = {line for line in entered if not RECORDED.search(line)}
    assert len(relevant) > 100
    assert not {line for line in relevant if line.split(" ")[1] not in covered}


WORKER = """
from robustfl_bench.base import code_digest
from robustfl_bench.train.code_digest import COMPUTING
from robustfl_bench.base.children import forkserver

def tell():
    print(*code_digest._tree(COMPUTING.neutral)._modules)

if __name__ == "__main__":
    worker = forkserver("robustfl_bench.train.loop", "robustfl_bench.train.code_read").Process(target=tell)
    worker.start()
    worker.join()
"""


def test_workers_know_the_code_of_the_process_that_they_are_forked_from(tmp_path: Path) -> None:
    """An edit before a worker is replaced is in no digest: the modules that it has are older."""
    (tmp_path / "worker.py").write_text(WORKER)
    told = subprocess.run([sys.executable, tmp_path / "worker.py"], capture_output=True, text=True, check=True)
    assert "robustfl_bench.train.rounds" in told.stdout.split(), told.stderr


def test_the_digest_of_the_package_is_that_of_all_its_files(copied: Path) -> None:
    first = base.package_digest()
    (copied / "read" / "pages" / "plots.py").write_text("")
    forget()
    assert base.package_digest() != first
