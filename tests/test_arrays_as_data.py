"""Data of the user: arrays, tables and folders of images; what is in them counts, and nothing in them is executed."""

import errno
import json
import os
import pickle
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import robustfl_bench as rb
from robustfl_bench.commands.data import main as data_main
from robustfl_bench.doors.testing import check_dataset
from robustfl_bench.parts.datasets.arrays import Arrays
from robustfl_bench.runner.config import compose
from tests.conftest import Bench, run_folders

SMALL: dict[str, Any] = {"rounds": 2, "model.hidden": [4], "num_clients": 4, "num_byzantine": 1, "partition": "iid"}
WORDS = ("rounds=2", "model.hidden=[4]", "num_clients=4", "num_byzantine=1", "partition=iid")
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 5)), np.arange(60) % 3
PIXELS = RNG.integers(0, 256, size=(60, 6, 6), dtype=np.uint8)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def loaded(path: str, **options: Any) -> rb.Data:
    return Arrays(path, **options).load(Path())


def saved(path: str = "mine.npz", **arrays: Any) -> str:
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i1", "i2", "i8", "u1", "u2", "u8"])
@pytest.mark.parametrize("labels", ["f4", "f8", "i1", "i8", "u2", "U3", "S3"])
def test_samples_and_labels_have_any_type(kind: str, labels: str) -> None:
    path = saved(x=(9 * np.abs(X)).astype(kind), y=Y.astype(labels))
    data = loaded(path)
    assert data.train_x.dtype == torch.float32 and data.train_y.dtype == torch.int64
    assert (len(data.train_y), len(data.test_y)) == (48, 12)
    assert set(data.train_y.tolist()) == {0, 1, 2} and Arrays(path).num_classes == 3
    check_dataset(Arrays(path), Path())


def test_samples_are_scaled_by_the_training_set_or_left_as_they_are() -> None:
    path = saved(x=np.column_stack([X, np.ones(60)]), y=Y)
    data = loaded(path)
    assert data.train_x.mean(dim=0).abs().max() < 1e-6
    assert data.train_x[:, :5].std(dim=0, correction=0).sub(1).abs().max() < 1e-6
    raw = loaded(path, scaling="none")
    whole = torch.cat([raw.train_x, raw.test_x])
    assert torch.equal(whole[whole[:, 0].argsort()][:, :5], torch.from_numpy(X[X[:, 0].argsort()]).float())
    assert torch.equal(raw.train_y, data.train_y) and data.scaling is None


@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (PIXELS, (1, 6, 6)),
        (PIXELS[:, None], (1, 6, 6)),
        (np.repeat(PIXELS[..., None], 3, axis=3), (3, 6, 6)),
        (PIXELS / 255, (1, 6, 6)),
    ],
)
def test_images_have_channels_first_and_pixels_that_can_be_corrupted(x: np.ndarray, shape: tuple[int, ...]) -> None:
    dataset = Arrays(saved(x=x, y=Y))
    assert dataset.input_shape == shape
    data = dataset.load(Path())
    assert data.scaling is not None
    pixels = data.scaling.pixels(torch.cat([data.train_x, data.test_x]))
    wanted = np.sort(PIXELS.reshape(60, -1).mean(axis=1) / 255)
    assert pixels[:, 0].flatten(1).mean(dim=1).sort().values.numpy() == pytest.approx(wanted, abs=1e-5)
    unscaled = loaded("mine.npz", scaling="none")
    assert max(unscaled.train_x.max(), unscaled.test_x.max()) == np.float32(x.max())


def test_a_test_set_of_ones_own_is_kept() -> None:
    for names in (("x_train", "y_train", "x_test", "y_test"), ("train_x", "train_y", "test_x", "test_y")):
        data = loaded(saved(**dict(zip(names, (X[:50], Y[:50], X[50:], Y[50:]), strict=True))), scaling="none")
        assert torch.equal(data.test_x, torch.from_numpy(X[50:]).float()) and data.test_y.tolist() == Y[50:].tolist()
    assert len(loaded(saved(x=X, y=Y), test_share=0.5).test_y) == 30


