"""Data sets that know their clients: FEMNIST and Shakespeare from LEAF's files, MNIST by its writers."""

import gzip
import json
import lzma
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from robustfl_bench.commands import data
from robustfl_bench.interfaces import ConfigError, Data, DataError
from robustfl_bench.numerics.characters import ALPHABET, numbers
from robustfl_bench.parts.datasets.femnist import Femnist
from robustfl_bench.parts.datasets.mnist import Mnist
from robustfl_bench.parts.datasets.mnist_writers import MnistWriters
from robustfl_bench.parts.datasets.shakespeare import Shakespeare, ShakespeareLeaf, windows

PACK: dict[str, Any] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
DATA = os.environ.get("ROBUSTFL_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="ROBUSTFL_DATA names no folder with the real files")


def write(path: Path, users: dict[str, Any], suffix: str = "") -> None:
    counts = [len(data["y"]) if "y" in data else len(data["raw"]) - 80 for data in users.values()]
    content = json.dumps({"users": list(users), "num_samples": counts, "user_data": users}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(path.name + suffix).write_bytes(PACK[suffix](content))


def writer(number: int, samples: int) -> dict[str, Any]:
    """Images whose pixels and labels say whose they are and which."""
    return {"x": [[number / 10 + i / 100] * 784 for i in range(samples)], "y": [number + i for i in range(samples)]}


def test_characters() -> None:
    assert len(ALPHABET) == len(set(ALPHABET)) == 80
    assert numbers(ALPHABET).tolist() == list(range(80))
    assert numbers("a~é€\u0161?").tolist() == [53, -1, -1, -1, -1, ALPHABET.index("?")]


@pytest.fixture
def femnist(tmp_path: Path) -> Path:
    """Three writers in two files, as LEAF names them."""
    folder = tmp_path / "femnist"
    write(folder / "train" / "all_data_0_niid_0_keep_0_train_8.json", {"f01_2": writer(1, 4), "f00_1": writer(0, 3)})
    write(folder / "train" / "all_data_1_niid_0_keep_0_train_8.json", {"f02_3": writer(2, 5)}, ".xz")
    write(
        folder / "test" / "all_data_0_niid_0_keep_0_test_8.json", {"f01_2": writer(5, 1), "f00_1": writer(6, 2)}, ".gz"
    )
    write(folder / "test" / "all_data_1_niid_0_keep_0_test_8.json", {"f02_3": writer(7, 1)})
    return tmp_path


def test_femnist_of_all_writers(femnist: Path) -> None:
    data = Femnist(3).load(femnist)
    assert data.train_x.shape == (12, 1, 28, 28) and data.train_x.dtype == torch.float32
    assert data.owners is not None and data.owners.tolist() == [0] * 3 + [1] * 4 + [2] * 5
    assert data.train_y.tolist() == [0, 1, 2, 1, 2, 3, 4, 2, 3, 4, 5, 6]
    torch.testing.assert_close(
        data.train_x[:, 0, 3, 4], torch.tensor([0, 1, 2, 10, 11, 12, 13, 20, 21, 22, 23, 24]) / 100
    )
    assert data.test_y.tolist() == [6, 7, 5, 7], "the test parts of all writers"
    assert data.variant == "own preprocessing, no checksum is published"
    symmetric = Femnist(3, "symmetric").load(femnist)
    torch.testing.assert_close(symmetric.train_x, 2 * data.train_x - 1)
    assert symmetric.scaling is not None
    torch.testing.assert_close(symmetric.scaling.pixels(symmetric.test_x), data.test_x)


def test_some_of_the_writers_are_the_same_in_every_run_and_stay_when_there_are_more(femnist: Path) -> None:
    first, second, three = (set(Femnist(n).load(femnist).train_x[:, 0, 0, 0].tolist()) for n in (1, 2, 3))
    assert first < second < three
    with pytest.raises(ConfigError, match=r"femnist has 3 clients with enough samples; set num_clients=3$"):
        Femnist(4).load(femnist)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[]", "not a JSON file of LEAF"),
        (b'{"user_data": {"f": {"x": [[0]]}}}', "not a JSON file of LEAF"),
        (b'{"user_data": {"f": {"x": [[0], [0]], "y": [1]}}}', "has not as many labels as samples"),
        (b'{"user_data": {"f00_1": {"x": [], "y": []}}}', "has user f00_1, who is in another file too"),
        (b'{"user_data": {"f": ', "not a JSON file of LEAF"),
    ],
)
def test_other_files_are_refused(femnist: Path, content: bytes, told: str) -> None:
    path = femnist / "femnist" / "train" / "more.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=told) as caught:
        Femnist(3).load(femnist)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_labels_and_pixels_have_ranges(femnist: Path) -> None:
    write(femnist / "femnist" / "train" / "all_data_1_niid_0_keep_0_train_8.json", {"f02_3": writer(60, 5)})
    (femnist / "femnist" / "train" / "all_data_1_niid_0_keep_0_train_8.json.xz").unlink()
    with pytest.raises(DataError, match="pixels outside of"):
        Femnist(3).load(femnist)


