"""Made-up runs of the arena."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

import pandas as pd
import pytest

from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import HONEST, ArenaRun, Track
from robustfl_bench.read.runs import archive


def run(rule: str, attack: str, accuracy: float, partition: str = "iid", seed: str = "0", **others: object) -> ArenaRun:
    values: dict[str, object] = {
        "num_byzantine": 0 if attack == "none" else 5, "declared": None, "lr": 0.1, "state": "finished",
        "recall": [accuracy] * 10, "row": 0, "best": accuracy, "seconds": 1.0,
    }  # fmt: skip
    return ArenaRun(rule, partition, attack, seed=seed, accuracy=accuracy, **values | others)  # type: ignore[arg-type]


def every_run(track: Track, levels: Mapping[str, float]) -> list[ArenaRun]:
    """Runs of these rules in all cells: the accuracy is a rule's level, and a tenth less under attack."""
    return [run(rule, attack, level - 0.1 * (attack != "none") + 0.001 * place, partition, seed, num_byzantine=number)
            for rule, level in levels.items() for attack in track.swept["attack"]
            for number in ((0,) if attack == "none" else track.numbers)
            for place, partition in enumerate(track.swept["partition"]) for seed in track.swept["seed"]]  # fmt: skip


def honest_runs(track: Track, accuracy: float) -> list[ArenaRun]:
    """The honest clients' mean in all partitions and seeds."""
    return [run(HONEST, HONEST, accuracy, partition, seed, num_byzantine=number)
            for number in track.numbers for partition in track.swept["partition"]
            for seed in track.swept["seed"]]  # fmt: skip


@cache
def shipped_runs() -> pd.DataFrame:
    """Those of the arena that come with the package: reading them takes seconds."""
    return archive.kept(arena=True)


def arena_of(patch: pytest.MonkeyPatch, made: Iterable[ArenaRun], track: str = "digits") -> Arena:
    """An arena of made-up runs; the rules are those of the package."""
    table = shipped_runs().drop_duplicates("aggregator").reset_index(drop=True)
    place = {name: row for row, name in enumerate(table["aggregator"])}
    runs = [replace(one, row=place.get(one.rule.split(" ")[0], 0)) for one in made]
    patch.setattr(Track, "runs", lambda self, table: runs)
    return Arena(table, track)
