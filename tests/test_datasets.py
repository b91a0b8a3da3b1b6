"""Data sets: formats, checksums, damage, layouts, and (where ROBUSTFL_DATA has them) the real files."""

import codecs
import gzip
import hashlib
import importlib
import io
import lzma
import os
import pickle
import re
import struct
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from robustfl_bench.commands.data import main
from robustfl_bench.doors.testing import check_dataset
from robustfl_bench.interfaces import ConfigError, Data, DataError, Dataset
from robustfl_bench.parts.datasets import cifar, find_folder, idx, load
from robustfl_bench.parts.datasets.cifar10 import BATCHES, Cifar10
from robustfl_bench.parts.datasets.cifar100 import PLACES, SUBSET, Cifar100
from robustfl_bench.parts.datasets.digits import Digits
from robustfl_bench.parts.datasets.fashion_mnist import FashionMnist
from robustfl_bench.parts.datasets.femnist import Femnist
from robustfl_bench.parts.datasets.files import File, Layout, find
from robustfl_bench.parts.datasets.mnist import Mnist
from robustfl_bench.read.runs.values import TEST_SAMPLES
from tests.rounds import build

CPU = torch.device("cpu")
CONF = Path(__file__).parents[1] / "conf" / "dataset"


def idx_bytes(array: np.ndarray, code: int = 0x08) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape) + array.tobytes()


def one_line(error: BaseException) -> str:
    assert "\n" not in str(error)
    return str(error)


# ---- idx


@pytest.mark.parametrize(("code", "dtype"), idx.DTYPES.items())
def test_idx_round_trip(code: int, dtype: str) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    np.testing.assert_array_equal(idx.parse(idx_bytes(array, code), "x"), array)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes are too few"),
        (b"\x00\x00\x08", "3 bytes are too few"),
        (b"\x1f\x8b\x08\x03" + bytes(20), "begins with 1f8b0803"),
        (b"\x00\x00\x0a\x01" + bytes(20), "begins with 00000a01"),
        (b"\x00\x00\x08\x00" + bytes(20), "begins with 00000800"),
        (b"\x00\x00\x08\x03" + bytes(8), "ends inside its idx header, at byte 12 of 16"),
        (idx_bytes(np.zeros((4, 5), np.uint8))[:-1], r"holds 31 bytes, its idx header of shape \(4, 5\) asks for 32"),
        (idx_bytes(np.zeros((4, 5), np.uint8)) + b"x", "holds 33 bytes, .* asks for 32"),
        (struct.pack(">HBBII", 0, 8, 2, 2**32 - 1, 2**32 - 1), "asks for 18446744065119617037"),
    ],
)
def test_idx_refuses(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"^some/file: .*{message}") as caught:
        idx.parse(content, "some/file")
    one_line(caught.value)


# ---- a tiny MNIST with its own checksums

RNG = np.random.Generator(np.random.Philox(key=1))
TINY = (
    RNG.integers(0, 256, (6, 28, 28), dtype=np.uint8),
    RNG.integers(0, 10, 6, dtype=np.uint8),
    RNG.integers(0, 256, (2, 28, 28), dtype=np.uint8),
    RNG.integers(0, 10, 2, dtype=np.uint8),
)
PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