@pytest.mark.parametrize(
    "user",
    [
        {"x": [[0.5] * 783], "y": [1]},
        {"x": [["dark"] * 784], "y": [1]},
        {"x": [[0.5] * 784], "y": ["seven"]},
        {"x": [[0.5] * 784], "y": [1.5]},
        {"x": [[0.5] * 784], "y": [None]},
        {"x": [[0.5] * 784], "y": [[1, 2]]},
        {"x": [{}], "y": [1]},
        {"x": [[float("nan")] * 784], "y": [1]},
        {"x": [[0.5] * 784], "y": [62]},
        {"x": [[0.5] * 784], "y": [-1]},
        {"x": "a", "y": "b"},
        {"raw": "text"},
        {"raw": 5},
        {"x": 5, "y": 6},
    ],
)
def test_odd_samples_are_refused_in_one_line(femnist: Path, user: dict[str, Any]) -> None:
    path = femnist / "femnist" / "train" / "more.json"
    path.write_text(json.dumps({"user_data": {"odd": user}}))
    (femnist / "femnist" / "test" / "more.json").write_text(
        json.dumps({"user_data": {"odd": {"x": [[0.5] * 784], "y": [1]}}})
    )
    with pytest.raises(DataError) as caught:
        Femnist(4).load(femnist)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sample", [{"x": [5], "y": ["a"]}, {"x": ["a" * 80], "y": [5]}, {"raw": "text"}, {"raw": [1]}])
def test_odd_characters_are_refused_in_one_line(tmp_path: Path, sample: dict[str, Any]) -> None:
    for part in ("train", "test"):
        path = tmp_path / "shakespeare" / part / "some.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"user_data": {"A": sample}}))
    with pytest.raises(DataError) as caught:
        ShakespeareLeaf(1, min_windows=1).load(tmp_path)
    assert "\n" not in str(caught.value)