def test_a_table_has_names_or_none_words_or_numbers(tmp_path: Path) -> None:
    lines = [f"{x[0]},{x[1]},{'cat' if y else 'dog'}" for x, y in zip(X, Y, strict=True)]
    Path("named.csv").write_text("\n".join(["a,b,label", *lines]))
    Path("bare.csv").write_text("\n".join([*lines, ""]))
    for path in ("named.csv", "bare.csv"):
        data = loaded(path, scaling="none")
        assert data.train_x.shape == (48, 2) and Arrays(path).num_classes == 2
        assert sorted(torch.cat([data.train_y, data.test_y]).tolist()) == sorted((Y == 0).astype(int).tolist())
    assert torch.equal(loaded("named.csv").train_x, loaded("bare.csv").train_x)
    parts = [f"{'train' if i < 50 else 'test'},{i % 3},{i}" for i in range(60)]
    Path("split.csv").write_text("\n".join(["split,kind,n", *parts]))
    data = loaded("split.csv", label="kind", scaling="none")
    assert data.test_x.flatten().tolist() == list(range(50, 60)) and data.test_y.tolist() == [
        i % 3 for i in range(50, 60)
    ]


SITES = np.array(["Mercy", "Alpha", "St. Anne"])[np.minimum(np.arange(60) // 20, 2)]


def test_whose_a_sample_is_makes_the_clients_of_the_natural_partition(bench: Bench) -> None:
    """In the order of their names: Alpha has the samples 20 to 39, Mercy those before, and St. Anne those after."""
    lines = [f"{site},{place},{label}" for place, (site, label) in enumerate(zip(SITES, Y, strict=True))]
    Path("sites.csv").write_text("\n".join(["site,place,label", *lines]))
    saved("sites.npz", x=np.arange(60)[:, None], y=Y, site=SITES)
    saved("train.npz", x_train=np.arange(60)[:, None], y_train=Y, x_test=X[:9, :1], y_test=Y[:9], site=SITES)
    for path in ("sites.csv", "sites.npz", "train.npz"):
        data = loaded(path, client="site", scaling="none")
        assert data.train_x.shape[1:] == (1,) and loaded("sites.npz").owners is None
        check_dataset(Arrays(path, client="site"), Path())
        shards = rb.Natural()(data.owners.numpy(), 3, np.random.default_rng(0))
        places = [set(data.train_x[shard, 0].int().tolist()) for shard in shards]
        assert all(own <= {*range(first, first + 20)} for own, first in zip(places, (20, 0, 40), strict=True))
        assert sum(map(len, places)) == len(data.train_y) == (60 if path == "train.npz" else 48)
    words = ("dataset=arrays", "dataset.path=sites.csv", "partition=natural", "rounds=1", "model.hidden=[4]")
    assert bench(*words, "dataset.client=site", "num_clients=3").code == 0
    outcome = bench(*words, "dataset.client=site", "num_clients=4")
    assert outcome.code == 2 and "has 3 clients of its own; set num_clients=3" in outcome.err


def test_a_split_calls_clients_and_classes_by_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{site},{i},{'yes' if i % 3 else 'no'}" for i in range(60) for site in ("Mercy\x1b[2J", "Alpha" * 9)]
    Path("sites.csv").write_text("\n".join(["site,place,label", *rows]))
    words = ["partition", "dataset=arrays", "dataset.path=sites.csv", "dataset.client=site", "num_clients=2"]
    assert data_main([*words, "partition=natural"]) == 0
    names = [line.rpartition(")")[0].strip() for line in capsys.readouterr().out.splitlines()[:3]]
    assert names == ["client    samples  no (0)  yes (1", "AlphaAlphaAlphaAlphaA... (0", r"Mercy\x1b[2J (1"]
    assert data_main([*words, "partition=natural", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["classes"] == ["no", "yes"] and [one["name"] for one in told["clients"]] == [
        "Alpha" * 9,
        "Mercy\x1b[2J",
    ]
    assert data_main([*words, "partition=iid"]) == 0
    assert "Mercy" not in capsys.readouterr().out, "each client has samples of both"
    Path("numbers.csv").write_text(
        "\n".join(["site,place,label", *(f"{7 - i % 2},{i},{i % 3 + 1}" for i in range(60))])
    )
    data = Arrays("numbers.csv", client="site")
    assert (data.class_names, data.owner_names) == (["1", "2", "3"], ["6", "7"])
    names = ["001", "1", "9007199254740992", "9007199254740993"]  # one number each two as floats
    Path("ids.csv").write_text("\n".join(["site,place,label", *(f"{names[i % 4]},{i},{i % 3}" for i in range(60))]))
    assert Arrays("ids.csv", client="site").owner_names == names


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("a.csv", {"client": "stie"}, r"no column 'stie' \(did you mean site\?\); there are site, n, kind"),
        ("a.csv", {"client": "kind", "label": "kind"}, "the column kind cannot be the label and the client"),
        ("a.csv", {}, "column site has 'A', which is no number: is it dataset.label, or dataset.client"),
        ("b.csv", {"client": "site"}, r"sample 1 \(from 0\) has no client: fill it, or leave the sample out"),
        ("nan.npz", {"client": "site"}, r"sample 5 \(from 0\) has no client"),
        ("a.npz", {"client": "stie"}, r"no array 'stie' \(did you mean site\?\); there are x, y, site, rows"),
        ("a.npz", {"client": "rows"}, r"clients must be the names or numbers of 60 samples, got \(3,\)"),
        ("pictures", {"client": "site"}, "a folder of images does not say whose they are; leave dataset.client out"),
    ],
)
def test_clients_that_are_not_there_are_named(path: str, options: dict[str, Any], message: str) -> None:
    Path("a.csv").write_text("site,n,kind\nA,1,0\nB,2,1\n")
    Path("b.csv").write_text("site,n,kind\nA,1,0\n,2,1\nB,3,1\n")
    saved("nan.npz", x=X, y=Y, site=np.where(np.arange(60) == 5, np.nan, Y))
    saved("a.npz", x=X, y=Y, site=SITES, rows=np.arange(3))
    images(Path("pictures"))
    with pytest.raises(rb.DataError, match=message):
        loaded(path, **options)


def test_the_client_is_never_the_label_unless_it_is_said() -> None:
    Path("last.csv").write_text("kind,n,site\n0,1,A\n1,2,A\n0,1,B\n1,2,B\n")
    data = loaded("last.csv", client="site", scaling="none")
    assert Arrays("last.csv", client="site").num_classes == 2 and data.train_x.shape[1:] == (1,)
    assert sorted(torch.cat([data.train_x, data.test_x]).flatten().tolist()) == [0, 0, 1, 1]  # n is the last one


def test_a_column_split_can_be_the_label_or_the_client_and_is_no_guess() -> None:
    rows = "".join(f"{i % 3},{i},{'train' if i < 50 else 'test'}\n" for i in range(60))
    Path("parts.csv").write_text(f"kind,n,split\n{rows}")
    Path("labels.csv").write_text(f"label,n,split\n{rows}")
    assert Arrays("parts.csv", label="split").class_names == ["test", "train"]
    assert Arrays("labels.csv", client="split").owner_names == ["test", "train"]
    assert Arrays("parts.csv").num_classes == 60 and len(loaded("parts.csv").test_y) == 10, "n is the last one"


def test_numbered_columns_have_a_header_and_an_index_without_a_name_is_refused() -> None:
    """As pandas writes a table of numbered columns and a label."""
    lines = [f"{x[0]},{x[1]},{y}" for x, y in zip(X, Y, strict=True)]
    Path("numbered.csv").write_text("\n".join(["0,1,label", *lines]))
    Path("bare.csv").write_text("\n".join(lines))
    numbered, bare = loaded("numbered.csv"), loaded("bare.csv")
    assert torch.equal(numbered.train_x, bare.train_x) and torch.equal(numbered.train_y, bare.train_y)
    Path("indexed.csv").write_text("\n".join([",0,1,label", *(f"{i},{line}" for i, line in enumerate(lines))]))
    with pytest.raises(rb.DataError, match="column 1 has no name: pandas writes its index so, unless index=False"):
        loaded("indexed.csv")


@pytest.mark.parametrize(
    ("header", "label", "told"),
    [
        ("Label,b,c", "Label", ""),
        ("b,Y,Class", "Class", ""),
        ("0,1,Target", "Target", ""),
        ("b,label,Label", "label", ""),
        ("b,c,price", "price", "note: dataset.label is not given: the last column, price, is taken\n"),
    ],
)
def test_labels_are_found_by_name_in_any_case(
    header: str, label: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = np.stack([np.arange(60) % (2 + place) for place in range(3)], axis=1)
    Path("cased.csv").write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]))
    wanted = 2 + header.split(",").index(label)
    assert Arrays("cased.csv").num_classes == wanted and capsys.readouterr().err == told
    frame = pd.read_csv("cased.csv")
    rb.run(dataset={"train": frame[:50], "test": frame[50:]}, **SMALL)
    assert capsys.readouterr().err.count("note: ") == bool(told)
    (path,) = Path("results/data").iterdir()
    assert Arrays(str(path)).num_classes == wanted


def images(folder: Path, mode: str = "L") -> None:
    for place, name in (
        (folder / "train", "cat"),
        (folder / "train", "dog"),
        (folder / "test", "cat"),
        (folder / "test", "dog"),
    ):
        (place / name).mkdir(parents=True)
        for number in range(3):
            Image.fromarray(PIXELS[number + (name == "dog")]).convert(mode).save(place / name / f"{number}.png")


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3)])
def test_a_folder_of_images_is_read(tmp_path: Path, mode: str, channels: int) -> None:
    images(tmp_path / "pictures", mode)
    dataset = Arrays("pictures", scaling="none")
    assert dataset.input_shape == (channels, 6, 6) and dataset.num_classes == 2
    data = dataset.load(Path())
    assert (len(data.train_y), data.test_y.tolist()) == (6, [0, 0, 0, 1, 1, 1])
    assert torch.equal(data.train_x[0, 0], torch.from_numpy(PIXELS[0]).float())
    shutil.move("pictures/train", "flat")
    assert len(loaded("flat").train_y) == 5


