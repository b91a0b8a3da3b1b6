"""``robustfl-data verify``: check every file of data sets, load the data and print their digest."""

from argparse import Namespace
from pathlib import Path

from robustfl_bench.base.errors import ConfigError, DataError
from robustfl_bench.commands.data import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.datasets.base import Dataset
from robustfl_bench.datasets.files import check


def _run(arguments: Namespace) -> int:
    return shared.for_each(_verify, arguments)


def _verify(name: str, dataset: Dataset, root: Path) -> None:
    """Print the state of every file, then load the data and print their digest. Raises DataError for bad files."""
    for source in shared.sources(dataset):
        files = [] if source.is_drawn else check(source, root)
        for file in files:
            print(f"BAD {file.path}: {file.problem}" if file.problem else f"OK  {file.path}: {file.variant}")
        bad = sum(bool(file.problem) for file in files)
        if bad:
            raise DataError(f"{source.name}: {bad} of {len(files)} files are bad; {source.remedy(root)}")
    try:
        origin = shared.loaded(dataset, root).origin
    except ConfigError as error:
        print(f"{name}: no digest, as the default settings do not suit these files: {error}")
        return
    print(
        f"{name}: {origin['train_samples']} + {origin['test_samples']} samples ({origin['variant']}), "
        f"digest {origin['digest']}"
    )


VERB = Verb("verify", "check every file, load the data and print their digest", shared.add_names, _run)
