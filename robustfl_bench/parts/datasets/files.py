"""The files of a data set: the places they may lie in, how to unpack them, and the checksums of the right ones."""

import gzip
import hashlib
import lzma
import os
import shlex
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

from robustfl_bench.base.errors import DataError
from robustfl_bench.parts.datasets.download import Download

OPEN: dict[str, Callable[..., IO[bytes]]] = {".gz": gzip.open, "": open, ".xz": lzma.open}  # type: ignore[dict-item]
CHUNK = 1 << 20  # bytes unpacked at a time
RATIO, SLACK = 200, 1 << 24  # a file of unknown size may hold RATIO times its packed size, and SLACK bytes in any case
PARTS = ("train", "test")
UNKNOWN = "own preprocessing, no checksum is published"
UNPACK_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError)


@dataclass(frozen=True)
class File:
    """A file of a data set, known by its unpacked content; on disk it may be plain, ``.gz`` or ``.xz``.

    ``known`` maps the checksum of each variant, such as ``sha256:<hex>``, to its name, the official one first. It is
    empty for files that every user makes anew. ``size`` in bytes, given if it is the same for all variants, tells a
    truncated file from another file. ``at_most`` bounds the size of the variants otherwise.
    """

    name: str
    known: Mapping[str, str]
    size: int | None = None
    at_most: int | None = None

    def limit(self, packed: int) -> int:
        """The most bytes to unpack from a file of ``packed`` bytes: more cannot be right and would fill the memory."""
        return self.size or self.at_most or max(RATIO * packed, SLACK)

    def variant(self, content: bytes) -> str:
        """The name of the variant with this content; raises DataError with the expected checksum if there is none."""
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
    """One arrangement of the files in a data folder: inside ``path``, which is a sub-folder or a ``.tar.gz``."""

    path: str
    files: tuple[File, ...]

    @property
    def is_archive(self) -> bool:
        return self.path.endswith(".tar.gz")


@dataclass(frozen=True)
class Source:
    """The description of a data set's files, known before any is read.

    ``layouts`` are in order of preference; ``downloads`` go to the sub-folder ``name`` and make the first layout.
    ``sizes`` maps a variant to its numbers of training and test samples, all of which are loaded unless there is a
    ``base``: a data set that this one adds to. ``leaf`` are folders in which LEAF's preprocessing has written
    ``train/*.json`` and ``test/*.json``, under any names. ``bundled`` files come with this package. ``recipe`` says how
    to make files that nobody publishes.
    """

    name: str
    layouts: tuple[Layout, ...]
    licence: str
    downloads: tuple[Download, ...] = ()
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    leaf: tuple[str, ...] = ()
    bundled: bool = False
    recipe: str | None = None
    base: "Source | None" = None

    @property
    def is_drawn(self) -> bool:
        """Whether the data are drawn at random, so that there are no files."""
        return not self.layouts and not self.leaf

    def samples(self, files: "Sequence[CheckedFile]") -> tuple[int, int] | None:
        """The numbers of training and test samples in checked files, by their variants; None if not known."""
        first, last = (self.sizes.get(file.variant) for file in (files[0], files[-1]))
        return (first[0], last[1]) if first and last else None

    def remedy(self, root: Path) -> str:
        """The advice for a missing or damaged file."""
        if self.bundled:
            return "reinstall robustfl-bench, which brings it"
        if self.recipe:
            return self.recipe
        return f"run `robustfl-data prepare {self.name} --data-dir {shlex.quote(str(root))}`"


@dataclass(frozen=True)
class CheckedFile:
    """A file after its check: its place, content and variant, or the ``problem`` with it."""

    path: str
    name: str
    content: bytes = b""
    variant: str = ""
    problem: str = ""


def find(source: Source, root: Path) -> Layout | None:
    """The first complete layout under ``root``, else the first of which some files exist, else None."""

    def share(layout: Layout) -> float:
        if layout.is_archive:
            return float(os.path.isfile(root / layout.path))
        return sum(_path(root / layout.path, file) is not None for file in layout.files) / len(layout.files)

    layouts = [*(layout for folder in source.leaf if (layout := _leaf(root, folder))), *source.layouts]
    shares = [share(layout) for layout in layouts]
    if 1.0 in shares:
        return layouts[shares.index(1.0)]
    return next((layout for layout, share in zip(layouts, shares, strict=True) if share > 0), None)


def marks(source: Source | None, root: Path) -> dict[str, list[int]]:
    """Size in bytes and time of change in nanoseconds of each file of the data set and of its base, by place.

    If these are equal at two times, the files have not changed in between. Opens no file. Leaves out those that are
    missing, and those that come with this package.
    """
    found: dict[str, list[int]] = {}
    while source is not None:
        layout = None if source.bundled else find(source, root)
        if layout is not None:
            place = root / layout.path
            paths = [place] if layout.is_archive else [path for file in layout.files if (path := _path(place, file))]
            states = {os.path.relpath(path, root): path.stat() for path in paths}
            found |= {name: [state.st_size, state.st_mtime_ns] for name, state in states.items()}
        source = source.base
    return found


def bytes_read(source: Source | None, root: Path) -> int:
    """Bytes that the content of the data set's own files takes, at least: their sizes on disk. Opens no file.

    0 of an archive, of which only some members are read, of files that are missing, and of those that come with this
    package.
    """
    layout = None if source is None or source.bundled else find(source, root)
    if layout is None or layout.is_archive:
        return 0
    return sum(path.stat().st_size for file in layout.files if (path := _path(root / layout.path, file)))