@pytest.fixture
def tiny_mnist(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The four files of a tiny MNIST, which the data set then takes for the official one."""
    contents = {name: idx_bytes(array) for (name, _), array in zip(idx.PARTS, TINY, strict=True)}
    files = tuple(
        File(name, {f"sha256:{hashlib.sha256(content).hexdigest()}": "official"}, len(content))
        for name, content in contents.items()
    )
    layouts = tuple(Layout(layout.path, files) for layout in Mnist.source.layouts)
    monkeypatch.setattr(Mnist, "source", replace(Mnist.source, layouts=layouts))
    return contents


def write(folder: Path, contents: dict[str, bytes], suffix: str = ".gz") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / (name + suffix)).write_bytes(PACK[suffix](content))


@pytest.mark.parametrize("place", ["mnist", "MNIST/raw", "."])
@pytest.mark.parametrize("suffix", PACK)
def test_mnist_in_every_place_and_packing(
    tmp_path: Path, tiny_mnist: dict[str, bytes], place: str, suffix: str
) -> None:
    write(tmp_path / place, tiny_mnist, suffix)
    data = Mnist("unit").load(tmp_path)
    assert data.variant == "official"
    assert data.train_x.shape == (6, 1, 28, 28) and data.test_x.shape == (2, 1, 28, 28)
    assert data.train_x.dtype == torch.float32 and data.train_y.dtype == torch.int64
    assert data.train_x.is_contiguous() and data.test_x.is_contiguous()
    torch.testing.assert_close(data.test_x[:, 0], torch.from_numpy(TINY[2] / np.float32(255)))
    assert data.train_y.tolist() == TINY[1].tolist() and data.test_y.tolist() == TINY[3].tolist()


def test_scalings(tmp_path: Path, tiny_mnist: dict[str, bytes]) -> None:
    write(tmp_path / "mnist", tiny_mnist)
    unit = Mnist("unit").load(tmp_path).train_x
    torch.testing.assert_close(Mnist("symmetric").load(tmp_path).train_x, 2 * unit - 1)
    torch.testing.assert_close(Mnist().load(tmp_path).train_x, (unit - Mnist.mean[0]) / Mnist.sd[0])
    with pytest.raises(ConfigError, match="scaling must be one of standardize, unit, symmetric, got 'none'"):
        Mnist("none")


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("name", [name for name, _ in idx.PARTS])
def test_truncation_is_noticed(tmp_path: Path, tiny_mnist: dict[str, bytes], name: str, suffix: str) -> None:
    write(tmp_path / "mnist", tiny_mnist, suffix)
    path = tmp_path / "mnist" / (name + suffix)
    whole = path.read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match="truncated") as caught:
            Mnist().load(tmp_path)
        message = one_line(caught.value)
        assert message.startswith(f"{path}: ")
        assert f"run `robustfl-data prepare mnist --data-dir {tmp_path}`" in message


@pytest.mark.parametrize("suffix", PACK)
def test_no_flipped_bit_changes_the_data(tmp_path: Path, tiny_mnist: dict[str, bytes], suffix: str) -> None:
    """A flip is an error, unless it hits what is not data (a time stamp in the header of a gz file)."""
    write(tmp_path / "mnist", tiny_mnist, suffix)
    path = tmp_path / "mnist" / ("t10k-labels-idx1-ubyte" + suffix)
    whole, harmless = path.read_bytes(), 0
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        try:
            data = Mnist().load(tmp_path)
        except DataError:
            continue
        harmless += 1
        assert data.test_y.tolist() == TINY[3].tolist()
    assert harmless <= (7 if suffix == ".gz" else 0)


def test_another_file_of_the_right_size_is_refused(tmp_path: Path, tiny_mnist: dict[str, bytes]) -> None:
    name = "t10k-labels-idx1-ubyte"
    write(tmp_path / "mnist", tiny_mnist | {name: idx_bytes((TINY[3] + 1) % 10)})
    with pytest.raises(DataError, match=f"{name}.gz: content of 10 bytes is not the expected sha256:"):
        Mnist().load(tmp_path)


def test_missing_data(tmp_path: Path, tiny_mnist: dict[str, bytes]) -> None:
    with pytest.raises(DataError, match=r"no mnist in .* \(looked for mnist, MNIST/raw, \.\); run `robustfl-data"):
        Mnist().load(tmp_path / "not" / "there")
    write(tmp_path / "mnist", tiny_mnist)
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"mnist/train-labels-idx1-ubyte: is missing, also as .gz and .xz; run"):
        Mnist().load(tmp_path)
    write(tmp_path / "MNIST" / "raw", tiny_mnist, "")  # a complete place is preferred to a partial one
    assert Mnist().load(tmp_path).variant == "official"


def test_unreadable_file(tmp_path: Path, tiny_mnist: dict[str, bytes]) -> None:
    write(tmp_path / "mnist", tiny_mnist)
    path = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file")
    with pytest.raises(DataError, match="Permission denied"):
        Mnist().load(tmp_path)


@pytest.mark.parametrize(("one", "other"), [(0, 2), (1, 3), (0, 1), (2, 3)])
def test_swapped_files_are_noticed(tmp_path: Path, tiny_mnist: dict[str, bytes], one: int, other: int) -> None:
    write(tmp_path / "mnist", tiny_mnist)
    names = [tmp_path / "mnist" / f"{name}.gz" for name, _ in idx.PARTS]
    contents = [path.read_bytes() for path in names]
    names[one].write_bytes(contents[other])
    names[other].write_bytes(contents[one])
    with pytest.raises(DataError, match=r"another file; run `robustfl-data") as caught:
        Mnist().load(tmp_path)
    one_line(caught.value)


BOMB = 64 << 20  # bytes that unpack from some ten thousand


def peak_of(read: Callable[[], object]) -> tuple[str, int]:
    """The DataError that ``read`` raises, and the most memory that Python held meanwhile, imports not counted."""
    with pytest.raises(DataError):
        read()
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as caught:
            read()
        return one_line(caught.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", [".gz", ".xz", ""])
def test_no_more_is_unpacked_than_expected(tmp_path: Path, tiny_mnist: dict[str, bytes], suffix: str) -> None:
    write(tmp_path / "mnist", tiny_mnist)  # files are read side by side, so one alone is packed
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    path = tmp_path / "mnist" / f"t10k-labels-idx1-ubyte{suffix}"
    path.write_bytes(PACK[suffix](tiny_mnist["t10k-labels-idx1-ubyte"] + bytes(BOMB)))
    message, peak = peak_of(lambda: Mnist().load(tmp_path))
    assert message.startswith(f"{path}: unpacks to more than the expected 10 bytes: another file; run `robustfl-data")
    assert peak < BOMB / 4, "of which xz needs an eighth"


def test_a_file_of_unknown_size_is_bounded_by_its_packed_size(tmp_path: Path) -> None:
    for part in ("train", "test"):
        folder = tmp_path / "femnist" / part
        folder.mkdir(parents=True)
        (folder / "all.json.gz").write_bytes(gzip.compress(b"[" + b" " * BOMB + b"]"))
    message, peak = peak_of(lambda: Femnist().load(tmp_path))
    assert "train/all.json.gz: unpacks to more than the expected " in message
    assert peak < 0.8 * BOMB, "two files of at most a quarter of it each, read side by side"


# ---- CIFAR

PIXELS = RNG.integers(0, 256, (3, 3072), dtype=np.uint8)
LABELS = [3, 0, 9]


def pickled(data: object = PIXELS, labels: object = LABELS, protocol: int = 4, **more: object) -> bytes:
    return pickle.dumps({"data": data, "labels": labels, "batch_label": "x", **more}, protocol)


def binary(pixels: np.ndarray = PIXELS, labels: list[int] = LABELS) -> bytes:
    return np.column_stack([np.array(labels, np.uint8), pixels]).tobytes()


def python2(content: bytes) -> bytes:
    """The same pickle with the module name that the official files use."""
    return content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def test_cifar_formats_agree() -> None:
    byte_keys = pickle.dumps({b"data": PIXELS, b"labels": LABELS}, 3)
    for content in (pickled(), pickled(protocol=3), pickled(protocol=2), python2(pickled(protocol=3)), byte_keys):
        pixels, labels = cifar.parse_python(content, "x")
        np.testing.assert_array_equal(pixels, PIXELS.reshape(3, 3, 32, 32))
        assert labels.tolist() == LABELS
    pixels, labels = cifar.parse_binary(binary(), "x")
    np.testing.assert_array_equal(pixels, PIXELS.reshape(3, 3, 32, 32))
    assert labels.tolist() == LABELS


class Exploit:
    """Pickles to a call of ``function(*arguments)``."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_malicious_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    touched = tmp_path / "touched"
    attacks = [
        Exploit(os.system, f"touch {touched}"),
        Exploit(eval, f"open({str(touched)!r}, 'w')"),
        Exploit(open, str(touched), "w"),
        Exploit(np.save, str(touched), 1),
        Exploit(getattr, "text", "format"),
    ]
    for attack in attacks:
        for content in (pickle.dumps(attack, protocol), pickled(labels=attack, protocol=protocol)):
            with pytest.raises(DataError, match=r"^some/file: not a CIFAR batch, .* asks for .*no CIFAR") as caught:
                cifar.parse_python(content, "some/file")
            one_line(caught.value)
    odd_name = pickle.dumps(Exploit(os.system, "x"), 4).replace(b"\x06system", b"\x06sys\nem")
    with pytest.raises(DataError, match="which no CIFAR") as caught:
        cifar.parse_python(odd_name, "some/file")
    one_line(caught.value)
    dotted = pickled(protocol=4).replace(b"\x8c\x07ndarray", b"\x8c\x0endarray.tofile")
    with pytest.raises(DataError, match=r"asks for numpy\.ndarray\.tofile"):
        cifar.parse_python(dotted, "some/file")
    for arguments in (("text", "rot13"), (b"bytes", "latin1")):
        with pytest.raises(DataError, match="it encodes something else than bytes"):
            cifar.parse_python(pickle.dumps(Exploit(codecs.encode, *arguments), protocol), "some/file")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be unpickled"),
        (b"garbage", "cannot be unpickled"),
        (pickled()[:-100], "cannot be unpickled"),
        (pickle.dumps([1, 2]), "expected a pickled dict, got list"),
        (pickled(data=PIXELS[:, 1:]), r"expected data of shape \(N, 3072\) and type uint8"),
        (pickled(data=PIXELS.astype(np.int16)), "type uint8"),
        (pickled(data=b"abc"), "type uint8"),
        (pickled(labels=[1, 2]), "expected a list of 3 labels from 0 to 9"),
        (pickled(labels=[1, 2, 10]), "labels from 0 to 9"),
        (pickled(labels=[1, 2, [3]]), "labels from 0 to 9"),
        (pickle.dumps({"data": PIXELS, "fine_labels": LABELS}, 4), "expected a list of 3 labels"),
    ],
)
def test_cifar_python_refuses(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"^some/file: not a CIFAR.*{message}") as caught:
        cifar.parse_python(content, "some/file")
    one_line(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds 0 bytes, expected a multiple of 3073"),
        (binary()[:-1], "holds 9218 bytes"),
        (binary(labels=[1, 2, 77]), "has label 77"),
    ],
)
def test_cifar_binary_refuses(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"^some/file: {message}"):
        cifar.parse_binary(content, "some/file")


