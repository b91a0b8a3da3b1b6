"""Follow a sweep of other processes through its run folders alone."""

import time
from collections.abc import Callable

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.sweeps.take import Taker


def watch(taker: Taker, is_alive: Callable[[], bool], seconds: float) -> None:
    """Print each result as it comes, until all cells have an end or, on two looks in a row, not ``is_alive()``.

    Looks every ``seconds``; the second look finds what a shared file system was late to show.
    """
    gone = 0
    while taker.missing and gone < 2:
        gone = 0 if is_alive() else gone + 1
        for cell in taker.missing:
            taker.look(cell, "result")
        if taker.missing:
            time.sleep(seconds)


def check_at_least_one(**options: int | None) -> None:
    """Raise ConfigError unless these options of a launcher are 1 or more, or null."""
    for name, value in options.items():
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ConfigError(f"hydra.launcher.{name} must be a whole number >= 1, got {value!r}")
