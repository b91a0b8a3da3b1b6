"""A small sweep that the tests of clusters disturb."""

from collections.abc import Callable
from pathlib import Path

from tests.conftest import Bench, contents

CELLS = ("-m", "model.hidden=[16]", "num_clients=10", "num_byzantine=2")
TWELVE = (*CELLS, "aggregator=average,krum", "attack=none,ipm", "seed=0,1,2", "rounds=40")


def is_training(folder: Path) -> Callable[[], bool]:
    """Whether two runs have a few rounds."""
    rows = "results/runs/*/metrics.csv"
    return lambda: sum(path.read_bytes().count(b"\n") > 5 for path in folder.glob(rows)) >= 2


def undisturbed(bench: Bench, *overrides: str) -> dict[str, bytes]:
    """The bytes of the same sweep in one process."""
    assert bench(*overrides, "results_dir=undisturbed").code == 0
    return contents(Path("undisturbed"))
