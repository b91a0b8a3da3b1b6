"""A small sweep that the tests of clusters disturb."""

import time
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Bench, contents
from tests.processes import Command

CELLS = ("-m", "model.hidden=[16]", "num_clients=10", "num_byzantine=2")
TWELVE = (*CELLS, "aggregator=average,krum", "attack=none,ipm", "seed=0,1,2", "rounds=40")


def wait_for(condition: Callable[[], object], command: Command) -> None:
    """Wait at most 60 s until the condition holds; the command must not end before."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "nothing has happened"
        assert command.poll() is None, command.communicate()
        time.sleep(0.02)


def is_training(folder: Path) -> Callable[[], bool]:
    """Whether two runs have a few rounds."""
    rows = "results/runs/*/metrics.csv"
    return lambda: sum(path.read_bytes().count(b"\n") > 5 for path in folder.glob(rows)) >= 2


def undisturbed(bench: Bench, *overrides: str) -> dict[str, bytes]:
    """The bytes of the same sweep in one process."""
    assert bench(*overrides, "results_dir=undisturbed").code == 0
    return contents(Path("undisturbed"))