def test_the_content_is_the_identity_and_not_the_place(bench: Bench) -> None:
    saved("a.npz", x=X, y=Y)
    first = bench("dataset=arrays", "dataset.path=a.npz", *WORDS)
    assert first.code == 0, first.err
    shutil.copy("a.npz", "b.npz")
    assert bench("dataset=arrays", "dataset.path=b.npz", *WORDS).out.startswith("stored result")
    saved("b.npz", x=X + 1e-3 * (np.arange(60) == 0)[:, None], y=Y)
    assert not bench("dataset=arrays", "dataset.path=b.npz", *WORDS).out.startswith("stored result")
    assert len(run_folders(Path("results"))) == 2
    assert bench("dataset=arrays", "dataset.path=a.npz", "dataset.scaling=none", *WORDS).code == 0
    assert len(run_folders(Path("results"))) == 3


def test_a_stored_run_of_changed_files_is_not_made_again_in_silence(bench: Bench) -> None:
    saved("a.npz", x=X, y=Y)
    assert bench("dataset=arrays", "dataset.path=a.npz", *WORDS).code == 0
    ((_, folder),) = run_folders(Path("results")).items()
    saved("a.npz", x=-X, y=Y)
    bench(f"rerun={folder}", "seed=1").refused(3, "a.npz has SHA-256")


