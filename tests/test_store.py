"""A stored result is of this code, these data and these files; else it is named, and the run is made again."""

import hashlib
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import robustfl_bench
from robustfl_bench.base.code_digest import Closure, Computing
from robustfl_bench.base.errors import ConfigError, Terminated
from robustfl_bench.parts import datasets
from robustfl_bench.read.runs import records
from robustfl_bench.runner.config import identity
from robustfl_bench.runner.experiment import machine
from robustfl_bench.runner.experiment.outside_code import OutsideCode
from robustfl_bench.runner.store import folders, sealed, writing
from robustfl_bench.runner.store.folders import RunFolder
from robustfl_bench.train.code_digest import code_digest
from robustfl_bench.train.precision import set_precision
from tests.conftest import Bench, config_of, contents, only_run, run_folders
from tests.processes import start

SMALL = ("rounds=3", "num_clients=10", "batch_size=16", "model.hidden=[16]")

OWN_RULE = """
from robustfl_bench.parts.aggregators.average import Average
from helping import SHARE


class Vote(Average):
    '''Averages, and takes a share of it.'''

    def aggregate(self, updates, server):
        return updates.combine(updates.matrix.new_full((updates.n,), SHARE / updates.n).double())
"""

OWN_DATA = """
from dataclasses import dataclass

import numpy as np
import torch

from robustfl_bench.parts.datasets.files import File, Layout, Source
from robustfl_bench.interfaces import Data, Dataset

LOADS = []


@dataclass(frozen=True)
class Numbers(Dataset):
    '''Rows of a class and two numbers.'''

    name = "numbers"
    input_shape = (2,)
    num_classes = 2
    source = Source(name, layouts=(Layout(".", (File("numbers.csv", {}),)),), licence="none")

    def load(self, folder):
        LOADS.append(folder)
        table = torch.from_numpy(np.loadtxt(folder / "numbers.csv", delimiter=",", dtype=np.float32))
        x, y = table[:, 1:], table[:, 0].long()
        return Data(x, y, x, y, variant=f"of {len(y)} rows")
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results folder of a finished run of SMALL."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    folder.mkdir()
    command = start(folder, *SMALL)
    _, errors = command.communicate()
    assert command.returncode == 0, errors
    return folder / "results"


def test_a_result_of_changed_code_of_ones_own_is_named_and_made_again(tmp_path: Path) -> None:
    def run() -> tuple[str, str]:
        return start(tmp_path, *SMALL, "aggregator._target_=own_rule.Vote").communicate()

    (tmp_path / "own_rule.py").write_text(OWN_RULE)
    (tmp_path / "helping.py").write_text("SHARE = 1.0\n")
    first, errors = run()
    assert first.startswith("result: accuracy"), errors
    assert run()[0] == f"stored {first}"
    (tmp_path / "helping.py").write_text("SHARE = 0.1\n")
    second, errors = run()
    old = first.removeprefix("result: ").split("  ")[0]
    assert second.startswith("result: ") and second != first
    expected = f"note: stored result not used: {old} was made with other code of aggregator (own_rule.Vote);"
    assert errors.startswith(expected)
    (tmp_path / "helping.py").write_text('"""Says how much."""\n\nSHARE = 0.1  # of the mean\n')
    assert run()[0] == f"stored {second}", "comments and docstrings are no code"


FURTHER_RULE = """
import importlib, os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from robustfl_bench import Aggregate, Aggregator
from helping_elsewhere import SHARE

HERE = Path(__file__).parent
exec((HERE / "more.txt").read_text())


@dataclass(frozen=True)
class Vote(Aggregator):
    exempt: ClassVar = {"robust": "a test"}
    depends_on = ("$VOTE_SHARE", "declared.txt")

    def aggregate(self, updates, server):
        late = importlib.import_module("late" + "_helper").SHARE
        data = float((HERE / "data.txt").read_text())
        named = float(os.environ.get("VOTE_SHARE", 1))
        return Aggregate(updates.mean * SHARE * MORE * late * data * named)
