"""A run over several processes: each trains a part of the clients and aggregates a part of the columns."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # importing torch takes over a second
    from robustfl_bench.runner.config.request import Call
    from robustfl_bench.runner.experiment.execute import Train


@contextmanager
def members(config: "Mapping[str, Any]", call: "Call") -> "Iterator[Train | None]":
    """A function that trains a run in this process and in the others of its ``processes``; None for a single process.

    The others start when it is called, and end with the context. Under ``torchrun`` they have started already. Raises
    ConfigError if several processes cannot carry out the run.
    """
    if config["processes"] == 1:
        yield None
        return
    from robustfl_bench.runner.processes.shards.run import several

    with several(config, call) as train:
        yield train