@pytest.fixture
def tiny_cifar(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, bytes]]:
    """Contents by name: ``official`` and ``rebuilt`` python batches, and ``binary`` ones; all of the same images."""
    contents: dict[str, dict[str, bytes]] = {"official": {}, "rebuilt": {}, "binary": {}}
    for number, batch in enumerate(BATCHES):
        labels = [(label + number) % 10 for label in LABELS]
        contents["official"][batch] = python2(pickled(labels=labels, protocol=3))
        contents["rebuilt"][batch] = pickled(labels=labels, filenames=["made up"] * 3)
        contents["binary"][f"{batch}.bin"] = binary(labels=labels)

    def file(name: str, *variants: str) -> File:
        known = {f"sha256:{hashlib.sha256(contents[kind][name]).hexdigest()}": kind for kind in variants}
        return File(name, known, at_most=1 << 20)

    python = tuple(file(batch, "official", "rebuilt") for batch in BATCHES)
    binaries = tuple(file(f"{batch}.bin", "binary") for batch in BATCHES)
    layouts = tuple(
        Layout(layout.path, binaries if "bin" in layout.path else python) for layout in Cifar10.source.layouts
    )
    monkeypatch.setattr(Cifar10, "source", replace(Cifar10.source, layouts=layouts))
    return contents


