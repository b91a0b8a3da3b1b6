"""A run over several processes: each trains a part of the clients and aggregates a part of the columns; or a ring of
N processes, one per client, that pass chunks to their neighbours (BRACE, Fang et al., 2025)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # importing torch takes over a second
    from robustfl_bench.runner.experiment.execute import Train
    from robustfl_bench.runner.experiment.plan import Request


@contextmanager
def members(request: "Request") -> "Iterator[Train | None]":
    """A function that trains a run in this process and in the others of its ``processes``; None for a single process.

    The others start when it is called, and end with the context. Under ``torchrun`` they have started already. Raises
    ConfigError if several processes cannot carry out the run.
    """
    if request.settings.processes == 1:
        yield None
        return
    from robustfl_bench.runner.processes.launch import several

    with several(request) as train:
        yield train
