"""A data set from outside the package is two files: a class and its option. Every command knows it."""

import os
import sys
from pathlib import Path

import pytest

from robustfl_bench.commands.data import dataset_of, main, named_options
from tests.conftest import Bench
from tests.processes import Outcome, call

MODULE = '''
"""Two noisy rings, read from a file of x, y and class."""

from dataclasses import dataclass

import numpy as np
import torch

from robustfl_bench.interfaces import Data, Dataset


@dataclass(frozen=True)
class Rings(Dataset):
    num_test: int = 10

    name = "rings"
    num_classes = 2
    input_shape = (2,)

    def load(self, folder):
        table = np.loadtxt(folder / "rings.csv", delimiter=",", dtype=np.float32)
        x, y = torch.from_numpy(table[:, :2]), torch.from_numpy(table[:, 2].astype(np.int64))
        return Data(x[self.num_test :], y[self.num_test :], x[: self.num_test], y[: self.num_test], variant="small")
'''
OPTION = "# robustfl-bench dataset=rings\n_target_: own_rings.Rings\nnum_test: 20\n"
SMALL = ("rounds=2", "num_clients=4", "num_byzantine=1", "model.hidden=[4]", "partition=iid")


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with code/own_rings.py, conf/dataset/rings.yaml and data/rings.csv; the working directory."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "own_rings.py").write_text(MODULE)
    (tmp_path / "conf" / "dataset").mkdir(parents=True)
    (tmp_path / "conf" / "dataset" / "rings.yaml").write_text(OPTION)
    (tmp_path / "data").mkdir()
    write(tmp_path, [(i % 7 / 7, i % 5 / 5, i % 2) for i in range(100)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "code")
    monkeypatch.delitem(sys.modules, "own_rings", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "code"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("ROBUSTFL_DATA", str(tmp_path / "data"))
    return tmp_path


def write(folder: Path, rows: list[tuple[float, float, float]]) -> None:
    (folder / "data" / "rings.csv").write_text("".join(f"{x},{y},{label}\n" for x, y, label in rows))


def data(*arguments: str) -> Outcome:
    """``robustfl-data`` in another process."""
    return call(Path.cwd(), "robustfl_bench.commands.data", *arguments, "--config-dir", "conf")


def test_robustfl_data_lists_prepares_and_verifies_it(outside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    listed = data("list")
    assert listed.code == 0, listed.err
    rows = {line.split()[0]: line.split() for line in listed.out.splitlines()}
    assert rows["rings"][1:7] == ["2", "2", "80", "20", "ready", "?"] and "small" in rows["rings"]
    assert {"digits", "mnist", "linear_mixture", "rotated_mnist"} <= rows.keys()
    assert main(["prepare", "rings", "--config-dir", "conf"]) == 0
    assert capfd.readouterr().out == f"rings: ready in {outside / 'data'} (small)\n"
    verified = data("verify", "rings")
    assert verified.out.startswith("rings: 80 + 20 samples (small), digest ")
    digest = verified.out.split()[-1]
    assert main(["verify", "rings", "--config-dir", "conf"]) == 0
    assert len(digest) == 64 and capfd.readouterr().out.split()[-1] == digest, "in another process too"
    write(outside, [(i % 7 / 7, i % 5 / 5, (i + 1) % 2) for i in range(100)])
    assert data("verify", "rings").out.split()[-1] != digest, "other labels"


def test_robustfl_bench_runs_on_it(outside: Path) -> None:
    done = call(outside, "robustfl_bench.commands.bench", "--config-dir", "conf", "dataset=rings", *SMALL)
    assert done.code == 0, done.err
    assert done.out.startswith("result: accuracy")


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([(0, 0, i % 3) for i in range(100)], "rings: the training labels go from 0 to 2, expected 0 to 1"),
        ([(0, 0, -(i % 2)) for i in range(100)], "rings: the training labels go from -1 to 0, expected 0 to 1"),
        (
            [(i, float("nan"), i % 2) for i in range(100)],
            "rings: some training samples are not finite numbers; make its files",
        ),
        ([(i, 0, i % 2) for i in range(20)], "rings: 0 training samples have 0 labels"),
    ],
)
def test_wrong_content_is_refused_in_one_line(
    outside: Path,
    bench: Bench,
    capfd: pytest.CaptureFixture[str],
    rows: list[tuple[float, float, float]],
    told: str,
) -> None:
    write(outside, rows)
    assert main(["verify", "rings", "--config-dir", "conf", "--data-dir", "data"]) == 3
    error = capfd.readouterr().err
    done = bench("--config-dir", "conf", "dataset=rings", "data_dir=data", *SMALL)
    assert done.code == 3
    for text in (error, done.err):
        assert told in text and text.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "x = x.tolist()",
            "samples must be tensors of torch.float32, torch.int32, torch.int64, got list",
        ),
        ("x = x[:, :1]", "the training samples have shape (1,), expected its input_shape (2,)"),
        ("raise FileNotFoundError('mine.csv not found.')", "rings cannot be read: mine.csv not found."),
    ],
)
def test_what_readers_of_tables_give_is_refused_in_one_line(
    outside: Path, bench: Bench, change: str, told: str
) -> None:
    module = outside / "code" / "own_rings.py"
    module.write_text(module.read_text().replace("        return Data(", f"        {change}\n        return Data("))
    done = bench("--config-dir", "conf", "dataset=rings", "data_dir=data", *SMALL)
    assert done.code == 3 and told in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("change", ["x = x.double()", "y = y.int()", "x, y = x.numpy(), y.numpy().astype('uint8')"])