"""


def see_elsewhere() -> None:
    """As PYTHONPATH=elsewhere does."""
    sys.path.append(os.path.abspath("elsewhere"))


@pytest.mark.parametrize(
    "kind", ["elsewhere/helping_elsewhere.py", "late_helper.py", "data.txt", "more.txt", "declared.txt", "$"]
)
def test_whatever_a_rule_of_ones_own_depends_on_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A helper in another folder, a module that is imported by name, a data file, code that is executed, what is
    declared, an environment variable."""
    (tmp_path / "elsewhere").mkdir()
    files = {"elsewhere/helping_elsewhere.py": "SHARE = 1.0", "late_helper.py": "SHARE = 1.0", "data.txt": "1.0",
             "more.txt": "MORE = 1.0", "declared.txt": "1.0", "further_rule.py": FURTHER_RULE}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    def run() -> tuple[str, str]:
        return start(tmp_path, *SMALL, "aggregator=further_rule:Vote", first=see_elsewhere).communicate()

    first, errors = run()
    assert first.startswith("result: accuracy"), errors
    assert "aggregator reads " in errors and "data.txt" in errors and "late_helper.py" in errors
    assert run()[0] == f"stored {first}"
    if kind == "$":
        monkeypatch.setenv("VOTE_SHARE", "0.5")
    else:
        (tmp_path / kind).write_text(files[kind].replace("1.0", "0.5"))
    second, errors = run()
    assert second.startswith("result: ") and "stored result not used: " in errors


def test_a_result_of_other_code_of_the_package_is_named_and_made_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = bench(*SMALL)
    monkeypatch.setattr(Closure, "digest", property(lambda _: "1" * 64))
    monkeypatch.setattr(Computing, "digest", lambda *_: "1" * 64)
    second = bench(*SMALL)
    assert second.out == first.out
    old = first.out.removeprefix("result: ").partition(" after")[0]
    assert second.err.startswith(f"note: stored result not used: {old}") and second.err.count("\n") == 1
    assert "was made with other code of robustfl_bench; running again" in second.err
    assert bench(*SMALL).out == f"stored {first.out}"


