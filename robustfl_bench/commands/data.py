"""The command robustfl-data: list the data sets, prepare (download and check) them, verify their files, and show how
a run splits one over its clients."""

import argparse
import difflib
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from robustfl_bench.base.console import Parser, answer_tab, completed, reported, say
from robustfl_bench.base.errors import INTERRUPTED, ConfigError, DataError
from robustfl_bench.config import data_sets
from robustfl_bench.config.completion import overrides
from robustfl_bench.config.options import HERE
from robustfl_bench.datasets import find_folder, leaf, load
from robustfl_bench.datasets.download import fetch
from robustfl_bench.datasets.files import UNKNOWN, Checked, Source, check, find, read

if TYPE_CHECKING:
    from robustfl_bench.datasets.base import Data, Dataset

PROGRAM = "robustfl-data"
HEADINGS = ("name", "shape", "classes", "train", "test", "state", "licence", "variant", "files")
_reported = partial(reported, prefix=PROGRAM)


def main(argv: Sequence[str] | None = None) -> int:
    """Console entry point; returns its exit code."""
    parser = _parser()
    answer_tab(parser)
    arguments = parser.parse_args(argv)
    try:
        return _reported(_run, arguments)
    except KeyboardInterrupt:
        say(f"{PROGRAM}: interrupted; run the same command again to continue")
        return INTERRUPTED


def _run(arguments: argparse.Namespace) -> int:
    config_dir = arguments.config_dir
    if arguments.command == "partition":
        partition(arguments.overrides, arguments.output, arguments.picture, config_dir)
        return 0
    root = find_folder(arguments.data_dir)
    if arguments.command == "list":
        list_all(root, config_dir)
        return 0
    command = prepare if arguments.command == "prepare" else verify
    datasets = {name: data_sets.build(_known(name, config_dir), config_dir) for name in arguments.names}
    return max(_reported(command, name, dataset, root) for name, dataset in datasets.items())


def list_all(root: Path, config_dir: Path | None = None) -> None:
    """Print a table of the data sets: their shape and licence, and the state of their files under ``root``."""
    rows: list[tuple[str, ...]] = [HEADINGS]
    for name in data_sets.names(config_dir):
        dataset = data_sets.build(name, config_dir)
        shape = "x".join(map(str, dataset.input_shape))
        cells = _checked(sources(dataset), root) if sources(dataset) else _loaded(dataset, root)
        rows.append((name, shape, str(dataset.num_classes), *cells))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _checked(every: list[Source], root: Path) -> tuple[str, ...]:
    """The cells from ``train`` on of a data set with known files: each is read and compared with its checksum."""
    own = every[-1]
    if own.is_drawn:
        return "-", "-", "ready", own.licence, "generated", "-"
    layouts = [find(source, root) for source in every]
    if None in layouts:
        return "-", "-", "missing", own.licence, "-", f"not in {root}"
    try:
        checked = [read(source, root) for source in every]
        files, variant = checked[-1]
        train, test = own.samples(files) or _counted(files) or ("-", "-")
    except DataError as error:
        return "-", "-", "damaged", own.licence, "-", _line(error)
    assert layouts[-1] is not None
    return str(train), str(test), "ready", own.licence, variant, str(root / layouts[-1].path)


def _counted(files: list[Checked]) -> tuple[int, int] | None:
    """The samples in LEAF's files; None for texts, which are cut into samples when they are loaded."""
    if any(file.variant != UNKNOWN or "/" not in file.name for file in files):
        return None
    train, test = (leaf.users(file for file in files if file.name.startswith(part)) for part in ("train/", "test/"))
    return leaf.count(train), leaf.count(test)


def _loaded(dataset: "Dataset", root: Path) -> tuple[str, ...]:
    """The same cells for a data set that says nothing about its files: it is loaded."""
    try:
        data = _data(dataset, root)
    except DataError as error:
        return "-", "-", "missing", "?", "-", _line(error)
    return str(len(data.train_y)), str(len(data.test_y)), "ready", "?", data.variant, f"in {root}"