def check(source: Source, root: Path) -> list[CheckedFile]:
    """Read and check every file of the data set, in the order of its layout; raises DataError when none exists."""
    layout = find(source, root)
    if layout is None:
        places = [*(f"{folder}/train and /test" for folder in source.leaf), *(x.path for x in source.layouts)]
        looked = ", ".join(places[:3]) + (f" and {len(places) - 3} more" if len(places) > 3 else "")
        hint = "" if source.bundled else ", or set data_dir or ROBUSTFL_DATA to the folder of its files"
        raise DataError(f"no {source.name} in {root} (looked for {looked}); {source.remedy(root)}{hint}")
    if layout.is_archive:
        return _check_archive(root / layout.path, layout.files)
    with ThreadPoolExecutor() as pool:  # unpacking and hashing run outside of Python's lock
        return list(pool.map(lambda file: _check_file(root / layout.path, file), layout.files))


def read(source: Source, root: Path) -> tuple[list[CheckedFile], str]:
    """The checked files and their variant ("official", ...); raises DataError for the first bad file."""
    checked = check(source, root)
    for file in checked:
        if file.problem:
            raise DataError(f"{file.path}: {file.problem}; {source.remedy(root)}")
    return checked, " and ".join(dict.fromkeys(file.variant for file in checked))


def require(source: Source | None, root: Path) -> None:
    """Raise DataError if a file of the data set, or of its base, is missing. Opens none of those that exist."""
    while source is not None and not source.is_drawn:
        layout = find(source, root)
        if layout is None or not (layout.is_archive or all(_path(root / layout.path, file) for file in layout.files)):
            read(source, root)  # raises the DataError that names what is missing
        source = source.base


def _leaf(root: Path, folder: str) -> Layout | None:
    """The JSON files, packed or not, in the folders train and test; None unless both have some."""
    parts = [sorted({path.name.split(".json")[0] for path in (root / folder / part).glob("*.json*")}) for part in PARTS]
    files = [File(f"{part}/{name}.json", {}) for part, names in zip(PARTS, parts, strict=True) for name in names]
    return Layout(folder, tuple(files)) if all(parts) else None


def _path(folder: Path, file: File) -> Path | None:
    candidates = (folder / (file.name + suffix) for suffix in OPEN)
    return next((path for path in candidates if os.path.isfile(path)), None)  # False where we may not look


def _check_file(folder: Path, file: File) -> CheckedFile:
    path = _path(folder, file)
    if path is None:
        return CheckedFile(str(folder / file.name), file.name, problem="is missing, also as .gz and .xz")
    try:
        with OPEN[path.name.removeprefix(PurePosixPath(file.name).name)](path, "rb") as stream:
            content = _content(stream, file.limit(path.stat().st_size))
        return CheckedFile(str(path), file.name, content, file.variant(content))
    except UNPACK_ERRORS as error:
        return CheckedFile(str(path), file.name, problem=f"cannot be read: truncated or damaged? ({error})")
    except DataError as error:
        return CheckedFile(str(path), file.name, problem=str(error))


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes; none at the end."""


def _content(stream: Readable | IO[bytes], limit: int) -> bytes:
    """The whole stream; raises DataError once it has more than ``limit`` bytes, without reading on."""
    content = bytearray()
    while chunk := stream.read(min(CHUNK, limit + 1 - len(content))):
        content += chunk
        if len(content) > limit:
            raise DataError(f"unpacks to more than the expected {limit} bytes: another file")
    return bytes(content)


@dataclass
class Capped:
    """A stream that raises DataError after ``left`` bytes: also the headers of an archive can claim any size."""

    stream: Any
    left: int

    def read(self, size: int, /) -> bytes:
        """The next bytes."""
        chunk: bytes = self.stream.read(size)
        self.left -= len(chunk)
        if self.left < 0:
            raise DataError("unpacks to more than expected: another file")
        return chunk


def _check_archive(path: Path, files: tuple[File, ...]) -> list[CheckedFile]:
    """Members are found by the last part of their names and read into memory in one pass: none is written to disk."""
    wanted, contents = {file.name: file for file in files}, {}
    problem = "is not in the archive"
    try:
        packed = path.stat().st_size
        with gzip.open(path) as unpacked:
            capped: Any = Capped(unpacked, SLACK + sum(file.limit(packed) for file in files))
            with tarfile.open(fileobj=capped, mode="r|", bufsize=CHUNK) as archive:
                for member in archive:
                    name = PurePosixPath(member.name).name
                    stream = archive.extractfile(member) if name in wanted and member.isreg() else None
                    if stream is not None:
                        contents[name] = _content(stream, wanted[name].limit(packed))
    except UNPACK_ERRORS as error:
        problem = f"cannot be read from the archive: truncated or damaged? ({error})"
    except DataError as error:
        problem = f"cannot be read from the archive, which {error}"

    def checked(file: File) -> CheckedFile:
        place = f"{path}, {file.name}"
        if file.name not in contents:
            return CheckedFile(place, file.name, problem=problem)
        try:
            return CheckedFile(place, file.name, contents[file.name], file.variant(contents[file.name]))
        except DataError as error:
            return CheckedFile(place, file.name, problem=str(error))

    return [checked(file) for file in files]