def test_a_stored_config_that_is_not_the_one_that_is_asked_for_does_not_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two configs whose ids are equal by chance."""
    first = bench(*SMALL)
    monkeypatch.setattr(identity, "digest", lambda _: Path(first.out.split()[-1]).name.rpartition("-")[2])
    second = bench(*SMALL, "seed=1")
    assert second.out.startswith("result: ") and second.out != first.out
    assert "config.yaml is that of another run with the same id" in second.err


def test_a_result_of_another_processor_is_answered_with_a_remark(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first = bench(*SMALL)
    monkeypatch.setattr(machine, "processor", lambda: "Abacus")
    second = bench(*SMALL)
    assert second.out == f"stored {first.out}"
    assert "(now Abacus), which can change a result" in second.err and second.err.count("\n") == 1


def test_code_without_a_commit_has_its_version_and_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_checked_out", lambda: None)
    monkeypatch.setattr(machine, "_installed_from", lambda: None)
    machine.commit.cache_clear()
    try:
        assert machine.commit() == f"{robustfl_bench.__version__}+sha256.{machine.package_digest()[:12]}"
    finally:
        machine.commit.cache_clear()


def test_a_result_of_other_data_is_named_and_made_again(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(count: int) -> str:
        return "".join(f"{i % 2},{i % 7},{-i % 5}\n" for i in range(count))

    def run() -> tuple[str, str]:
        datasets._load.cache_clear()  # a process of its own
        own = (
            "dataset._target_=own_data.Numbers",
            "~dataset.scaling",
            "~dataset.split",
            "partition=iid",
            "data_dir=files",
        )
        outcome = bench(*SMALL, *own)
        assert outcome.code == 0, outcome.err
        return outcome.out, outcome.err

    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_data.py").write_text(OWN_DATA)
    (tmp_path / "files").mkdir()
    file = tmp_path / "files" / "numbers.csv"
    file.write_text(rows(40))
    first, _ = run()
    import own_data  # type: ignore[import-not-found]

    loads = len(own_data.LOADS)
    assert run() == (f"stored {first}", "") and len(own_data.LOADS) == loads, "unchanged files are not read"
    os.utime(file, (1, 1))
    assert run() == (f"stored {first}", "") and len(own_data.LOADS) == loads + 1, "the same content elsewhere or later"
    file.write_text(rows(60))
    second, errors = run()
    assert second.startswith("result: ")
    assert "was made with other data (of 40 rows, 40 + 40 samples, digest" in errors and "now of 60 rows" in errors
    file.unlink()
    assert run() == (f"stored {second}", ""), "without data there is nothing to compare"
    summary = json.loads((only_run(tmp_path / "results") / "summary.json").read_text())
    assert summary["data"]["variant"] == "of 60 rows" and len(summary["data"]["digest"]) == 64


def _changed(key: str, value: object = None) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        summary = json.loads(content)
        summary[key] = value
        changed = summary if value is not None else {k: v for k, v in summary.items() if k != key}
        return json.dumps(folders.seal(changed)).encode()

    return change


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("metrics.csv", lambda content: content[:-20], "metrics.csv has"),
        ("metrics.csv", lambda content: b"", "metrics.csv has 0 bytes"),
        ("metrics.csv", lambda content: content[:-9] + b"\0" * 9, "metrics.csv is not what was written"),
        ("timings.csv", None, "timings.csv is missing"),
        ("weights.csv", None, "weights.csv is missing"),
        ("config.yaml", lambda content: content.replace(b"seed: 0", b"seed: ["), "config.yaml is not what was written"),
        ("summary.json", lambda content: content[:-30], "summary.json is damaged"),
        ("summary.json", lambda content: b"[1]", "its status must be one of"),
        ("summary.json", _changed("status"), "its status must be one of"),
        ("summary.json", _changed("final"), "summary.json does not say what metrics.csv says"),
        ("summary.json", _changed("best", [1]), "summary.json does not say what metrics.csv says"),
        ("summary.json", _changed("files"), "summary.json does not record the files"),
    ],
)
def test_a_damaged_result_is_named_and_made_again(
    bench: Bench, finished: Path, tmp_path: Path, name: str, change: Callable[[bytes], bytes] | None, told: str
) -> None:
    shutil.copytree(finished, tmp_path / "results")
    folder = only_run(tmp_path / "results")
    if change is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(change((folder / name).read_bytes()))
    outcome = bench(*SMALL)
    assert outcome.code == 0 and outcome.out.startswith("result: ")
    assert outcome.err.startswith("note: stored result not used: ") and told in outcome.err
    assert contents(tmp_path / "results") == contents(finished)
    assert bench(*SMALL).out.startswith("stored result: ")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("config.yaml", lambda content: content.replace(b"seed: 0", b"seed: 1")),
        ("metrics.csv", lambda content: content.replace(b"0.", b"1.", 1)),
        ("metrics.csv", lambda content: content[:-1] + b"7\n"),
        ("weights.csv", lambda content: b""),
        ("timings.csv", None),
    ],
)
@pytest.mark.parametrize("diverges", [False, True])
def test_what_somebody_changes_while_a_run_goes_on_is_not_sealed(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, change: Any, diverges: bool
) -> None:
    words = (*SMALL, "rounds=4", "aggregator=average", *(["lr=1e10"] if diverges else []))
    assert bench(*words, "results_dir=whole").code == 0
    append, rows = RunFolder.append, []

    def appended(self: RunFolder, table: str, row: dict[str, float]) -> None:
        append(self, table, row)
        rows.append(table)
        path = self.path / name
        if rows == ["metrics.csv", "weights.csv", "timings.csv"]:
            path.unlink() if change is None else path.write_bytes(change(path.read_bytes()))

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "append", appended)
        bench(*words).refused(1, f"error: {name} was changed by somebody else while the run went on")
    again = bench(*words)
    assert again.code == 0 and again.out.startswith("result: "), again.err
    assert contents(tmp_path / "results") == contents(tmp_path / "whole")


@pytest.mark.parametrize("written", [0, 7, None])
@pytest.mark.parametrize("first", [True, False])
def test_a_signal_within_the_writing_of_a_row_is_no_change_by_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool, written: int | None
) -> None:
    folder = RunFolder(tmp_path, ["any"], "0" * 12)
    folder.open()
    if not first:
        folder.append("metrics.csv", {"round": 1, "test_loss": 0.5})

    def ended(path: Path, text: str) -> None:
        with path.open("a") as file:
            file.write(text[:written])
        raise Terminated

    with monkeypatch.context() as patch:
        patch.setattr(folders, "append_text", ended)
        with pytest.raises(Terminated):
            folder.append("metrics.csv", {"round": 2, "test_loss": 0.4})
    assert folder.changed() is None
    folder.cut(1)
    assert folder.changed() is None
    assert (folder.path / "metrics.csv").read_text() == ("" if first else "round,test_loss\n1,0.5\n")
    (folder.path / "metrics.csv").write_text("round,test_loss\n1,0.6\n")
    assert folder.changed() is not None
    folder.close()


def test_a_link_in_a_run_folder_is_not_written_through(bench: Bench, tmp_path: Path) -> None:
    """A stranger's folder could otherwise overwrite any file of the user."""
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    bench(*SMALL)
    folder = only_run(tmp_path / "results")
    (folder / "summary.json").unlink()
    for name in ("metrics.csv", "config.yaml", "checkpoint.pt", ".claim"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(mine)
        outcome = bench(*SMALL)
        assert outcome.code == 1 and f"{name} is a link" in outcome.err and outcome.err.count("\n") == 1, outcome.err
        assert mine.read_text() == "precious"
        (folder / name).unlink()
    moved = folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(moved)
    assert "is a link, into which no run is written" in bench(*SMALL).err


def test_a_summary_is_json_and_null_is_read_as_not_a_number(bench: Bench, tmp_path: Path) -> None:
    diverging = ("dataset=linear_mixture", "model=linear_regression", "partition=natural", "clustering=ifca", "lr=1e30",
                 "num_clients=8", "dataset.num_clusters=2", "rounds=40", "aggregator=average")  # fmt: skip
    first = bench(*diverging)

    def refused(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    for folder in run_folders(tmp_path / "results").values():
        json.loads((folder / "summary.json").read_text(), parse_constant=refused)
    assert folders.plain({"a": [math.nan, 1, {"b": -math.inf}]}) == {"a": [None, 1, {"b": None}]}
    if first.code == 0:
        assert bench(*diverging).out == f"stored {first.out}"


def test_a_run_without_all_its_rows_is_not_finished(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = RunFolder.append

    def forgetful(self: RunFolder, name: str, row: dict[str, float]) -> None:
        if row["round"] != 2:
            append(self, name, row)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "append", forgetful)
        outcome = bench(*SMALL)
    assert outcome.code == 1 and "metrics.csv has 2 rows, the last of round 3; expected 3, up to 3" in outcome.err
    assert bench(*SMALL).out.startswith("result: ")


def test_a_device_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert machine.choose_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(ConfigError, match=r"device=cuda:7 but the CUDA devices are cuda:0 to cuda:0"):
        machine.choose_device("cuda:7")
    for name in ("cuda:", "cuda:x", "cpu:1", "auto:1"):
        with pytest.raises(ConfigError, match=r"auto, cpu, cuda or cuda:N"):
            machine.choose_device(name)


def test_highest_precision_sets_every_flag_and_others_do_not_stay() -> None:
    def flags() -> tuple[bool, bool]:
        return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32

    assert set_precision("high", torch.device("cuda")) == "TF32"
    assert flags() == (True, True)
    assert set_precision("highest", torch.device("cpu")) == "float32"
    assert flags() == (False, False) and torch.get_float32_matmul_precision() == "highest"
    assert torch.backends.cudnn.deterministic and not torch.backends.cudnn.benchmark


@pytest.mark.parametrize("units", [True, False])
def test_bfloat16_is_for_processors_with_the_units(
    bench: Bench, tmp_path: Path, units: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: units)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    done = bench("rounds=1", "num_clients=4", "num_byzantine=0", "partition=iid", "precision=medium")
    assert done.code == 0 and ("precision=medium: this processor has no units for it" in done.err) != units
    (summary,) = tmp_path.rglob("summary.json")
    assert json.loads(summary.read_text())["products"] == ("bfloat16" if units else "float32")
    assert torch.get_float32_matmul_precision() == ("medium" if units else "highest")
    set_precision("highest", torch.device("cpu"))


def test_the_kind_of_processor_is_recorded(bench: Bench, tmp_path: Path) -> None:
    bench(*SMALL)
    folder = only_run(tmp_path / "results")
    summary = json.loads((folder / "summary.json").read_text())
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists() and "model name" in cpuinfo.read_text():
        name, _, kind = summary["processor"].partition(" (family ")
        assert name in cpuinfo.read_text() and kind
    assert summary["processor"] and summary["commit"] and summary["code"]["package"] == code_digest(config_of(folder))


def test_a_full_disk_is_named_with_a_remedy_and_the_run_goes_on_later(bench: Bench, tmp_path: Path) -> None:
    run = ("rounds=20", "checkpoint_seconds=0", "eval_every=2")
    disk = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (100_000, 100_000))  # a checkpoint has 1.6 MB
    full = start(tmp_path, *run, first=disk)
    _, errors = full.communicate()
    (line,) = [line for line in errors.splitlines() if line.startswith("error")] or [errors]
    folder = only_run(tmp_path / "results")
    assert full.returncode == 1
    assert line.startswith(f"error: cannot write results/runs/{folder.name}/checkpoint.pt: ") and "free" in line
    assert {path.name for path in folder.iterdir()} <= {".claim", "config.yaml", *folders.TABLES}
    assert bench(*run).code == 0
    assert bench(*run, "results_dir=whole").code == 0
    assert contents(tmp_path / "results") == contents(tmp_path / "whole")


def test_a_config_that_cannot_be_written_leaves_no_folder(tmp_path: Path) -> None:
    full = start(tmp_path, "rounds=2", first=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (600, 600)))
    _, errors = full.communicate()
    assert full.returncode == 1
    assert errors.startswith("error: cannot write results/runs/") and "/config.yaml: " in errors
    assert not (tmp_path / "results").exists()


