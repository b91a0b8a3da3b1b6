"""Hydra in front of a command: it reads the words, starts sweeper and launcher, and shows its own settings."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import hydra

from robustfl_bench.runner.config import by_hydra
from robustfl_bench.runner.config.beyond import ForHydra
from robustfl_bench.runner.config.options import CONF
from robustfl_bench.runner.sweeps.launch import Makes, Runs


def main(arguments: Sequence[str], asked: ForHydra, make: Makes) -> None:
    """Let Hydra obey the arguments of a command; ``make`` makes a run that none of our launchers makes. Raises
    Incomplete, ConfigError and the errors of runs."""
    sys.argv[1:] = arguments
    others = [("robustfl_bench", CONF)] if asked.config_path is not None else []
    with _raising(), by_hydra.beside(others), by_hydra.explained():
        folder = by_hydra.main_folder(asked)
        hydra.main(version_base=by_hydra.VERSION, config_path=folder, config_name=by_hydra.CONFIG)(Runs(make))()


@contextmanager
def _raising() -> Iterator[None]:
    """Hydra raises errors within the context, instead of printing them."""
    before, stream = os.environ.get("HYDRA_FULL_ERROR"), sys.stderr
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        sys.stderr = stream
        if before is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = before
