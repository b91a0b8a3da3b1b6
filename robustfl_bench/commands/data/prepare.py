"""``robustfl-data prepare``: check the files of data sets, and download those that are missing or damaged."""

from argparse import Namespace
from pathlib import Path

from robustfl_bench.base.errors import DataError
from robustfl_bench.commands.data import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.parts.datasets.base import Dataset
from robustfl_bench.parts.datasets.download import fetch
from robustfl_bench.parts.datasets.files import find, read


def _run(arguments: Namespace) -> int:
    return shared.for_each(_prepare, arguments)


def _prepare(name: str, dataset: Dataset, root: Path) -> None:
    """Use the files under ``root`` if they are right, else download the official ones into it. Raises DataError."""
    if not (described := shared.sources(dataset)):
        print(f"{name}: ready in {root} ({shared.loaded(dataset, root).variant})")
    for source in described:
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


VERB = Verb(
    "prepare", "check the files of data sets, and download those that are missing or damaged", shared.add_names, _run
)