def test_half_a_row_is_taken_back(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, ["any"], "0" * 8)
    folder.open()
    folder.begin({})
    folder.append("metrics.csv", {"round": 1, "test_accuracy": 0.5})
    before = (folder.path / "metrics.csv").read_bytes()
    program = (
        "import resource, sys; from robustfl_bench.runner.store.folders import RunFolder\n"
        "from robustfl_bench.runner.store.writing import CannotWrite\n"
        f"folder = RunFolder({str(tmp_path)!r}, ['any'], '00000000')\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) + 3}, {len(before) + 3}))\n"
        "try:\n    folder.append('metrics.csv', {'round': 2, 'test_accuracy': 0.5})\n"
        "except CannotWrite as error:\n    sys.exit(7 * error.filename.endswith('metrics.csv'))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 7
    assert (folder.path / "metrics.csv").read_bytes() == before


def test_what_killed_writers_left_is_removed_and_what_others_write_is_not(bench: Bench, tmp_path: Path) -> None:
    bench(*SMALL)
    folder = only_run(tmp_path / "results")
    (folder / "summary.json").unlink()
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = [folder / f".{name}.{ended.pid}" for name in ("checkpoint.pt", "summary.json")]
    for path in left:
        path.write_text("half")
    other, table = tmp_path / f".table.csv.{os.getppid()}", tmp_path / "table.csv"
    other.write_text("of a process that lives")
    (tmp_path / f".table.csv.{ended.pid}").write_text("half")
    writing.write_atomically(table, "whole")
    assert bench(*SMALL).code == 0
    assert not any(path.exists() for path in left)
    assert sorted(path.name for path in tmp_path.glob("*table*")) == sorted([other.name, table.name])


def test_what_is_only_named_like_a_run_does_not_take_its_place(bench: Bench, tmp_path: Path) -> None:
    bench(*SMALL, "results_dir=other")
    name = only_run(tmp_path / "other").name
    runs = tmp_path / "results" / "runs"
    (runs / f"notes-{name[-12:]}").mkdir(parents=True)
    (runs / f"notes-{name[-12:]}" / "notes.txt").write_text("mine")
    (runs / name).write_text("a file")
    assert bench(*SMALL).out.startswith("result: ")
    again = bench(*SMALL)
    assert again.out.startswith("stored result: ")
    assert (runs / name).read_text() == "a file"
    assert [path.name for path in (runs / f"notes-{name[-12:]}").iterdir()] == ["notes.txt"]


def test_a_folder_that_another_process_has_just_made_is_that_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two workers of a sweep could make one run, in two folders."""
    path, read = tmp_path / "runs" / "digits-none-average-s0-0123456789ab", folders._identity
    path.mkdir(parents=True)

    def just_before(file: Path) -> dict[str, Any] | None:
        found = read(file)
        file.write_text("dataset: {}\n")
        return found

    monkeypatch.setattr(folders, "_identity", just_before)
    assert folders.oddity(path) is None


def test_names_are_read_again_after_every_change_and_only_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    monkeypatch.setattr(folders.os, "listdir", lambda path, list=os.listdir: read.append(path) or list(path))
    for number in range(30):  # as fast as a folder can change: many in one tick of its clock
        (tmp_path / "runs" / f"run-{number:012x}").mkdir(parents=True)
        assert [path.name for path in folders.folders_of(tmp_path, f"{number:012x}")] == [f"run-{number:012x}"]
    (tmp_path / "runs" / f"run-{3:012x}").rmdir()
    assert folders.folders_of(tmp_path, f"{3:012x}") == [] == folders.folders_of(tmp_path / "absent", f"{4:012x}")
    for age, times in ((10, 1), (1, 3)):
        changed = (time.time_ns() // 10**9 - age) * 10**9  # in whole seconds, as some file systems have it
        os.utime(tmp_path / "runs", ns=(changed, changed))
        read.clear()
        for number in (4, 5, 6):
            assert folders.folders_of(tmp_path, f"{number:012x}")
        assert len(read) == times, "names that may be too old are read again"


def test_a_copied_run_folder_is_named_and_the_others_are_read(bench: Bench, tmp_path: Path) -> None:
    bench(*SMALL)
    bench(*SMALL, "seed=1")
    first, second = sorted(run_folders(tmp_path / "results").values())
    copy, other = first.with_name(f"z-copy-{first.name[-12:]}"), first.with_name(f"copy-{second.name[-12:]}")
    shutil.copytree(first, copy)
    shutil.copytree(first, other)
    shutil.copytree(first, first.with_name(f"{first.name}.bak"))
    assert folders.oddity(first) is None
    assert folders.oddity(other) == f"its config.yaml is that of run {first.name[-12:]}"
    assert folders.oddity(first.with_name(f"{first.name}.bak")) == "its name does not end in the id of a run"
    outcome = bench(*SMALL, "seed=0" if first.name.split("-s")[1].startswith("0") else "seed=1")
    assert outcome.out.startswith("stored result: ") and outcome.err.count("\n") == 1
    assert copy.name in outcome.err and "remove one of them" in outcome.err
    runs = records.load(tmp_path / "results").set_index("run")
    assert runs.loc[[first.name, second.name], "state"].tolist() == ["finished", "finished"]
    damaged = runs[runs["state"] == "damaged"]["error"].to_dict()
    assert set(damaged) == {copy.name, other.name, f"{first.name}.bak"}


# --- checkpoints -------------------------------------------------------------------------------------------------

STAMP = {"run": "a", "code": "b", "data": "c"}


def opened(tmp_path: Path, rounds: int = 3) -> RunFolder:
    folder = RunFolder(tmp_path, ["any"], "0" * 8)
    folder.open()
    folder.begin({})
    for number in range(1, rounds + 1):
        folder.append("metrics.csv", {"round": number, "test_accuracy": 0.1 * number})
    return folder


def test_a_checkpoint_comes_back_as_it_was_and_cuts_the_rows_back(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    folder.save_checkpoint({"state": {"params": torch.arange(5.0)}}, STAMP)
    before = (folder.path / "metrics.csv").read_bytes()
    folder.append("metrics.csv", {"round": 4, "test_accuracy": 0.4})
    folder.append("weights.csv", {"round": 4, "client_0": 1.0})
    saved = folder.checkpoint(STAMP)
    assert saved is not None and torch.equal(saved["state"]["params"], torch.arange(5.0))
    assert (folder.path / "metrics.csv").read_bytes() == before
    assert not (folder.path / "weights.csv").exists(), "its first row came after the checkpoint"


def test_large_tables_are_hashed_in_pieces(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a file that is parsed must be small: 500 weights of a round are more than its metrics."""
    monkeypatch.setattr(writing, "LARGEST", 6000)
    monkeypatch.setattr(writing, "PIECE", 1000)
    many = ("rounds=3", "num_clients=500", "partition=iid", "model.hidden=[4]")
    first = bench(*many)
    assert first.code == 0 and (only_run(tmp_path / "results") / "weights.csv").stat().st_size > writing.LARGEST
    assert bench(*many).out == f"stored {first.out}"
    folder = opened(tmp_path / "other", rounds=2000)
    before = (folder.path / "metrics.csv").read_bytes()
    assert len(before) > writing.LARGEST
    folder.save_checkpoint({"state": {}}, STAMP)
    folder._written.clear()  # as in another process
    folder.append("metrics.csv", {"round": 2001, "test_accuracy": 0.5})
    assert folder.checkpoint(STAMP) is not None and (folder.path / "metrics.csv").read_bytes() == before


def _flipped(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("place", [3, 30, 70, 200, -1000, -2], ids=str)
def test_one_flipped_bit_in_a_checkpoint_is_found(tmp_path: Path, place: int) -> None:
    folder = opened(tmp_path)
    folder.save_checkpoint({"state": {"params": torch.zeros(5000)}}, STAMP)
    _flipped(folder.path / "checkpoint.pt", place)
    with pytest.raises(writing.Damaged, match=r"checkpoint\.pt is damaged"):
        folder.checkpoint(STAMP)
    assert {path.name for path in folder.path.iterdir()} == {".claim", "config.yaml"}


def test_tensors_of_all_kinds_come_back_and_changes_to_them_stay_in_memory(tmp_path: Path) -> None:
    twice = torch.arange(7, dtype=torch.bfloat16)
    content = {
        "strided": torch.arange(12.0).reshape(3, 4).T,
        "of": [torch.tensor(3), torch.zeros(0, 5), torch.tensor([True, False]), twice, twice],
        "plain": (None, 1 << 70, 0.1, "a", {"b": [False]}),
    }
    sealed.save(tmp_path / "a.pt", content, STAMP)
    before = (tmp_path / "a.pt").read_bytes()
    loaded = sealed.load(tmp_path / "a.pt", STAMP)
    assert loaded is not None and torch.equal(loaded["strided"], content["strided"])
    assert loaded["plain"] == content["plain"]
    for one, other in zip(loaded["of"], content["of"], strict=True):
        assert one.dtype == other.dtype and torch.equal(one, other)
    loaded["of"][-1][0] = 9
    assert loaded["of"][-2][0] == 9 and (tmp_path / "a.pt").read_bytes() == before


def test_a_checkpoint_of_an_earlier_format_says_so(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    payload = b"PK content"
    digest = hashlib.sha256(payload).hexdigest().encode()
    (folder.path / "checkpoint.pt").write_bytes(b"robustfl-bench checkpoint 1 %s\n%s" % (digest, payload))
    with pytest.raises(writing.Damaged, match=r"checkpoint\.pt is of format 1, this version reads 2"):
        folder.checkpoint(STAMP)


def test_writing_and_reading_a_checkpoint_take_no_memory_for_a_copy(tmp_path: Path) -> None:
    """In a process of its own, which has 128 MiB of tensors in 16 parts; a part may be copied."""
    script = f"""
import resource, torch
from pathlib import Path
from robustfl_bench.runner.store import sealed

def private():
    pairs = (line.split(":") for line in open("/proc/self/status"))
    return next(int(value.split()[0]) for name, value in pairs if name == "RssAnon") >> 10

path, parts = Path({str(tmp_path / "a.pt")!r}), {{str(i): torch.ones(1 << 21) for i in range(16)}}
sealed.save(path.with_name("b.pt"), {{"a": torch.ones(1)}}, {{}})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
sealed.save(path, parts, {{}})
saving = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10) - before
parts.clear()
before = private()
loaded = sealed.load(path, {{}})
loading = private() - before
print(saving, loading, sum(float(each.sum()) for each in loaded.values()) / (1 << 21))
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    saving, loading, total = map(float, ended.stdout.split())
    assert saving < 24 and loading < 24 and total == 16, ended.stdout


@pytest.mark.parametrize("subject", STAMP)
def test_a_checkpoint_of_another_run_other_code_or_other_data_is_refused(tmp_path: Path, subject: str) -> None:
    folder = opened(tmp_path)
    folder.save_checkpoint({"state": {}}, STAMP | {subject: "else"})
    with pytest.raises(writing.Damaged, match=f"belongs to other {subject}"):
        folder.checkpoint(STAMP)


@pytest.mark.parametrize("files", [{"../../victim.txt": (3, "0")}, {"metrics.csv": 3}, {"metrics.csv": (-1, "")}, None])
def test_a_checkpoint_names_no_file_of_the_user(tmp_path: Path, files: object) -> None:
    folder, victim = opened(tmp_path), tmp_path / "victim.txt"
    victim.write_text("a thesis")
    sealed.save(folder.path / "checkpoint.pt", {"state": {}, "files": files}, STAMP)
    with pytest.raises(writing.Damaged):
        folder.checkpoint(STAMP)
    assert victim.read_text() == "a thesis"


def test_rows_that_changed_without_changing_their_length_are_found(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    folder.save_checkpoint({"state": {}}, STAMP)
    content = (folder.path / "metrics.csv").read_bytes()
    (folder.path / "metrics.csv").write_bytes(content[:10] + b"\0" * 10 + content[20:])
    with pytest.raises(writing.Damaged, match=r"metrics\.csv is not what was written"):
        folder.checkpoint(STAMP)


def test_parts_of_the_package_are_no_parts_from_outside() -> None:
    config = {"aggregator": {"_target_": "robustfl_bench.aggregators.Krum", "inner": {"_target_": "math.floor"}}}
    assert not OutsideCode(config).groups