def archive(path: Path, folder: str, contents: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize("top", ["", "cifar10/"])
@pytest.mark.parametrize("kind", ["official", "rebuilt", "binary"])
@pytest.mark.parametrize("packing", ["", ".xz", ".gz", ".tar.gz"])
def test_cifar_in_every_place(
    tmp_path: Path, tiny_cifar: dict[str, dict[str, bytes]], top: str, kind: str, packing: str
) -> None:
    version = "bin" if kind == "binary" else "py"
    if packing == ".tar.gz":
        name = "cifar-10-binary.tar.gz" if kind == "binary" else "cifar-10-python.tar.gz"
        archive(tmp_path / top / name, f"cifar-10-batches-{version}", tiny_cifar[kind])
    else:
        write(tmp_path / top / f"cifar-10-batches-{version}", tiny_cifar[kind], packing)
    data = Cifar10("unit").load(tmp_path)
    assert data.variant == kind
    assert data.train_x.shape == (15, 3, 32, 32) and data.train_x.is_contiguous()
    assert data.train_y.tolist() == [(label + number) % 10 for number in range(5) for label in LABELS]
    assert data.test_y.tolist() == [(label + 5) % 10 for label in LABELS]
    torch.testing.assert_close(data.test_x, torch.from_numpy(PIXELS.reshape(3, 3, 32, 32) / np.float32(255)))


def test_cifar_names_both_variants_when_they_are_mixed(tmp_path: Path, tiny_cifar: dict[str, dict[str, bytes]]) -> None:
    mixed = tiny_cifar["official"] | {"test_batch": tiny_cifar["rebuilt"]["test_batch"]}
    write(tmp_path / "cifar-10-batches-py", mixed)
    assert Cifar10().load(tmp_path).variant == "official and rebuilt"


@pytest.mark.parametrize("place", PLACES)
def test_cifar100_and_its_subset(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = {}
    for name, shift in (("train", 0), ("test", 5)):
        batch = pickle.loads(pickled(labels=LABELS))
        batch |= {"fine_labels": [90 + shift, shift, 7], "coarse_labels": [1, 2, 3]}
        del batch["labels"]
        contents[name] = python2(pickle.dumps(batch, protocol=3))
    variant = SUBSET if "subset" in place else "official"
    files = tuple(
        File(name, {f"sha256:{hashlib.sha256(content).hexdigest()}": variant}) for name, content in contents.items()
    )
    layouts = tuple(Layout(layout.path, files) for layout in Cifar100.source.layouts)
    monkeypatch.setattr(Cifar100, "source", replace(Cifar100.source, layouts=layouts))
    if place.endswith(".tar.gz"):
        archive(tmp_path / "cifar100" / place, "cifar-100-python", contents)
    else:
        write(tmp_path / "cifar100" / place, contents, "")
    data = Cifar100().load(tmp_path)
    assert (data.train_y.tolist(), data.test_y.tolist()) == ([90, 0, 7], [95, 5, 7])
    assert data.variant == variant and data.train_x.shape == (3, 3, 32, 32)
    assert main(["list", "--data-dir", str(tmp_path)]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("cifar100"))
    counts = "800 +200" if variant == SUBSET else "50000 +10000"
    assert re.search(rf"100 +{counts} +ready .* {re.escape(variant)} ", row)


def test_damaged_archive(tmp_path: Path, tiny_cifar: dict[str, dict[str, bytes]]) -> None:
    path = tmp_path / "cifar10" / "cifar-10-python.tar.gz"
    incomplete = {name: tiny_cifar["official"][name] for name in BATCHES[:-1]}
    archive(path, "x", incomplete)
    with pytest.raises(DataError, match=r"tar.gz, test_batch: is not in the archive; run `robustfl-data prepare cif"):
        Cifar10().load(tmp_path)
    archive(path, "x", tiny_cifar["official"] | {"data_batch_2": pickled()})
    with pytest.raises(DataError, match=r"tar.gz, data_batch_2: content of .* is not the expected sha256:"):
        Cifar10().load(tmp_path)
    archive(path, "x", tiny_cifar["official"])
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"x" + whole[1:]):
        path.write_bytes(damaged)
        with pytest.raises(DataError) as caught:
            Cifar10().load(tmp_path)
        assert one_line(caught.value).startswith(str(path))


def test_archive_member_that_points_outside_writes_nothing(
    tmp_path: Path, tiny_cifar: dict[str, dict[str, bytes]]
) -> None:
    path = tmp_path / "data" / "cifar-10-python.tar.gz"
    archive(path, "../../escape", tiny_cifar["official"])
    assert Cifar10().load(tmp_path / "data").variant == "official"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["cifar-10-python.tar.gz", "data"]


@pytest.mark.parametrize("name", ["data_batch_2", "readme.html"])
def test_no_more_of_an_archive_is_unpacked_than_expected(
    tmp_path: Path, tiny_cifar: dict[str, dict[str, bytes]], name: str
) -> None:
    path = tmp_path / "cifar-10-python.tar.gz"
    archive(path, "x", {name: bytes(BOMB)} | {k: v for k, v in tiny_cifar["official"].items() if k != name})
    message, peak = peak_of(lambda: Cifar10().load(tmp_path))
    assert message.startswith(f"{path}, data_batch_1: cannot be read from the archive, which unpacks to more than ")
    assert peak < BOMB / 4


def test_links_in_an_archive_are_not_followed(tmp_path: Path, tiny_cifar: dict[str, dict[str, bytes]]) -> None:
    path = tmp_path / "cifar-10-python.tar.gz"
    secret = tmp_path / "secret"
    secret.write_bytes(tiny_cifar["official"]["data_batch_1"])
    with tarfile.open(path, "w:gz") as tar:
        for batch, content in tiny_cifar["official"].items():
            member = tarfile.TarInfo(batch)
            if batch == "data_batch_1":
                member.type, member.linkname = tarfile.SYMTYPE, str(secret)
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    with pytest.raises(DataError, match=r"data_batch_1: is not in the archive; run"):
        Cifar10().load(tmp_path)


# ---- digits


def test_digits_are_scikit_learns(tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    data = Digits("unit").load(tmp_path / "needs no folder")
    assert data.variant == "official"
    together = torch.cat([data.train_x, data.test_x])
    assert together.shape == (1797, 1, 8, 8) and len(data.test_y) == 360
    np.testing.assert_array_equal(together.reshape(-1, 64).numpy() * 16, x)
    assert torch.cat([data.train_y, data.test_y]).tolist() == y.tolist()


@pytest.mark.parametrize("name", ["digits", "rotated_digits", "linear_mixture", "mean_mixture"])
def test_the_contract_of_data_sets_without_files(name: str, tmp_path: Path) -> None:
    drawn = [] if name == "digits" else ["num_clients=12", "seed=0"]
    check_dataset(build("dataset", name, *drawn), tmp_path)


def test_the_contract_of_data_sets_with_files(tmp_path: Path, tiny_mnist: dict[str, bytes]) -> None:
    for name, content in tiny_mnist.items():
        (tmp_path / name).write_bytes(content)
    check_dataset(Mnist(), tmp_path)
    with pytest.raises(AssertionError, match=r"^Mnist: "):
        check_dataset(Mnist(), tmp_path / "nowhere")


def test_missing_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layouts = (replace(Digits.source.layouts[0], path="nowhere"),)
    monkeypatch.setattr(Digits, "source", replace(Digits.source, layouts=layouts))
    with pytest.raises(DataError, match=r"no digits in .*; reinstall robustfl-bench, which brings it$"):
        Digits().load(tmp_path)


def test_digits_are_the_same_bytes_everywhere(tmp_path: Path) -> None:
    assert Digits().load(tmp_path).digest == "bd5b1a8f2f3da73c09fce42b2df0bce9b82d0531343b6f411fcf3c18f6f22a85"
    assert Digits("unit").load(tmp_path).digest.startswith("49f06409008c")


def test_digits_need_no_other_package(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None; from pathlib import Path;"
        "from robustfl_bench.parts.datasets.digits import Digits; print(len(Digits().load(Path('.')).train_y))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "1437\n", done.stderr


def test_digits_standardised(tmp_path: Path) -> None:
    data = Digits().load(tmp_path)
    assert abs(data.train_x.mean()) < 1e-5
    assert abs(data.train_x.std(correction=0) - 1) < 1e-5


# ---- what was read


def test_the_digest_changes_with_the_data_and_with_nothing_else(tmp_path: Path, tiny_mnist: dict[str, bytes]) -> None:
    write(tmp_path / "mnist", tiny_mnist)
    data = Mnist().load(tmp_path)
    assert len(data.digest) == 64 and data.digest is data.digest, "computed once"
    write(tmp_path / "MNIST" / "raw", tiny_mnist, ".xz")
    assert Mnist().load(tmp_path).digest == data.to(CPU).digest == data.digest
    same = (replace(data, vectors=torch.ones(2, 3)), replace(data, train_x=data.train_x.mT.contiguous().mT))
    assert {other.digest for other in same} == {data.digest}
    labels = data.train_y.clone()
    labels[0] += 1
    others = [
        Mnist("unit").load(tmp_path),
        replace(data, train_y=labels),
        replace(data, train_x=data.train_x.flip(0)),
        replace(data, test_x=data.test_x.view(2, 1, 56, 14)),
        replace(data, owners=torch.zeros(6)),
        replace(data, clusters=torch.zeros(6)),
        replace(data, train_x=data.train_x.double()),
        data,
    ]
    assert len({other.digest for other in others}) == len(others)


def test_the_origin_tells_a_subset_from_the_whole(tmp_path: Path, tiny_mnist: dict[str, bytes]) -> None:
    write(tmp_path / "mnist", tiny_mnist)
    data = Mnist().load(tmp_path)
    assert data.origin == {"variant": "official", "train_samples": 6, "test_samples": 2, "digest": data.digest}
    subset = replace(data, train_x=data.train_x[:4], train_y=data.train_y[:4], variant="subset")
    assert subset.origin["digest"] != data.digest and subset.origin["train_samples"] == 4


# ---- loading, once per process


def test_load_keeps_the_tensors(tmp_path: Path, tiny_mnist: dict[str, bytes]) -> None:
    folder = str(tmp_path)
    with pytest.raises(DataError):
        load(Mnist(), folder, CPU)
    write(tmp_path / "mnist", tiny_mnist)  # the failure was not kept
    data = load(Mnist(), folder, CPU)
    assert load(Mnist(), folder, CPU) is data
    assert load(Mnist("unit"), folder, CPU) is not data
    assert isinstance(data, Data)


def test_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROBUSTFL_DATA", raising=False)
    assert find_folder(None).name == "robustfl_bench"
    monkeypatch.setenv("ROBUSTFL_DATA", str(tmp_path / "env"))
    assert find_folder(None) == tmp_path / "env"
    assert find_folder(str(tmp_path / "argument")) == tmp_path / "argument"
    monkeypatch.chdir(tmp_path)
    assert find_folder("here") == tmp_path / "here"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_folder("~/data") == tmp_path / "data"


def test_configs_name_every_field() -> None:
    configs = sorted(CONF.glob("*.yaml"))
    assert {"cifar10", "digits", "fashion_mnist", "mnist"} <= {path.stem for path in configs}
    for path in configs:
        options = yaml.safe_load(path.read_text())
        if "seed" in options or path.stem == "arrays":  # see test_mixtures.py and test_arrays_as_data.py
            continue
        module, _, name = options.pop("_target_").rpartition(".")
        dataset_class = getattr(importlib.import_module(module), name)
        assert set(options) == {field.name for field in fields(dataset_class)}
        dataset = dataset_class(**{key: value for key, value in options.items() if value != "${num_clients}"})
        assert dataset == dataset_class()
        assert isinstance(dataset, Dataset) and dataset.name == path.stem


def test_listing_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        f"import sys; from robustfl_bench.commands.data import main; sys.stdout = sys.stderr; "
        f"code = main(['list', '--data-dir', {str(tmp_path)!r}]); sys.stdout = sys.__stdout__; "
        "print(code, {'torch', 'sklearn', 'pooch', 'requests'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0 set()\n", f"imports at the top of a data set's module: {done.stdout} {done.stderr}"


# ---- the real files


def real(dataset: Mnist | FashionMnist | Cifar10 | Cifar100) -> Data:
    folder = os.environ.get("ROBUSTFL_DATA")
    if not folder:
        pytest.skip("set ROBUSTFL_DATA to a data folder to test on the real files")
    if find(dataset.source, Path(folder)) is None:
        pytest.skip(f"no {dataset.name} in ROBUSTFL_DATA={folder}")
    return dataset.load(Path(folder))


def test_real_mnist() -> None:
    data = real(Mnist("unit"))
    assert data.train_x.shape == (60_000, 1, 28, 28) and data.test_x.shape == (10_000, 1, 28, 28)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert data.train_y.bincount().tolist() == counts
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert data.test_y.bincount().tolist() == counts == list(TEST_SAMPLES["Mnist"])
    assert round(data.train_x.double().mean().item(), 4) == 0.1307
    assert round(data.train_x.double().std().item(), 4) == 0.3081


def test_real_fashion_mnist() -> None:
    data = real(FashionMnist("unit"))
    assert data.train_x.shape == (60_000, 1, 28, 28)
    assert data.train_y.bincount().tolist() == [6000] * 10
    assert data.test_y.bincount().tolist() == list(TEST_SAMPLES["FashionMnist"]) == [1000] * 10
    assert round(data.train_x.double().mean().item(), 4) == 0.2860
    assert round(data.train_x.double().std().item(), 4) == 0.3530


@pytest.mark.slow
def test_real_cifar10() -> None:
    data = real(Cifar10())
    assert data.train_x.shape == (50_000, 3, 32, 32) and data.test_x.shape == (10_000, 3, 32, 32)
    assert data.train_y.bincount().tolist() == [5000] * 10
    assert data.test_y.bincount().tolist() == list(TEST_SAMPLES["Cifar10"]) == [1000] * 10
    assert data.train_y[:8].tolist() == [6, 9, 9, 4, 1, 1, 2, 7] and data.test_y[:8].tolist() == [
        3,
        8,
        8,
        0,
        6,
        6,
        1,
        6,
    ]
    assert data.train_x.mean((0, 2, 3)).abs().max() < 1e-3
    assert (data.train_x.std((0, 2, 3)) - 1).abs().max() < 1e-3
    assert data.variant in ("official", "rebuilt, 98 of 60,000 images from JPEG")


def test_real_cifar100() -> None:
    data = real(Cifar100("unit"))
    official = data.variant == "official"
    assert official or data.variant == SUBSET
    train, test = (500, 100) if official else (8, 2)
    assert data.train_y.bincount().tolist() == [train] * 100 and data.test_y.bincount().tolist() == [test] * 100
    assert (data.train_x.mean((0, 2, 3)) - torch.tensor([0.5071, 0.4865, 0.4409])).abs().max() < 0.02
