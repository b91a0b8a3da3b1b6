"""A row of a table of runs is enough to ask for its run again."""

import math
import shlex
from pathlib import Path

import pytest

from robustfl_bench.base.trees import flatten
from robustfl_bench.read.runs import archive, commands
from robustfl_bench.read.runs.records import leaf
from robustfl_bench.runner.config import compose, identity
from robustfl_bench.runner.config.compose import Resolved
from robustfl_bench.runner.store import kept

SMALL_FILE = 200_000  # bytes


def row_of(resolved: Resolved) -> dict[str, object]:
    """The row of a run, with all settings of its folder."""
    settings = {key: leaf(value) for key, value in flatten(identity.defining(resolved.config))}
    return {**settings, **resolved.choices, "run_id": resolved.run_id, "aggregator.of_another_run": math.nan}


@pytest.mark.parametrize(
    "asked",
    [
        "aggregator=krum aggregator.num_selected=3 lr=0.05 seed=4 batch_size=32",
        "aggregator=norm_bound secure_aggregation=true",
        "aggregator=krum weighting=samples",
        "aggregator=krum weighting=capped num_byzantine=2 num_byzantine_declared=3",
        "aggregator=norm_bound weighting=samples secure_aggregation=true",
        "attack=ipm num_byzantine=2 claim_samples=1000",
        "pre_aggregation=bucketing pre_aggregation.bucketing.bucket_size=3 aggregator=coomed",
        "pre_aggregation=[clipping,nnm] aggregator=coomed num_byzantine=2",
        "aggregator=mkrum +aggregator.self_distance=true",
        "local_update=momentum local_update@local_update.inner=private local_update.inner.noise=2 batch_size=20",
        "attack=scheduled num_byzantine=2 attack@attack.attack=neurotoxin attack.attack.avoided=0.1",
        "aggregator=b_krum aggregator@aggregator.rule=trmean num_byzantine=2",
    ],
)
def test_the_overrides_of_a_row_make_the_same_run(asked: str) -> None:
    resolved = compose.resolve(asked.split())
    row = row_of(resolved)
    words = commands.overrides_of(row)
    assert compose.resolve(words).run_id == resolved.run_id
    assert shlex.split(commands.again(row)) == ["robustfl-bench", *words]


def test_only_what_is_not_usual_is_written() -> None:
    row = row_of(compose.resolve(["aggregator=signguard", "weighting=samples", "lr=0.3"]))
    words = commands.overrides_of(row)
    assert {"lr=0.3", "weighting=samples"} <= set(words)
    assert [word for word in words if word.startswith(("aggregator", "server", "model"))] == ["aggregator=signguard"]


def test_a_run_that_todays_options_do_not_make_has_no_command() -> None:
    row = row_of(compose.resolve(["aggregator=krum"]))
    assert not commands.overrides_of({**row, "aggregator.gone": 3})
    assert not commands.overrides_of({**row, "aggregator": "gone"})
    assert commands.again({**row, "run_id": "another"}) == ""


def test_runs_of_kept_files_have_a_command() -> None:
    small = [file for file in kept.files() if Path(file).stat().st_size < SMALL_FILE]
    assert len(small) > 20
    for file in small:
        runs = archive.read(str(file))
        for run in runs.iloc[[0, -1]].to_dict("records"):
            assert commands.overrides_of(run), f"{file}: {run['run']}"
