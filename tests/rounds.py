"""What the tests of the rules share: rounds of a small problem, rules built from their configs, and
what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from robustfl_bench import Aggregate, ConfigError
from robustfl_bench.doors.testing import example_round as skewed_round
from robustfl_bench.doors.testing import example_server as make_server
from robustfl_bench.runner.config import compose, options, targets

__all__ = ["agree", "build", "make_server", "names", "refused", "skewed_round"]

names = options.names


def build(group: str, name: str, *overrides: str, num_byzantine: int = 3) -> Any:
    """The object that ``<group>=<name>`` makes when the server declares ``num_byzantine``."""
    run = compose.resolve([f"{group}={name}", f"num_byzantine_declared={num_byzantine}", *overrides])
    return targets.build(run.config[group])


def fewest(rule: Any, f: int) -> int:
    """The least number of clients, more than 2f, with which a rule works."""
    n = 2 * f + 1
    while True:
        try:
            rule.check(n)
        except ConfigError:
            n += 1
        else:
            return n


def agree(aggregate: Aggregate, expected: np.ndarray, tolerance: float = 1e-5) -> None:
    """An aggregate is the expected one, but for a share ``tolerance`` of its length."""
    vector = aggregate.vector.double().numpy()
    assert np.linalg.norm(vector - expected) <= tolerance * max(np.linalg.norm(expected), 1e-12)


def refused(make: Callable[[], Any], message: str) -> None:
    """It raises a ConfigError of one line that says so."""
    with pytest.raises(ConfigError, match=message) as error:
        make()
    assert "\n" not in str(error.value)
