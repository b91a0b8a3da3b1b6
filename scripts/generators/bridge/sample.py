"""The runs that prove a bridge: kept runs of every option, and the lines that say what they ended with."""

import random
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from robustfl_bench.read.runs import commands
from robustfl_bench.read.runs.records import text
from robustfl_bench.runner.config import options
from robustfl_bench.runner.store.folders import FINISHED, MEASURED
from robustfl_bench.runner.store.kept import SEAL, sealer
from robustfl_bench.runner.store.lines import versions
from robustfl_bench.train.parts import FOLLOWING, GROUPS
from scripts.generators.bridge.side import FILES, SWEEP
from scripts.generators.bridge.steps import NoBridge

COMPUTING = tuple(group for group in GROUPS if group not in FOLLOWING)
"""The config groups on which numbers depend."""

STRATA = (*COMPUTING, "precision", "knowledge", "byzantine_placement", "aggregator._target_", "attack._target_")
"""The settings each of whose values is in the sample, where there is a kept run of it."""

SMALL = {"num_threads": "1", "batch_size": "8", "attack": "ipm", "model.hidden": "[8]"}
"""A small run, beside the defaults: the settings of an option without a kept run."""

TOGETHER = (
    SWEEP, "model.hidden=[8]", "rounds=5", "byzantine_placement=replace",
    "aggregator=average,krum,trmean", "attack=ipm,label_flip", "partition=iid,fang",
)  # fmt: skip
"""A sweep whose runs are trained together."""

COLUMNS = ("command", "run_id", "end", "metrics", "weights", "model", "kept", "before", "after", "processor", SEAL)
seal = sealer(())
"""The columns of a sample: digests of files and of the model; whether the accuracy is that of the kept run, where that
was made whole, on such a processor, with the same libraries; the revisions of the two codes."""

DIGITS = 16
"""Digits of a digest in a sample."""

End = Mapping[str, Any]
"""What a run ended with, as ``side.runs`` has it."""


@dataclass(frozen=True)
class Chosen:
    """A run to make again, and the kept run that it is, if it is one and is made whole."""

    overrides: Sequence[str]
    run_id: str = ""
    kept: Mapping[str, Any] | None = None


def chosen(
    rows: pd.DataFrame, count: int, seconds: float, rounds: int, seed: int, has: Callable[[str, str], bool]
) -> list[Chosen]:
    """At least ``count`` random kept runs, one of each value of STRATA among them; a small run of each other option
    that the code of before ``has``; and a sweep. Kept runs that took longer than ``seconds`` make only so many
    ``rounds``."""
    rows = rows[~rows["code"].str.contains(" ", regex=False)].sample(frac=1, random_state=seed)
    rows = rows.sort_values("seconds", key=lambda taken: taken > seconds, kind="stable")
    columns = [[(name, text(value)) for value in rows[name]] for name in STRATA if name in rows]
    seen: set[tuple[str, str]] = set()
    needed, spare = list[int](), list[int]()
    for place, values in enumerate(map(set, zip(*columns, strict=True))):
        (needed if values - seen else spare).append(place)
        seen |= values
    short = [place for place in spare if rows["seconds"].iloc[place] <= seconds]
    drawn = random.Random(seed).sample(short, min(len(short), max(0, count - len(needed))))
    kept_runs = [_again(rows.iloc[place].to_dict(), seconds, rounds) for place in (*needed, *drawn)]
    others = [(group, name) for group in COMPUTING if group != "dataset" for name in options.names(group)]
    small = [_small(group, name, rounds) for group, name in others if (group, name) not in seen and has(group, name)]
    return [*filter(lambda run: run.overrides, kept_runs), *small, Chosen(TOGETHER)]


def _small(group: str, name: str, rounds: int) -> Chosen:
    """A run of an option that no kept run has."""
    words = {key: value for key, value in SMALL.items() if not key.startswith(f"{group}.")} | {group: name}
    fewer = min(rounds, 2) if group == "model" else rounds  # networks of many layers take their time
    return Chosen([f"{key}={value}" for key, value in {**words, "rounds": str(fewer)}.items()])


def _again(row: Mapping[str, Any], seconds: float, rounds: int) -> Chosen:
    """A kept run, with fewer rounds if it took longer; without overrides if today's options cannot make it."""
    words = commands.overrides_of(row)
    if row["seconds"] <= seconds or not words:
        return Chosen(words, row["run_id"], row)
    return Chosen([*(word for word in words if not word.startswith("rounds=")), f"rounds={rounds}"], row["run_id"])


def lines(
    runs: Sequence[Chosen], before: Sequence[End], after: Sequence[End], revisions: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """A line for each run that could be made. Raises NoBridge unless both codes ended it with the same bytes."""
    for run, one, other in zip(runs, before, after, strict=True):
        command = shlex.join(run.overrides)
        if unlike := [name for name in ("status", *FILES, "model") if one.get(name) != other.get(name)]:
            raise NoBridge(f"{command} has another {' and '.join(unlike)}: {one['status']}; after: {other['status']}")
        if one["status"] in MEASURED:  # else its data are not here, or these options do not go together
            digests = [str(one[name])[:DIGITS] for name in (*FILES, "model")]
            ended = (run.run_id, str(one["status"]), *digests, _compared(run, one))
            values = (command, *ended, *revisions, str(one["processor"]))
            yield (*values, seal(values))


def _compared(run: Chosen, end: End) -> str:
    """Whether a run ends as the kept one did, where it must: on such a processor, with the same libraries."""
    row = run.kept
    if row is None or row["state"] != FINISHED or row["processor"] != end["processor"]:
        return ""
    if versions(row["versions"]) != {name: str(number) for name, number in (end["versions"] or {}).items()}:
        return ""
    return "equal" if (end["final"] or {}).get("test_accuracy") == row["final_accuracy"] else "other"