def test_each_class_and_client_keeps_a_sample_for_training(capsys: pytest.CaptureFixture[str]) -> None:
    rare = np.where(np.arange(60) == 7, "Aarau", np.where(np.arange(60) % 2, "Bern", "Chur"))
    for rare_place in range(60):  # wherever it is drawn
        saved(x=X, y=(np.arange(60) == rare_place) + 0, site=np.roll(rare, rare_place))
        data = loaded("mine.npz", client="site")
        assert set(data.train_y.tolist()) == {0, 1} and len(set(data.owners.tolist())) == 3 and len(data.test_y) > 9
    saved("split.npz", x_train=X, y_train=Y, x_test=X[:9], y_test=np.arange(9))
    assert capsys.readouterr().err == ""
    loaded("split.npz")
    assert "no training sample has the label 3 (nor 5 more), which test samples have" in capsys.readouterr().err
    saved("ids.npz", x=X, y=np.arange(60))
    loaded("ids.npz")
    assert "the labels are 60 classes in 60 samples: is dataset.label another column?" in capsys.readouterr().err


def test_the_model_of_a_run_takes_samples_as_they_are_in_the_files() -> None:
    x = X * [10, 1, 1, 1, 1] + [50, 0, 0, 0, 0]
    y = np.where(X[:, 0] > 0, "sick", "well")
    result = rb.run(
        dataset=(x, y), partition="iid", num_clients=4, num_byzantine=0, rounds=60, lr=1.0, save_weights=True
    )
    with torch.no_grad():
        guessed = result.model(torch.from_numpy(x)).argmax(dim=1).numpy()
    assert (np.array(result.summary["inputs"]["classes"])[guessed] == y).mean() > 0.9
    content = result.save("trained.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert json.loads(header["__metadata__"]["inputs"]) == result.summary["inputs"]
    again = rb.run(
        dataset=(x, y), partition="iid", num_clients=4, num_byzantine=0, rounds=1, init="trained.safetensors"
    )
    assert again.accuracy > 0.9
    with pytest.raises(rb.ConfigError, match=r"name a .safetensors file, got 'trained.pt'"):
        result.save("trained.pt")


def test_a_column_of_clients_without_the_natural_partition_is_said(bench: Bench) -> None:
    saved(x=X, y=Y, site=SITES)
    words = ("dataset=arrays", "dataset.path=mine.npz", "dataset.client=site", "rounds=1", "model.hidden=[4]")
    note = "dataset.client=site without partition=natural: clients are drawn, and are not those of the column"
    assert note in bench(*words, "partition=iid", "num_clients=3").err
    assert not bench(*words, "partition=natural", "num_clients=3", "num_byzantine=0").err


def test_arrays_are_data_of_a_run_and_of_a_sweep(bench: Bench) -> None:
    first = rb.run(dataset=(X, Y), **SMALL)
    assert first.summary["status"] == "finished" and first.path.name.startswith("arrays-iid-")
    (file,) = Path("results/data").iterdir()
    assert rb.run(dataset=(X.copy(), Y), **SMALL).path == first.path and len(list(file.parent.iterdir())) == 1
    assert rb.run(dataset=(X, Y, X[:9], Y[:9]), **SMALL).path != first.path
    tensors = (torch.from_numpy(X), torch.from_numpy(Y))
    runs = rb.sweep(dataset=tensors, attack=["none", "ipm"], **{**SMALL, "model.hidden": [[4]]})
    assert list(runs["state"]) == ["finished"] * 2 and runs["run"][0] == first.path.name
    for wrong, message in (
        ((X, Y, X), "got 3 of them"),
        ((X, [object()] * 60), "an array of Python objects"),
        (([[1, 2], [3]], [0, 1]), "x is no array: "),
        ((np.ma.masked_greater(X, 1), Y), "x has masked values"),
        ((X, torch.from_numpy(Y).to_sparse()), "y is no array: "),
        ((X, Y, np.where(X[9, 1] == X, np.inf, X), Y), r"x_test\[9, 1\] is inf; fill it"),
    ):
        with pytest.raises(rb.DataError, match=message):
            rb.run(dataset=wrong, **SMALL)


def test_arrays_that_cannot_be_stored_leave_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").touch()
    with pytest.raises(rb.ConfigError, match=r"cannot write file/data/.*: Not a directory"):
        rb.run(dataset=(X, Y), results_dir="file", **SMALL)

    def full(partial: Path, **_: Any) -> None:
        partial.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(rb.ConfigError, match="No space left on device"):
        rb.run(dataset=(X, Y), **SMALL)
    assert list(Path("results/data").iterdir()) == []


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("executed",)


def bomb(path: Path) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": (1 << 24,)})
        for _ in range(128):
            member.write(bytes(1 << 20))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("no.npz", None, "there is no such data file or folder of images; set dataset.path"),
        ("a.npz", b"no archive", "cannot be used as data"),
        ("a.txt", b"1,2", "must end in .npz or .csv"),
        ("a.csv", b"", "it is empty"),
        ("a.csv", b"a,b,y\n1,2,0\n1,x,1\n", "column b has 'x', which is no number"),
        ("a.csv", b"a,y\n1,0\n1\n", "line 3 has 1 values, the first one 2"),
        ("a.csv", b"a,y\n\n1,0\n\n1\n", "line 5 has 1 values, the first one 2"),
        ("a.csv", b"a,y\n1,0\nnan,1\n1,1\n0,0\n", "not finite numbers; a.csv: line 3, column 1 (a) is nan; fill it"),
        ("a.csv", b"1,0\n2,1\n1,1\n0,nan\n", "sample 3 (from 0) has no label: fill it, or leave the sample out"),
        ("a.csv", b"a,y\n1,0\n2,1\n3,NA\n", "sample 2 (from 0) has no label: fill it, or leave the sample out"),
        ("a.csv", b"a,y\n1,0\n1_8,1\n", "column a has '1_8', which is no number"),
        ("a.csv", b"a,Split,y\n1,train,0\n2,valid,1\n", "the column Split must be train or test, got 'valid'"),
        ("a.csv", b"1,2,0\n2,1e99,1\n1,1,1\n0,3,0\n", "line 2, column 2 is 1e99"),
        ("a.csv", b"a,b,y\n1,2,0\n1,,1\n", "column b has no number for sample 1 (from 0): fill it"),
        ("a.csv", b"a,y\n1,yes\n2,no\n3, \n", "sample 2 (from 0) has no label: fill it, or leave the sample out"),
        ("a.csv", b"a,a,y\n1,2,0\n2,3,1\n", "two columns are named a: rename one"),
        ("a.csv", b"a,b,y\n", "it has names of columns and no samples"),
        ("a.csv", b"y\nyes\nno\n", "it has no columns of numbers beside y"),
        ("a.csv", b"a,split,y\n1,train,0\n2,valid,1\n", "must be train or test, got 'valid'"),
        ("a.csv", b"a,y\n1,0.5\n2,1\n", "labels must be classes"),
        ("a.csv", b"a,y\n1,0\n2,0\n", "two classes or more, got 1"),
        ("a.csv", b"a;b;label\n1;2;0\n2;3;1\n", "must be separated by commas, but its first line is 'a;b;label'"),
        ("a.csv", b"a\tb\n1\t2\n", "its values must be separated by commas, but its first line is 'a\\tb'"),
        ("a.csv", "é,y\n1,0\n2,1\n".encode("latin-1"), "it is no text in UTF-8: save it as UTF-8"),
        ("a.csv", "a,y\n1,0\n2,1\n".encode("utf-16"), "it is no text in UTF-8: save it as UTF-8"),
        ("a.csv", "a,y\n1,0\n2,1\n".encode("utf-16-le"), "it is no text in UTF-8: save it as UTF-8"),
        ("a.npz", b"a,y\n1,0\n", "it is damaged or no .npz (File is not a zip file): write it again"),
        ("a.npz", {}, "it must have arrays x and y, or x_train, y_train, x_test, y_test; it has no arrays"),
        ("a.npz", {"x_train": X, "y_train": Y, "x_test": X[:, :4], "y_test": Y},
         "x_test must be as wide as x_train, (60, 5), got (60, 4)"),
        ("a.npz", {"x_train": X, "y_train": Y, "x_test": X, "y_test": Y[:, None]},
         "y_test must be as wide as y_train, (60,), got (60, 1)"),
        ("empty", "folder", "the folder is empty; put a sub-folder of images for each class into it"),
        ("a.npz", {"x": X}, "must have arrays x and y"),
        ("a.npz", {"x": X, "y": Y[:9]}, "60 samples need as many labels (N,), got (9,)"),
        ("a.npz", {"x": X[:, 0], "y": Y}, "samples must be (N, d), or images"),
        ("a.npz", {"x": X + 1j, "y": Y}, "samples must be numbers, got complex128"),
        ("a.npz", {"x": X * 1e300, "y": Y}, "not finite numbers; a.npz: x[0, 0] is "),
    ],
)  # fmt: skip
def test_what_cannot_be_data_is_one_line_with_exit_code_3(bench: Bench, name: str, content: Any, message: str) -> None:
    if isinstance(content, dict):
        saved(name, **content)
    elif content == "folder":
        Path(name).mkdir()
    elif content is not None:
        Path(name).write_bytes(content)
    with np.errstate(over="ignore"):
        outcome = bench("dataset=arrays", f"dataset.path={name}", *WORDS)
    outcome.refused(3, message)
    assert not run_folders(Path("results"))


