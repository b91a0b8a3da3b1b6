"""A run whose updates do not fit into memory: they are in files, and all numbers are the same."""

from pathlib import Path

from torch import Tensor

from robustfl_bench.numerics import on_disk
from robustfl_bench.numerics.network.samples import Samples
from robustfl_bench.train.stack import Stackable


class OnDisk(Stackable):
    """A federation whose updates are in files without a name in the folder of results, which end with the process."""

    def rows(self, n: int) -> Tensor:
        return on_disk.empty(n, self.network.dim, Path(self.settings.results_dir).expanduser())

    def trainings(self, round: int) -> list[Samples]:
        """None: gradients at the models of several runs would be in memory."""
        return []
