"""Readers of the user's own data files. None executes what a file holds, and each bounds what it takes in memory."""

import csv
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from robustfl_bench.base.console import note
from robustfl_bench.base.errors import DataError, near, one_line
from robustfl_bench.base.regular import digest_of, state_of
from robustfl_bench.parts.datasets.files import RATIO, SLACK

MOST = 1 << 33
"""Bytes of samples that are read at most."""
MOST_PIXELS = 1 << 24
"""Pixels of an image at most."""
IMAGES = (".png", ".jpg", ".jpeg", ".bmp")
LABELS = ("label", "class", "target", "y")
"""Columns of a table that hold labels, in any case of letters, the first that exists."""
PAIRS = (("x_train", "y_train", "x_test", "y_test"), ("train_x", "train_y", "test_x", "test_y"))
MISSING = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null")
"""Words for a missing value in columns of labels and clients, of those that pandas reads so."""
CHANNELS = (1, 3, 4)
MEND = "fill it, or leave the sample out"


@dataclass(frozen=True)
class Own:
    """Samples ``x`` (N, ...), the numbers ``y`` (N,) of their ``classes``, and which are for testing, None if the files
    do not say. ``are_pixels``: samples are images with values from 0 to ``top``. ``owners`` (N,): the number of each
    sample's client among the ``names``; None, and no names, if they are not asked for."""

    x: np.ndarray
    y: np.ndarray
    classes: Sequence[object]
    is_test: np.ndarray | None
    are_pixels: bool
    top: float
    owners: np.ndarray | None
    names: Sequence[object]


def read(path: str, digest: str | None, label: str | None, client: str | None) -> Own:
    """The data in a file or folder, read once for each of its states. Raises DataError."""
    place = Path(path).expanduser()
    state = state_of(place)
    if not state and place.is_dir():
        raise DataError(f"{path}: the folder is empty; put a sub-folder of images for each class into it")
    if not state:
        raise DataError(f"{path}: there is no such data file or folder of images; set dataset.path")
    if digest not in (None, found := digest_of(place)):
        raise DataError(f"{path} has SHA-256 {str(found)[:12]}..., but the run is of {str(digest)[:12]}...; restore it")
    return _read(place, state, label, client)


_NO_TEXT = "it is no text in UTF-8: save it as UTF-8, with values separated by commas"
_PROBLEMS = (ValueError, OverflowError, OSError, EOFError, MemoryError, csv.Error, zipfile.BadZipFile, zlib.error)


@lru_cache(maxsize=2)
def _read(path: Path, state: object, label: str | None, client: str | None) -> Own:
    try:
        if path.is_file() and path.stat().st_size > MOST:
            raise ValueError(f"it has more than {MOST} bytes")
        if path.is_dir():
            if client is not None:
                raise ValueError("a folder of images does not say whose they are; leave dataset.client out")
            return _checked(*_folder(path))
        if path.suffix.lower() == ".npz":
            return _checked(*_npz(path, client))
        if path.suffix.lower() == ".csv":
            return _checked(*_table(path, label, client))
        raise ValueError("its name must end in .npz or .csv, or it must be a folder of images")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} cannot be used as data: {_NO_TEXT}") from error
    except _PROBLEMS as error:
        reason = one_line(error) or type(error).__name__
        raise DataError(f"{path} cannot be used as data: {reason}") from error


def not_finite(path: Path) -> str:
    """Where a file has its first number that is not finite in float32, and what to do about it."""
    place = _in_arrays(path) if path.suffix.lower() == ".npz" else _in_table(path)
    if place is None:
        return f"those in {path} are, but overflow when they are standardized: divide them by a power of ten"
    return f"{path}: {place}; {MEND}"


def _in_arrays(path: Path) -> str | None:
    with np.load(path, allow_pickle=False) as arrays:
        return next(filter(None, (first_not_finite(name, arrays[name]) for name in arrays.files)), None)


