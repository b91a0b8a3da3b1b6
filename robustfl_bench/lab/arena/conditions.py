"""Under which conditions the scores of an arena hold, read from its configuration, and what was not tried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from robustfl_bench.runner.config import targets

if TYPE_CHECKING:
    from robustfl_bench.lab.arena.panels import Arena

LOWEST = "the lowest known so far"
"""What a score is: a further attack can lower it, and none can raise it."""


def data_set(arena: Arena) -> str:
    """The name of its data set."""
    return str(targets.build(arena.track.config["dataset"]).name)


def not_tried(arena: Arena) -> Iterator[str]:
    """What was not tried in an arena, and may lower its scores or change their order."""
    config = arena.track.config
    yield "an attack built for the rule that it meets"
    if not arena.plans:
        yield "attackers who plan"
    yield f"data other than {data_set(arena)}"
    if "Momentum" not in f"{config['local_update']} {config['server_optimizer']}":
        yield "momentum"
    if config["participation"] == 1 and not config["availability"]:
        yield "rounds in which some clients are absent"
