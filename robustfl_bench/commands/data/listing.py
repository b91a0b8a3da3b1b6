"""``robustfl-data list``: the data sets, their shapes and licences, and the state of their files."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from robustfl_bench.base.answers import add_format, as_json
from robustfl_bench.base.console import Parser
from robustfl_bench.base.errors import DataError
from robustfl_bench.commands.data import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.parts.datasets import find_folder, leaf
from robustfl_bench.parts.datasets.base import Dataset
from robustfl_bench.parts.datasets.files import UNKNOWN, CheckedFile, Source, find, read
from robustfl_bench.runner.config import data_sets

HEADINGS = ("name", "shape", "classes", "train", "test", "state", "licence", "variant", "files")


def _add(parser: Parser) -> None:
    shared.add_folders(parser)
    add_format(parser)


def _run(arguments: Namespace) -> None:
    root, config_dir = find_folder(arguments.data_dir), arguments.config_dir
    rows: list[tuple[str, ...]] = [HEADINGS]
    for name in data_sets.names(config_dir):
        dataset = data_sets.build(name, config_dir)
        try:
            shape, classes = "x".join(map(str, dataset.input_shape)), str(dataset.num_classes)
        except DataError as error:  # of a data set whose files say it
            rows.append((name, "-", "-", *_missing(error)))
            continue
        described = shared.sources(dataset)
        cells = _of_files(described, root) if described else _of_loaded(dataset, root)
        rows.append((name, shape, classes, *cells))
    if arguments.format == "json":
        print(as_json([dict(zip(HEADINGS, row, strict=True)) for row in rows[1:]]), end="")
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _of_files(described: Sequence[Source], root: Path) -> tuple[str, ...]:
    """The cells from ``train`` on of a data set with known files: each is read and compared with its checksum."""
    own = described[-1]
    if own.is_drawn:
        return "-", "-", "ready", own.licence, "generated", "-"
    layouts = [find(source, root) for source in described]
    if None in layouts:
        return "-", "-", "missing", own.licence, "-", f"not in {root}"
    try:
        checked = [read(source, root) for source in described]
        files, variant = checked[-1]
        train, test = own.samples(files) or _counted(files) or ("-", "-")
    except DataError as error:
        return "-", "-", "damaged", own.licence, "-", _line(error)
    assert layouts[-1] is not None
    return str(train), str(test), "ready", own.licence, variant, str(root / layouts[-1].path)


def _counted(files: Sequence[CheckedFile]) -> tuple[int, int] | None:
    """The samples in LEAF's files; None for texts, which are cut into samples when they are loaded."""
    if any(file.variant != UNKNOWN or "/" not in file.name for file in files):
        return None
    train, test = (leaf.users(file for file in files if file.name.startswith(part)) for part in ("train/", "test/"))
    return leaf.count(train), leaf.count(test)


def _of_loaded(dataset: Dataset, root: Path) -> tuple[str, ...]:
    """The same cells for a data set that does not describe its files: it is loaded."""
    try:
        data = shared.loaded(dataset, root)
    except DataError as error:
        return _missing(error)
    return str(len(data.train_y)), str(len(data.test_y)), "ready", "?", data.variant, f"in {root}"


def _missing(error: DataError) -> tuple[str, ...]:
    return "-", "-", "missing", "?", "-", _line(error)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


VERB = Verb("list", "the data sets, and the state of their files", _add, _run)