def prepare(name: str, dataset: "Dataset", root: Path) -> None:
    """Use the files under ``root`` if they are right, else download the official ones into it."""
    if not sources(dataset):
        print(f"{name}: ready in {root} ({_data(dataset, root).variant})")
    for source in sources(dataset):
        if source.is_drawn:
            print(f"{name}: ready, drawn from the seed without any files")
            continue
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


def verify(name: str, dataset: "Dataset", root: Path) -> None:
    """Print the state of every file, then load the data and print their digest; raises DataError for bad files."""
    for source in sources(dataset):
        files = [] if source.is_drawn else check(source, root)
        for file in files:
            print(f"BAD {file.path}: {file.problem}" if file.problem else f"OK  {file.path}: {file.variant}")
        bad = sum(bool(file.problem) for file in files)
        if bad:
            raise DataError(f"{source.name}: {bad} of {len(files)} files are bad; {source.remedy(root)}")
    try:
        origin = _data(dataset, root).origin
    except ConfigError as error:
        print(f"{name}: no digest, as the default settings do not suit these files: {error}")
        return
    print(
        f"{name}: {origin['train_samples']} + {origin['test_samples']} samples ({origin['variant']}), "
        f"digest {origin['digest']}"
    )


def partition(overrides: Sequence[str], output: str | None, picture: str | None, config_dir: Path | None) -> None:
    """Print which client holds what in the run that these overrides make; write it as a CSV file and as a picture."""
    from robustfl_bench.experiment.split import made
    from robustfl_bench.pages.pictures.canvas import save
    from robustfl_bench.pages.split import draw
    from robustfl_bench.store.writing import write_atomically

    split = made(overrides, HERE if config_dir is None else (config_dir, *HERE))
    print(split.report())
    if output is not None:
        try:
            write_atomically(Path(output), split.csv())
        except OSError as error:
            raise ConfigError(f"cannot write {output}: {error.strerror or error}") from error
        print(f"{output}: partition=from_file partition.path={output} num_clients={len(split.shards)}")
    if picture is not None:
        print(save(draw(split), picture, "--picture"))


def _data(dataset: "Dataset", root: Path) -> "Data":
    import torch  # over a second, which only those who load data pay

    return load(dataset, str(root), torch.device("cpu"))


def sources(dataset: "Dataset") -> list[Source]:
    """The descriptions of a data set's files, those of its base first; empty if it has none."""
    found = [dataset.source] if dataset.source else []
    while found and found[0].base is not None:
        found.insert(0, found[0].base)
    return found


def _parser() -> Parser:
    parser = Parser(prog=PROGRAM, description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for command, purpose in (
        ("list", "the data sets, and the state of their files"),
        ("prepare", "check the files of data sets, and download those that are missing or damaged"),
        ("verify", "check every file, load the data and print their digest"),
    ):
        sub = commands.add_parser(command, help=purpose, description=purpose)
        if command != "list":
            names = sub.add_argument("names", nargs="+", metavar="NAME", help=", ".join(data_sets.names()))
            completed(names, lambda **_: data_sets.names())
        sub.add_argument("--data-dir", help="the data folder (ROBUSTFL_DATA if set, else the user's cache folder)")
        sub.add_argument("--config-dir", type=Path, help="a folder with dataset/NAME.yaml files for your own data sets")
    purpose = "which client holds what in a run of robustfl-bench, and how skewed that is"
    sub = commands.add_parser("partition", help=purpose, description=purpose)
    asked = sub.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="override, as for robustfl-bench: partition=fang seed=1"
    )
    completed(asked, overrides)
    sub.add_argument(
        "--output", metavar="FILE.csv", help="write the partition, for partition=from_file partition.path=FILE.csv"
    )
    sub.add_argument("--picture", metavar="FILE", help="draw the partition, as a .png, .pdf or .svg file")
    sub.add_argument("--config-dir", type=Path, help="a folder with your own options, such as partition/NAME.yaml")
    return parser


def _known(name: str, config_dir: Path | None) -> str:
    known = data_sets.names(config_dir)
    if name not in known:
        near = difflib.get_close_matches(name, known)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
        raise ConfigError(f"no data set {name!r}, {hint}")
    return name


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(main())