def _in_table(path: Path) -> str | None:
    names: Sequence[str] = ()
    with open(path, newline="", encoding="utf-8-sig") as file:
        for row in (reader := csv.reader(file)):
            names = names or row
            for number, (name, word) in enumerate(zip(names, row, strict=False), 1):
                if _is_number(word) and first_not_finite("", float(word)):
                    called = "" if _is_number(name) else f" ({name.strip()})"
                    return f"line {reader.line_num}, column {number}{called} is {word.strip()}"
    return None


def first_not_finite(name: str, array: object) -> str | None:
    """The first number of an array that is not finite in float32, ``x[17, 3] is nan``; None if there is none."""
    values = np.asarray(array)
    if values.dtype.kind != "f":
        return None
    with np.errstate(over="ignore"):
        is_finite = np.isfinite(values.astype(np.float32, copy=False))
    if is_finite.all():
        return None
    place = tuple(map(int, np.unravel_index(is_finite.argmin(), values.shape)))
    return f"{name}{list(place)} is {values[place]}"


Read = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]
"""Samples, labels, which are for testing, and the names of their clients."""


def _checked(x: np.ndarray, y: np.ndarray, is_test: np.ndarray | None, clients: np.ndarray | None) -> Own:
    """The data in the layout of the package. Raises ValueError for what cannot be samples and labels."""
    if x.dtype.kind not in "fiub":
        raise ValueError(f"samples must be numbers, got {x.dtype}")
    if x.ndim not in (2, 3, 4) or not x.size:
        raise ValueError(f"samples must be (N, d), or images (N, H, W) or (N, C, H, W), got {x.shape}")
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.shape != (len(x),):
        raise ValueError(f"{len(x)} samples need as many labels (N,), got {y.shape}")
    if y.dtype.kind not in "fiubUS":
        raise ValueError(f"labels must be numbers or words, got {y.dtype}")
    if y.dtype.kind == "f" and (is_broken := y != np.round(y)).any():
        place = is_broken.argmax()
        raise ValueError(
            f"labels must be classes, whole numbers or words: that of sample {place} (from 0) is {y[place]}"
        )
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[3] in CHANNELS and x.shape[1] not in CHANNELS:
        x = x.transpose(0, 3, 1, 2)
    classes, numbers = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"there must be two classes or more, got {len(classes)}")
    if is_test is not None and (is_test.all() or not is_test.any()):
        raise ValueError(f"it has no {'training' if is_test.all() else 'test'} samples")
    if is_test is not None and len(unknown := np.setdiff1d(y[is_test], y[~is_test])):
        more = f" (nor {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        note(f"no training sample has the label {unknown[0]}{more}, which test samples have")
    if len(classes) > max(10, len(x) / 2):
        note(f"the labels are {len(classes)} classes in {len(x)} samples: is dataset.label another column?")
    if clients is not None and (clients.shape != (len(x),) or clients.dtype.kind not in "fiubUS"):
        raise ValueError(f"clients must be the names or numbers of {len(x)} samples, got {clients.shape}")
    for what, values in (("label", y), *(() if clients is None else [("client", clients)])):
        is_missing = ~np.isfinite(values) if values.dtype.kind == "f" else values == values.dtype.type()
        if what == "client" and is_test is not None:
            is_missing &= ~is_test  # test samples need none
        if values.dtype.kind in "fUS" and is_missing.any():
            raise ValueError(f"sample {is_missing.argmax()} (from 0) has no {what}: {MEND}")
    names, owners = (np.empty(0), None) if clients is None else np.unique(clients, return_inverse=True)
    unit = x.ndim == 4 and x.dtype.kind == "f" and x.min() >= 0 and x.max() <= 1
    bytes_ = x.ndim == 4 and x.dtype == np.uint8
    top = 255.0 if bytes_ else 1.0
    return Own(x, numbers, classes.tolist(), is_test, unit or bytes_, top, owners, names.tolist())


def _npz(path: Path, client: str | None) -> Read:
    try:
        return _arrays(path, client)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        reason = one_line(error) or type(error).__name__
        raise ValueError(f"it is damaged or no .npz ({reason}): write it again with numpy.savez") from error


