"""The command robustfl-data: list the data sets, prepare (download and check) them, verify their files."""

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from robustfl_bench.datasets import find_folder
from robustfl_bench.datasets.ag_news import AgNews
from robustfl_bench.datasets.cifar10 import Cifar10
from robustfl_bench.datasets.cifar100 import Cifar100
from robustfl_bench.datasets.digits import Digits
from robustfl_bench.datasets.download import fetch
from robustfl_bench.datasets.fashion_mnist import FashionMnist
from robustfl_bench.datasets.femnist import Femnist
from robustfl_bench.datasets.files import Source, check, find, read
from robustfl_bench.datasets.mnist import Mnist
from robustfl_bench.datasets.mnist_writers import MnistWriters
from robustfl_bench.datasets.shakespeare import Shakespeare, ShakespeareLeaf
from robustfl_bench.errors import DataError

Images = Digits | Mnist | FashionMnist | Cifar10 | Cifar100
Known = Images | AgNews | MnistWriters | Femnist | Shakespeare | ShakespeareLeaf
ALL: tuple[Known, ...] = (
    *(Digits(), Mnist(), FashionMnist(), Cifar10(), Cifar100(), AgNews()),
    *(MnistWriters(), Femnist(), Shakespeare(), ShakespeareLeaf()),
)
DATASETS = {dataset.name: dataset for dataset in ALL}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors take one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, 2 for bad arguments, 3 for missing or damaged data."""
    arguments = _parser().parse_args(argv)
    root = find_folder(arguments.data_dir)
    try:
        if arguments.command == "list":
            list_all(root)
            return 0
        command = prepare if arguments.command == "prepare" else verify
        failures = [_reported(command, DATASETS[name], root) for name in arguments.names]
        return 3 if any(failures) else 0
    except KeyboardInterrupt:
        print("robustfl-data: interrupted; run the same command again to continue", file=sys.stderr)
        return 130


def _reported(command: Callable[[Known, Path], None], dataset: Known, root: Path) -> bool:
    """Whether ``command`` failed, which takes one line on stderr and does not keep it from the next data set."""
    try:
        command(dataset, root)
    except DataError as error:
        print(f"robustfl-data: {error}", file=sys.stderr)
        return True
    return False


def list_all(root: Path) -> None:
    """Print a table of the data sets, and which of them have files under ``root``."""
    rows = [("name", "shape", "classes", "train", "test", "licence", "files")]
    for dataset in DATASETS.values():
        source, layout = dataset.source, find(dataset.source, root)
        rows.append(
            (
                dataset.name,
                "x".join(map(str, dataset.input_shape)),
                str(dataset.num_classes),
                "?" if source.num_train is None else str(source.num_train),
                "?" if source.num_test is None else str(source.num_test),
                source.licence,
                f"not in {root}" if layout is None else str(root / layout.path),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def prepare(dataset: Known, root: Path) -> None:
    """Use the files under ``root`` if they are right, else download the official ones into it."""
    for source in sources(dataset):
        try:
            _, variant = read(source, root)
        except DataError:
            if source.downloads:
                print(f"{source.name}: downloading into {root / source.name}")
            for download in source.downloads:
                fetch(download, root / source.name)
            _, variant = read(source, root)
        layout = find(source, root)
        assert layout is not None
        print(f"{source.name}: ready in {root / layout.path} ({variant})")


def verify(dataset: Known, root: Path) -> None:
    """Print for every file whether it is right and which variant it is; raises DataError if any is not."""
    for source in sources(dataset):
        files = check(source, root)
        for file in files:
            print(f"BAD {file.path}: {file.problem}" if file.problem else f"OK  {file.path}: {file.variant}")
        bad = sum(bool(file.problem) for file in files)
        if bad:
            raise DataError(f"{source.name}: {bad} of {len(files)} files are bad; {source.remedy(root)}")


def sources(dataset: Known) -> list[Source]:
    """The files of a data set, those that it adds to first."""
    found = [dataset.source]
    while found[0].base is not None:
        found.insert(0, found[0].base)
    return found


def _parser() -> Parser:
    parser = Parser(prog="robustfl-data", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for command, purpose in (
        ("list", "what there is, and where"),
        ("prepare", "make sure that data sets are there: check their files, or download them"),
        ("verify", "check every file"),
    ):
        sub = commands.add_parser(command, help=purpose, description=purpose)
        if command != "list":
            sub.add_argument("names", nargs="+", metavar="NAME", type=_name, help=", ".join(DATASETS))
        sub.add_argument("--data-dir", help="the data folder; else ROBUSTFL_DATA, else the user's cache folder")
    return parser


def _name(name: str) -> str:
    if name in DATASETS:
        return name
    near = difflib.get_close_matches(name, DATASETS)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(DATASETS)}"
    raise argparse.ArgumentTypeError(f"no data set {name!r}, {hint}")


if __name__ == "__main__":
    sys.exit(main())
