"""The files of a data set: where they may lie, how to unpack them, and how to know that they are right."""

import gzip
import hashlib
import lzma
import os
import shlex
import tarfile
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from robustfl_bench.datasets.download import Download
from robustfl_bench.errors import DataError

UNPACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, "": bytes, ".xz": lzma.decompress}
PARTS = ("train", "test")
UNKNOWN = "own preprocessing, no checksum is published"
UNPACK_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError)


@dataclass(frozen=True)
class File:
    """A file of a data set, known by its unpacked content; on disk it may be plain, ``.gz`` or ``.xz``.

    ``known`` maps checksums, such as ``md5:<hex>``, to the variant that has them, the official one first; empty where
    everybody makes the file anew. ``size`` in bytes, where all variants agree on it, tells a truncated file from
    another one.
    """

    name: str
    known: Mapping[str, str]
    size: int | None = None

    def variant(self, content: bytes) -> str:
        """Which variant ``content`` is; raises DataError, saying what was expected, when it is none."""
        if self.size not in (None, len(content)):
            raise DataError(f"holds {len(content)} bytes, expected {self.size}: truncated, or another file")
        for checksum, variant in self.known.items():
            algorithm, _, digest = checksum.partition(":")
            if hashlib.new(algorithm, content, usedforsecurity=False).hexdigest() == digest:
                return variant
        if not self.known:
            return UNKNOWN
        expected = next(iter(self.known))
        raise DataError(f"content of {len(content)} bytes is not the expected {expected}: damaged, or another file")


@dataclass(frozen=True)
class Layout:
    """One way in which the files may lie in a data folder: inside ``path``, a sub-folder or a ``.tar.gz``."""

    path: str
    files: tuple[File, ...]

    @property
    def is_archive(self) -> bool:
        return self.path.endswith(".tar.gz")


@dataclass(frozen=True)
class Source:
    """All that is known about a data set's files before any is read.

    ``layouts`` are in order of preference; the first is what ``downloads`` (into the sub-folder ``name``) make.
    ``leaf`` are folders whose ``train/*.json`` and ``test/*.json``, whatever their names, are the files: what LEAF's
    preprocessing writes. ``package`` is the Python package that carries the files, where there is one and nothing to
    download; ``recipe`` is how to make them, where nobody publishes them. ``base`` is a data set that this one adds to.
    """

    name: str
    layouts: tuple[Layout, ...]
    downloads: tuple[Download, ...]
    num_train: int | None
    num_test: int | None
    licence: str
    leaf: tuple[str, ...] = ()
    package: str | None = None
    recipe: str | None = None
    base: "Source | None" = None

    def remedy(self, root: Path) -> str:
        """What to do about a missing or damaged file."""
        if self.package:
            return f"reinstall {self.package}, which carries it"
        if self.recipe:
            return self.recipe
        return f"run `robustfl-data prepare {self.name} --data-dir {shlex.quote(str(root))}`"


@dataclass(frozen=True)
class Checked:
    """A file that was looked at: its place, content and variant, or else the ``problem`` with it."""

    path: str
    name: str
    content: bytes = b""
    variant: str = ""
    problem: str = ""


def find(source: Source, root: Path) -> Layout | None:
    """The first layout that is complete under ``root``, else the first that is there in part, else None."""

    def share(layout: Layout) -> float:
        if layout.is_archive:
            return float(os.path.isfile(root / layout.path))
        return sum(_path(root / layout.path, file) is not None for file in layout.files) / len(layout.files)

    layouts = [*(layout for folder in source.leaf if (layout := _leaf(root, folder))), *source.layouts]
    shares = [share(layout) for layout in layouts]
    if 1.0 in shares:
        return layouts[shares.index(1.0)]
    return next((layout for layout, share in zip(layouts, shares, strict=True) if share > 0), None)


def check(source: Source, root: Path) -> list[Checked]:
    """Read and check every file of the data set, in the order of its layout; raises DataError when none is there."""
    layout = find(source, root)
    if layout is None:
        places = ", ".join(
            [*(f"{folder}/train and /test" for folder in source.leaf), *(x.path for x in source.layouts)]
        )
        hint = " or point data_dir (or ROBUSTFL_DATA) to its files" if source.package is None else ""
        raise DataError(f"no {source.name} in {root} (looked for {places}); {source.remedy(root)}{hint}")
    if layout.is_archive:
        return _check_archive(root / layout.path, layout.files)
    with ThreadPoolExecutor() as pool:  # unpacking and hashing run outside of Python's lock
        return list(pool.map(lambda file: _check_file(root / layout.path, file), layout.files))


def read(source: Source, root: Path) -> tuple[list[Checked], str]:
    """The checked files, and the variant found ("official", ...); raises DataError for the first bad file."""
    checked = check(source, root)
    for file in checked:
        if file.problem:
            raise DataError(f"{file.path}: {file.problem}; {source.remedy(root)}")
    return checked, " and ".join(dict.fromkeys(file.variant for file in checked))


def _leaf(root: Path, folder: str) -> Layout | None:
    """The JSON files, packed or not, in both parts of a folder; None unless both have some."""
    parts = [sorted({path.name.split(".json")[0] for path in (root / folder / part).glob("*.json*")}) for part in PARTS]
    files = [File(f"{part}/{name}.json", {}) for part, names in zip(PARTS, parts, strict=True) for name in names]
    return Layout(folder, tuple(files)) if all(parts) else None


def _path(folder: Path, file: File) -> Path | None:
    candidates = (folder / (file.name + suffix) for suffix in UNPACK)
    return next((path for path in candidates if os.path.isfile(path)), None)  # False where we may not look


def _check_file(folder: Path, file: File) -> Checked:
    path = _path(folder, file)
    if path is None:
        return Checked(str(folder / file.name), file.name, problem="is missing, also as .gz and .xz")
    try:
        content = UNPACK[path.name.removeprefix(PurePosixPath(file.name).name)](path.read_bytes())
        return Checked(str(path), file.name, content, file.variant(content))
    except UNPACK_ERRORS as error:
        return Checked(str(path), file.name, problem=f"cannot be read: truncated or damaged? ({error})")
    except DataError as error:
        return Checked(str(path), file.name, problem=str(error))


def _check_archive(path: Path, files: tuple[File, ...]) -> list[Checked]:
    """Members are found by their last name and read in memory in one pass: nothing is written to disk."""
    names = {file.name for file in files}
    contents = {}
    problem = "is not in the archive"
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                name = PurePosixPath(member.name).name
                stream = archive.extractfile(member) if name in names else None
                if stream is not None:
                    contents[name] = stream.read()
    except UNPACK_ERRORS as error:
        problem = f"cannot be read from the archive: truncated or damaged? ({error})"

    def checked(file: File) -> Checked:
        place = f"{path}, {file.name}"
        if file.name not in contents:
            return Checked(place, file.name, problem=problem)
        try:
            return Checked(place, file.name, contents[file.name], file.variant(contents[file.name]))
        except DataError as error:
            return Checked(place, file.name, problem=str(error))

    return [checked(file) for file in files]