def _arrays(path: Path, client: str | None) -> Read:
    with zipfile.ZipFile(path) as archive:
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    if sum(sizes.values()) > min(MOST, max(RATIO * path.stat().st_size, SLACK)):
        raise ValueError(f"it unpacks to {sum(sizes.values())} bytes: too much for its size, or more than {MOST}")
    names = [name.removesuffix(".npy") for name in sizes]
    if client is not None and client not in names:
        raise ValueError(f"no array {client!r}{near(client, names)}; there are {', '.join(names[:8])}")
    with np.load(path, allow_pickle=False) as arrays:
        clients = None if client is None else arrays[client]
        for pair in PAIRS:
            if set(pair) <= set(names):
                given = train_x, train_y, test_x, test_y = [arrays[name] for name in pair]
                for name, train, other, test in zip(pair, given, pair[2:], given[2:], strict=False):
                    if not train.ndim or test.ndim != train.ndim or test.shape[1:] != train.shape[1:]:
                        raise ValueError(f"{other} must be as wide as {name}, {train.shape}, got {test.shape}")
                is_test = np.repeat([False, True], [len(train_x), len(test_x)])
                if clients is not None and clients.shape == (len(train_x),):  # test samples need none
                    clients = np.concatenate([clients, np.repeat(clients[:1], len(test_x))])
                return np.concatenate([train_x, test_x]), np.concatenate([train_y, test_y]), is_test, clients
        for x, y in (("x", "y"), ("X", "y")):
            if {x, y} <= set(names):
                return arrays[x], arrays[y], None, clients
    raise ValueError(
        f"it must have arrays x and y, or {', '.join(PAIRS[0])}; it has {', '.join(names[:8]) or 'no arrays'}"
    )


def _table(path: Path, label: str | None, client: str | None) -> Read:
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        numbered = [(reader.line_num, row) for row in reader if row]
    rows = [row for _, row in numbered]
    if not rows:
        raise ValueError("it is empty")
    if any("\0" in word for word in rows[0]):
        raise ValueError(_NO_TEXT)
    if len(rows[0]) == 1 and any(mark in rows[0][0].strip() for mark in ";\t"):
        raise ValueError(f"its values must be separated by commas, but its first line is {rows[0][0][:40]!r}")
    named = _is_header(rows[0], rows[1:], label, client)
    header = [word.strip() for word in rows.pop(0)] if named else [str(number) for number in range(len(rows[0]))]
    if "" in header:
        raise ValueError(f"column {1 + header.index('')} has no name: pandas writes its index so, unless index=False")
    if odd := next(((line, len(row)) for line, row in numbered if len(row) != len(header)), None):
        raise ValueError(f"line {odd[0]} has {odd[1]} values, the first one {len(header)}")
    if twice := next((name for place, name in enumerate(header) if name in header[:place]), None):
        raise ValueError(f"two columns are named {twice}: rename one")
    if not rows:
        raise ValueError("it has names of columns and no samples")
    for asked in (label, client):
        if asked is not None and asked not in header:
            raise ValueError(f"no column {asked!r}{near(asked, header)}; there are {', '.join(header[:8])}")
    said = next((name for name in header if named and name.lower() == "split"), None)
    others = [name for name in header if name not in (client, said)] or header
    chosen = label or label_of(others, note if named else None)
    if chosen == client:
        raise ValueError(f"the column {client} cannot be the label and the client")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    split = None if said is None or said in (chosen, client) else columns.pop(said)
    if split is not None and (other := {word.strip() for word in split} - {"train", "test"}):
        raise ValueError(f"the column {said} must be train or test, got {min(other)!r}")
    labels = _classes(columns.pop(chosen))
    clients = None if client is None else _names(columns.pop(client))
    if not columns:
        raise ValueError(f"it has no columns of numbers beside {chosen}")
    return (
        np.column_stack([_numbers(name, words) for name, words in columns.items()]),
        labels,
        None if split is None else np.array([word.strip() == "test" for word in split]),
        clients,
    )