def test_the_command_knows_files_without_checksums(femnist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--data-dir", str(femnist)]
    assert data.main(["verify", "femnist", *folder]) == 0
    told = capsys.readouterr().out
    assert told.count("no checksum is published") == 4
    assert "no digest, as the default settings do not suit these files: femnist has 3 clients" in told
    assert data.main(["list", *folder]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("femnist"))
    assert row.split()[3:6] == ["12", "4", "ready"], "the samples in the folder"
    (femnist / "femnist" / "train" / "all_data_1_niid_0_keep_0_train_8.json.xz").write_bytes(b"damaged")
    assert data.main(["verify", "femnist", *folder]) == 3
    assert "cannot be read: truncated or damaged?" in capsys.readouterr().out
    assert data.main(["prepare", "shakespeare_leaf", *folder]) == 3
    told = capsys.readouterr().err
    assert "preprocess.sh" in told and "looked for shakespeare/train and /test" in told and told.count("\n") == 1


# --- Shakespeare -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "stride", "count"), [(80, 5, 0), (81, 5, 1), (85, 5, 1), (86, 5, 2), (90, 1, 10)])
def test_windows(length: int, stride: int, count: int) -> None:
    x, y = windows(np.arange(length), stride)
    assert x.shape == (count, 80) and y.shape == (count,)
    for i in range(count):
        assert x[i].tolist() == list(range(i * stride, i * stride + 80)) and y[i] == i * stride + 80


def spoken(words: str, length: int) -> str:
    return (words * length)[:length]


def test_shakespeare_from_texts(tmp_path: Path) -> None:
    text = spoken("To be,\nor  not~ to be: ", 2000)
    roles = {"A": {"raw": text}, "B": {"raw": spoken("Ay. ", 800)}, "short": {"raw": spoken("No. ", 640)}}
    write(tmp_path / "shakespeare" / "all_data.json", roles)
    data = Shakespeare(2).load(tmp_path)
    assert data.train_x.dtype == torch.int32 and data.train_y.dtype == torch.int64 and data.owners is not None
    assert data.owners.bincount().tolist()[1] == -(-(639 - 80) // 5) and len(data.owners.unique()) == 2
    first = "".join(ALPHABET[i] for i in data.train_x[0].tolist())
    assert first + ALPHABET[int(data.train_y[0])] == spoken("To be, or not to be: ", 81)
    with pytest.raises(ConfigError, match="has 2 clients with enough samples"):
        Shakespeare(3).load(tmp_path)
    assert len(Shakespeare(3, min_windows=50).load(tmp_path).owners.unique()) == 3  # type: ignore[union-attr]


def test_shakespeare_from_samples(tmp_path: Path) -> None:
    train = {"A": {"x": [spoken("ab", 80)] * 3, "y": ["c", "d", "~"]}, "B": {"x": [spoken("xy", 80)], "y": ["z"]}}
    test = {"A": {"x": [spoken("ba", 80)], "y": ["e"]}, "B": {"x": [spoken("yx", 80)], "y": ["w"]}}
    for part, users in (("train", train), ("test", test)):
        write(tmp_path / "shakespeare" / part / "some.json", users)
    data = ShakespeareLeaf(1, min_windows=2).load(tmp_path)
    assert "".join(ALPHABET[i] for i in data.train_y.tolist()) == "cd "
    assert "".join(ALPHABET[i] for i in data.test_x[0].tolist()) == spoken("ba", 80)
    assert ShakespeareLeaf(2, min_windows=1).load(tmp_path).test_y.tolist() == numbers("ew").tolist()
    train["A"]["x"][1] = "short"
    write(tmp_path / "shakespeare" / "train" / "some.json", train)
    with pytest.raises(DataError, match="expected windows of 80 characters"):
        ShakespeareLeaf(1, min_windows=2).load(tmp_path)
    write(tmp_path / "shakespeare" / "all_data.json", test)
    with pytest.raises(DataError, match="A has no text, expected raw"):
        Shakespeare(1).load(tmp_path)


@needs_data
def test_real_shakespeare() -> None:
    data = Shakespeare().load(Path(str(DATA)))
    assert data.owners is not None and len(data.owners.unique()) == 71
    assert data.owners.bincount().min() >= 100 and len(data.train_y) > 50_000
    assert data.train_x.min() >= 0 and data.train_x.max() < 80
    assert 0.15 < len(data.test_y) / (len(data.train_y) + len(data.test_y)) < 0.25
    samples = ShakespeareLeaf(10).load(Path(str(DATA)))
    assert len(samples.train_y) == 41_990 and samples.variant == "subset of 10 roles"


# --- writers ---------------------------------------------------------------------------------------------------------


@needs_data
def test_real_writers() -> None:
    data, whole = MnistWriters(scaling="unit").load(Path(str(DATA))), Mnist("unit").load(Path(str(DATA)))
    assert data.owners is not None
    sizes = data.owners.bincount()
    assert len(sizes) == 539 and len(data.train_y) + len(data.test_y) == 60_000 and len(data.train_y) == 48_214
    both = torch.cat([data.train_x, data.test_x]).flatten(1)
    assert torch.equal(
        both.double().sum(dim=0).round(decimals=3), whole.train_x.flatten(1).double().sum(0).round(decimals=3)
    )
    few = MnistWriters(5, scaling="unit").load(Path(str(DATA)))
    assert few.owners is not None and len(few.owners.unique()) == 5 and len(few.test_y) < 200
    writers_look_alike(data)


def writers_look_alike(data: Data) -> None:
    """Images of one writer and digit are nearer to each other than to those of others."""
    assert data.owners is not None
    ones = data.train_y == 1
    x, who = data.train_x[ones].flatten(1), data.owners[ones]
    means = torch.stack([x[who == writer].mean(dim=0) for writer in who.unique()])
    within = torch.stack(
        [(x[who == writer] - means[i]).square().sum(1).mean() for i, writer in enumerate(who.unique())]
    )
    assert within.mean() < 0.75 * (x - x.mean(dim=0)).square().sum(dim=1).mean()