def test_nothing_in_a_file_is_executed_and_no_file_fills_the_memory(bench: Bench, tmp_path: Path) -> None:
    np.savez("evil.npz", x=X, y=np.array([Evil()] * 60, dtype=object), allow_pickle=True)
    outcome = bench("dataset=arrays", "dataset.path=evil.npz", *WORDS)
    assert outcome.code == 3 and "allow_pickle" in outcome.err and not Path("executed").exists()
    Path("pickle.npz").write_bytes(pickle.dumps(Evil()))
    assert bench("dataset=arrays", "dataset.path=pickle.npz", *WORDS).code == 3 and not Path("executed").exists()
    bomb(tmp_path / "bomb.npz")
    outcome = bench("dataset=arrays", "dataset.path=bomb.npz", *WORDS)
    assert outcome.code == 3 and "unpacks to" in outcome.err and "too much for its size" in outcome.err
    images(tmp_path / "pictures")
    Image.fromarray(PIXELS[0][:5]).save("pictures/test/cat/9.png")
    outcome = bench("dataset=arrays", "dataset.path=pictures", *WORDS)
    assert outcome.code == 3 and "make them one size" in outcome.err
    Path("pictures/test/cat/9.png").write_bytes(b"no picture")
    assert "9.png is no image" in bench("dataset=arrays", "dataset.path=pictures", *WORDS).err