def label_of(columns: Sequence[str], tell: Callable[[str], None] | None, known: Sequence[str] = LABELS) -> str:
    """The column of the labels if dataset.label is not given: one of the ``known`` names, in any case of letters, else
    the last one, which is told."""
    for name in known:
        if same := [column for column in columns if column.lower() == name]:
            return name if name in same else same[0]
    if tell is not None:
        tell(f"dataset.label is not given: the last column, {columns[-1]}, is taken")
    return columns[-1]


def _classes(words: Sequence[str]) -> np.ndarray:
    """The values of a column of labels or clients: numbers if all are, else words, empty where one is missing."""
    stripped = ["" if word.strip() in MISSING else word.strip() for word in words]
    return np.array([float(word) for word in stripped] if all(map(_is_number, stripped)) else stripped)


def _names(words: Sequence[str]) -> np.ndarray:
    """The names of clients: numbers if all are, else words, also where two of them would be one number: 1 and 001."""
    values, stripped = _classes(words), [word.strip() for word in words]
    return values if len(np.unique(values)) == len(set(stripped)) else np.array(stripped)


def _is_header(first: Sequence[str], others: Sequence[Sequence[str]], label: str | None, client: str | None) -> bool:
    """Whether the first line of a table names its columns: it has no number, or, where columns are numbered, the name
    of the label, the client or the split in a column that does not have it again."""
    names = {*LABELS, "split", label, client}
    return not any(map(_is_number, first)) or any(
        names & {word.strip(), word.strip().lower()} and all(word not in row[place : place + 1] for row in others)
        for place, word in enumerate(first) if not _is_number(word)
    )  # fmt: skip


def _numbers(name: str, words: Sequence[str]) -> np.ndarray:
    try:
        if any("_" in word for word in words):  # 1_18 is a name, and a number to Python
            raise ValueError
        return np.array(words, dtype=np.float64)
    except ValueError:
        wrong = next(word for word in words if not _is_number(word))
        raise ValueError(f"column {name} has {_no_number(wrong, words.index(wrong))}") from None


def _no_number(word: str, sample: int) -> str:
    """Words for a value of a table that is none of its samples' numbers."""
    if not word.strip():
        return f"no number for sample {sample} (from 0): {MEND}"
    return (
        f"{word[:20]!r}, which is no number: is it dataset.label, or dataset.client? pandas.get_dummies makes numbers "
        f"of words (sample {sample}, from 0)"
    )


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word


def _folder(path: Path) -> Read:
    """The images in ``CLASS/*``, or in ``train/CLASS/*`` and ``test/CLASS/*``."""
    has_parts = all((path / part).is_dir() for part in ("train", "test"))
    found = [(file, file.parent.name, part == "test") for part in (("train", "test") if has_parts else ("",))
             for file in sorted((path / part).glob("*/*")) if file.suffix.lower() in IMAGES]  # fmt: skip
    if not found:
        raise ValueError(f"it has no sub-folders, one for each class, with images ({', '.join(IMAGES)})")
    x = np.stack(list(_images([file for file, _, _ in found])))
    return (
        x,
        np.array([name for _, name, _ in found]),
        np.array([is_test for _, _, is_test in found]) if has_parts else None,
        None,
    )


def _images(files: Sequence[Path]) -> Iterator[np.ndarray]:
    """The pixels (C, H, W) of each image: one channel if all are grey, else three."""
    from PIL import Image, UnidentifiedImageError

    size, grey = None, True
    for file in files:
        try:
            with Image.open(file) as image:
                size, grey = size or image.size, grey and image.mode in ("1", "L")
                if image.size != size:
                    raise ValueError(f"{file.name} has {image.size} pixels, others {size}: make them one size")
        except UnidentifiedImageError:
            raise ValueError(f"{file.name} is no image") from None
    width, height = size or (0, 0)
    if width * height > MOST_PIXELS or len(files) * width * height * (1 if grey else 3) > MOST:
        raise ValueError(f"{len(files)} images of {width} x {height} pixels are too large")
    for file in files:
        with Image.open(file) as image:
            pixels = np.asarray(image.convert("L" if grey else "RGB"), dtype=np.uint8)
        yield pixels[None] if grey else pixels.transpose(2, 0, 1)
