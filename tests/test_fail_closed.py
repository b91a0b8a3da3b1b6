"""``on_suspicion``: more clients look hostile than the rule can bear, so the round is skipped or the run ends."""

import json
from pathlib import Path

import pytest
import torch

import robustfl_bench as rb
from robustfl_bench.base.errors import FailedClosed
from robustfl_bench.doors.testing import check_aggregator, example_round
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.fail_closed import FailClosed
from robustfl_bench.read.runs import commands, records
from tests.conftest import Bench, config_of, only_run

TINY = ("rounds=3", "model.hidden=[4]", "num_clients=10", "partition=iid", "attack=ipm", "num_byzantine=4")


def hostile(rows: torch.Tensor) -> list[int]:
    """The same by the definition: for each client the median of its distances to the others, and copies."""
    typical = [sorted((row - other).norm().item() for other in rows.double())[1:] for row in rows.double()]
    medians = [distances[(len(distances) - 1) // 2] for distances in typical]
    middle = sorted(medians)[(len(medians) - 1) // 2]
    copied = [sum(torch.equal(row, other) for other in rows) > 1 for row in rows]
    return [i for i, median in enumerate(medians) if median > 2 * middle or copied[i]]


@pytest.mark.parametrize("n", [3, 4, 9, 20])
def test_who_looks_hostile_is_as_defined_and_follows_the_clients(n: int) -> None:
    rng = torch.Generator().manual_seed(n)
    for trial in range(20):
        rows = torch.randn(n, 30, generator=rng) + 1
        rows[: trial % (n // 2 + 1)] *= 9
        rows[n - 1] = rows[n - 2] if trial % 3 == 0 else rows[n - 1]
        found = FailClosed(rb.Average(), 1).hostile(Updates(rows))
        assert found.nonzero()[:, 0].tolist() == hostile(rows)
        order = torch.randperm(n, generator=rng)
        for same in (rows[order], 1e6 * rows[order], 1e-6 * rows[order], rows[order] + 3):
            assert torch.equal(FailClosed(rb.Average(), 1).hostile(Updates(same)), found[order])


def test_a_round_without_alarm_is_the_rule_and_another_changes_nothing() -> None:
    updates, server = example_round(0)
    _, again = example_round(0)
    rule = rb.Krum(num_byzantine=3)
    calm = FailClosed(rule, num_byzantine=20)(updates, server)
    assert torch.equal(calm.vector, rule(updates, again).vector) and calm.weights is not None
    rows = updates.matrix.clone()
    rows[:5] *= 100
    skipped = FailClosed(rule, num_byzantine=4)(Updates(rows), server)
    assert not skipped.vector.any() and skipped.weights is not None and not skipped.weights.any()
    with pytest.raises(FailedClosed, match="round 1: 5 of 20 clients look hostile, and f is 4"):
        FailClosed(rule, num_byzantine=4, action="stop")(Updates(rows), server)
    check_aggregator(FailClosed(rb.CooMed(), num_byzantine=3), num_byzantine=3)


def test_a_run_skips_rounds_or_ends_and_says_why(bench: Bench, tmp_path: Path) -> None:
    assert bench(*TINY, "aggregator=krum", "on_suspicion=stop").code == 0, "f is the number of attackers"
    few = (*TINY, "aggregator=krum", "num_byzantine_declared=2")
    bench(*few, "on_suspicion=stop").refused(1, "round 1: 4 of 14 clients look hostile, and f is 2")
    outcome = bench(*few, "on_suspicion=skip", "results_dir=skipped")
    folder = only_run(tmp_path / "skipped")
    assert outcome.code == 0 and config_of(folder)["aggregator"]["_target_"] == "robustfl_bench.aggregators.FailClosed"
    metrics = records.metrics(folder)
    assert metrics["test_loss"].nunique() == 1, "no round changes the model"
    assert json.loads((folder / "summary.json").read_text())["choices"]["aggregator"] == "krum"
    (run,) = records.load(tmp_path / "skipped").to_dict("records")
    assert {"on_suspicion=skip", "aggregator=krum"} <= set(commands.words_of(run))


@pytest.mark.parametrize("partition", ["iid", "mild_dirichlet", "pathological"])
def test_honest_clients_raise_no_alarm(bench: Bench, partition: str) -> None:
    words = ("rounds=3", "num_clients=25", "batch_size=32", f"partition={partition}", "num_byzantine_declared=1")
    assert bench(*words, "on_suspicion=stop").code == 0


def test_what_it_cannot_see_is_refused(bench: Bench) -> None:
    outcome = bench(*TINY, "aggregator=average", "secure_aggregation=true", "on_suspicion=skip")
    outcome.refused(2, "on_suspicion compares the clients' updates, which secure_aggregation hides")
    outcome = bench(*TINY, "on_suspicion=skip", "pre_aggregation=nnm")
    outcome.refused(2, "on_suspicion compares the clients' own updates; set on_suspicion=keep or pre_aggregation=none")
    bench(*TINY, "on_suspicion=maybe").refused(2, "on_suspicion must be one of keep, skip, stop")