def test_the_option_names_the_digest_of_a_file_and_of_a_folder(tmp_path: Path) -> None:
    saved("a.npz", x=X, y=Y)
    images(tmp_path / "pictures")
    digests = [
        compose.resolve(["dataset=arrays", f"dataset.path={path}"]).config["dataset"]["digest"]
        for path in ("a.npz", "pictures", "no")
    ]
    assert len(digests[0]) == len(digests[1]) == 64 and digests[2] is None
    (tmp_path / "pictures" / "train" / "cat" / "0.png").rename(tmp_path / "pictures" / "train" / "dog" / "7.png")
    assert compose.resolve(["dataset=arrays", "dataset.path=pictures"]).config["dataset"]["digest"] != digests[1]


class Pairs(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return len(Y)

    def __getitem__(self, i: int) -> Any:
        return torch.from_numpy(X[i]), int(Y[i])


class HuggingFace:
    """The columns of a data set of Hugging Face, whose package need not be there."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = columns

    def with_format(self, kind: str) -> Any:
        assert kind == "numpy"
        return self

    def __getitem__(self, rows: slice) -> dict[str, Any]:
        assert rows == slice(None)
        return self.columns


HuggingFace.__module__, HuggingFace.__qualname__ = "datasets.arrow_dataset", "Dataset"
HuggingFace.__name__ = "Dataset"


def _frame(**more: Any) -> pd.DataFrame:
    return pd.DataFrame({**{f"c{i}": X[:, i] for i in range(X.shape[1])}, "label": Y, **more})


@pytest.mark.parametrize(
    "given",
    [
        {"x": X, "y": Y},
        _frame(),
        torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)),
        Pairs(),
        HuggingFace({"image": X, "label": Y}),
        HuggingFace({**{f"c{i}": X[:, i] for i in range(X.shape[1])}, "label": Y}),
    ],
    ids=["dict", "DataFrame", "TensorDataset", "Dataset", "Hugging Face, one column", "Hugging Face, several"],
)
def test_data_of_other_packages_make_the_run_of_their_arrays(given: Any) -> None:
    assert rb.run(dataset=given, **SMALL).metrics.equals(rb.run(dataset=(X, Y), **SMALL).metrics)


def test_tables_have_labels_and_clients_by_name_and_splits() -> None:
    site = np.arange(60) % 4
    natural = SMALL | {"partition": "natural", "num_byzantine": 0}
    named = rb.run(dataset=_frame(site=site), **natural, **{"dataset.client": "site"})
    np.savez("sites.npz", x=X, y=Y, site=site)
    same = rb.run(dataset="arrays", **natural, **{"dataset.path": "sites.npz", "dataset.client": "site"})
    assert named.metrics.equals(same.metrics)
    other = _frame().rename(columns={"label": "outcome"})[["outcome", *(f"c{i}" for i in range(5))]]
    assert rb.run(dataset=other, **SMALL, **{"dataset.label": "outcome"}).metrics.equals(
        rb.run(dataset=(X, Y), **SMALL).metrics
    )
    split = rb.run(dataset={"train": _frame().iloc[:50], "test": _frame().iloc[50:]}, **SMALL)
    assert split.metrics.equals(rb.run(dataset=(X[:50], Y[:50], X[50:], Y[50:]), **SMALL).metrics)
    both = rb.sweep(dataset=[_frame(), (X, Y)], **SMALL | {"model.hidden": [[4]]})
    assert list(both["state"]) == ["finished"], "the same samples are the same run"


@pytest.mark.parametrize(
    ("given", "settings", "message"),
    [
        (pd.DataFrame(), {}, "^dataset: the table has no columns$"),
        (_frame()[["label"]], {}, "^dataset: the table has no columns of numbers beside label$"),
        (_frame(name="a"), {}, "the column 'name' has no numbers: leave it out"),
        (_frame(), {"dataset.client": "ward"}, "dataset has no column 'ward'; there are: c0, c1"),
        (_frame().assign(label=["a", None] * 30), {}, r"y\[1\] has no value: fill it, or leave the sample out"),
        (_frame().assign(label=pd.array([1, 2, pd.NA] * 20, dtype=object)), {}, r"y\[2\] has no value"),
        ({"train": (X, Y), "test": (X, Y)}, {}, "^dataset has train, test: it takes x and y, or x_train, y_train"),
        (iter, {}, "dataset"),
    ],
)
def test_what_is_no_table_of_numbers_is_one_line(given: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises((rb.DataError, rb.ConfigError), match=message):
        rb.run(dataset=given, **SMALL, **settings)