def test_arrays_and_other_types_of_numbers_are_taken(outside: Path, bench: Bench, change: str) -> None:
    command = ["--config-dir", "conf", "dataset=rings", "data_dir=data", *SMALL]
    plain = bench(*command).out.partition("  ")[0]
    module = outside / "code" / "own_rings.py"
    module.write_text(module.read_text().replace("        return Data(", f"        {change}\n        return Data("))
    done = bench(*command, "results_dir=other")
    assert (done.code, done.out.partition("  ")[0]) == (0, plain), done.err


def test_a_class_that_sets_no_name_is_told_so(outside: Path, bench: Bench) -> None:
    module = outside / "code" / "own_rings.py"
    module.write_text(module.read_text().replace('    name = "rings"\n', "").replace("    num_classes = 2\n", ""))
    done = bench("dataset=own_rings:Rings", *SMALL)
    told = "error: dataset: cannot build own_rings.Rings: the class must set name and num_classes\n"
    assert (done.code, done.err) == (2, told)


def test_a_missing_file_is_named_in_one_line(outside: Path, bench: Bench, capfd: pytest.CaptureFixture[str]) -> None:
    path = outside / "data" / "rings.csv"
    path.unlink()
    own = ["--config-dir", "conf", "--data-dir", "data"]
    assert main(["prepare", "rings", *own]) == 3
    error = capfd.readouterr().err
    done = bench("--config-dir", "conf", "dataset=rings", "data_dir=data", *SMALL)
    assert done.code == 3
    for text in (error, done.err):
        assert str(path) in text and text.count("\n") == 1
    assert main(["list", *own]) == 0
    row = next(line for line in capfd.readouterr().out.splitlines() if line.startswith("rings"))
    assert row.split()[3:6] == ["-", "-", "missing"] and str(path) in row


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("_target_: not_there.Rings", "dataset=broken: cannot build not_there.Rings: No module named 'not_there'"),
        ("_target_: pathlib.Missing", "cannot build pathlib.Missing: module 'pathlib' has no attribute 'Missing'"),
        ("_target_: own_rings.Rings\nwidth: 3", "cannot build own_rings.Rings: no option 'width'"),
        ("_target_: [", "dataset=broken: "),
        ("_target_: fractions.Fraction", "Fraction must inherit from robustfl_bench.interfaces.Dataset"),
        (
            "_target_: own_rings.Rings\nnum_test: ${oc.nothing:1}",
            "unknown resolver 'oc.nothing'",
        ),
    ],
)
def test_an_option_that_cannot_be_built_is_a_config_error(
    outside: Path, option: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (outside / "conf" / "dataset" / "broken.yaml").write_text(option)
    for arguments in (["verify", "broken"], ["list"]):
        assert main([*arguments, "--config-dir", "conf"]) == 2
        error = capsys.readouterr().err
        assert told in error and error.count("\n") == 1


def test_a_config_folder_must_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--config-dir", str(tmp_path / "absent")]) == 2
    assert capsys.readouterr().err.startswith("robustfl-data: --config-dir must be a folder")


def test_an_own_option_may_build_on_one_of_the_package(outside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = "_target_: robustfl_bench.datasets.Rotated"
    option = f"defaults:\n  - /dataset@base: digits\n  - _self_\n{target}\nnum_clients: ${{num_clients}}\nseed: 3\n"
    (outside / "conf" / "dataset" / "turned.yaml").write_text(option)
    assert main(["verify", "turned", "--config-dir", "conf"]) == 0
    assert "turned: 1437 + 1440 samples (official)" in capsys.readouterr().out


def test_options_of_the_package_come_first_as_in_hydra(outside: Path) -> None:
    (outside / "conf" / "dataset" / "digits.yaml").write_text("_target_: own_rings.Rings")
    assert type(dataset_of("digits", outside / "conf")).__name__ == "Digits"
    assert "rings" in named_options(outside / "conf") and "rings" not in named_options()
