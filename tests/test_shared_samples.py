"""Processes of a sweep map one file of samples, with the bytes of processes that have their own."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from robustfl_bench.runner.experiment import samples
from robustfl_bench.runner.store import shared
from robustfl_bench.runner.store.shared import Content, OneCopy, SharedFiles, folder_of_user
from robustfl_bench.runner.sweeps.cells import Sweep
from robustfl_bench.runner.sweeps.take import take
from tests.conftest import Bench, contents


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest content is worth a file."""
    monkeypatch.setattr(shared, "LEAST", 1)


def never() -> Content:
    raise AssertionError("there is a file")


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "lock")


def test_the_first_writes_a_file_all_map_it_and_the_last_removes_it(tmp_path: Path, small: None) -> None:
    first, second = SharedFiles(tmp_path), SharedFiles(tmp_path)  # locks belong to open files, as those of processes do
    x = torch.arange(100.0).reshape(4, 25)
    for files, make in ((first, lambda: {"x": x, "variant": "own", "no": None}), (second, never), (second, never)):
        content = files.get("subject", make)
        assert torch.equal(content["x"], x) and content["x"].data_ptr() != x.data_ptr()
        assert content["x"].data_ptr() % 64 == 0 and (content["variant"], content["no"]) == ("own", None)
    content["x"][0] = -1
    assert torch.equal(first.get("subject", never)["x"], x), "a change stays in the process that makes it"
    first.let_go()
    assert len(listed(tmp_path)) == 1
    second.let_go()
    assert not listed(tmp_path) and float(content["x"][1, 0]) == 25


def test_runs_of_one_process_have_one_copy_while_one_of_them_holds_it() -> None:
    shelf = OneCopy()
    first = shelf.get("subject", lambda: {"x": torch.ones(1)})
    assert shelf.get("subject", never) is first
    del first
    assert not shelf.get("subject", lambda: {"x": torch.zeros(1)})["x"]


def test_of_many_files_a_process_holds_the_last_ones(tmp_path: Path, small: None) -> None:
    files = SharedFiles(tmp_path)
    for number in (0, 1, 2, 3, 0, 4):
        files.get(str(number), lambda: {"x": torch.zeros(1)})
    assert len(listed(tmp_path)) == shared.HELD
    files.get("0", never)
    files.let_go()


def test_a_damaged_file_and_what_a_killed_process_left_are_not_used(tmp_path: Path, small: None) -> None:
    first, second = SharedFiles(tmp_path), SharedFiles(tmp_path)
    first.get("subject", lambda: {"x": torch.ones(64)})
    [name] = listed(tmp_path)
    with (tmp_path / name).open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"y")
    assert torch.equal(second.get("subject", lambda: {"x": torch.zeros(2)})["x"], torch.zeros(2))
    (tmp_path / f".{name}.123").write_bytes(b"half")
    (tmp_path / "unused").write_bytes(b"whole")
    third = SharedFiles(tmp_path)
    assert listed(tmp_path) == [name], "others hold it"
    for files in (first, second, third):
        files.let_go()
    assert not listed(tmp_path)


def test_small_samples_and_full_disks_get_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    files, x = SharedFiles(tmp_path), torch.ones(8)
    assert files.get("subject", lambda: {"x": x})["x"] is x
    monkeypatch.setattr(shared, "LEAST", 1)
    monkeypatch.setattr(shared.shutil, "disk_usage", lambda _: type("", (), {"free": 40}))
    assert files.get("subject", lambda: {"x": x})["x"] is x and not listed(tmp_path)
    assert "No space left on device" in capfd.readouterr().err


def test_a_folder_of_somebody_else_is_not_used(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_of_user("samples").parent.rename(shared.tempfile.gettempdir() + "/another")
    (folder := Path(shared.tempfile.gettempdir()) / f"robustfl-bench-{os.getuid()}").symlink_to("another")
    with pytest.raises(PermissionError):
        folder_of_user("samples")
    folder.unlink()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError):
        folder_of_user("samples")
    with samples.among(2):
        assert isinstance(samples._shared, OneCopy)


def test_a_sweep_has_the_bytes_of_processes_with_their_own_samples(
    bench: Bench, tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "own.npz", x=rng.integers(0, 255, (200, 8, 8), dtype=np.uint8), y=np.arange(200) % 4)
    base = ("dataset=arrays", "dataset.path=own.npz", "num_clients=10", "num_byzantine=2", "attack=ipm", "rounds=2",
            "byzantine_placement=replace", "model.hidden=[8]", "batch_size=4", "stack=false")  # fmt: skip
    varied = [(), ("aggregator=krum",), ("attack=label_flip",), ("seed=1", "validation_share=0.1"),
              ("corruption=common", "corruption.kinds=[fog,contrast]")]  # fmt: skip
    cells = tuple((*base, *words) for words in varied)
    subjects, get = list[str](), SharedFiles.get

    def noted(files: SharedFiles, subject: str, make: Any) -> Content:
        subjects.append(subject)
        return get(files, subject, make)

    monkeypatch.setattr(SharedFiles, "get", noted)
    for takers in (1, 2):
        ended = take(Sweep(tuple((*cell, f"results_dir={takers}") for cell in cells), takers=takers))
        assert [end.status for end in ended] == ["finished"] * len(cells)
        assert bool(subjects) == (takers == 2)
    assert contents(Path("1")) == contents(Path("2")) and len(contents(Path("1"))) == 2 * len(cells)
    dealt = [subject for subject in subjects if subject.startswith("clients")]
    assert len(dealt) == 5 and len(set(dealt)) == 3 and len(set(subjects)) == 5
    assert not listed(folder_of_user("samples"))
