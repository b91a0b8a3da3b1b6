"""The presets of RAGA's tables and figures: set as the paper says."""

from typing import Any

import pytest

from tests import presets

METHODS = ["raga", "fedavg", "median", "byrd_saga", "rfa", "mca"]
NAMES = ("table2", "table3", "table4", "table5", *(f"fig{number}" for number in range(2, 11)))
jobs, planned = presets.of("raga")


@pytest.mark.parametrize("name", NAMES)
def test_clients_rounds_and_batches(name: str) -> None:
    runs = jobs(name)
    last = planned(name, runs[-1])
    s, identity = last.settings, last.config
    assert (s.num_clients, s.batch_size, s.byzantine_placement) == (50, 32, "replace")
    assert s.rounds == (100 if name in ("table5", "fig6", "fig8") else 500)
    assert (identity["partition"]["per"], identity["partition"]["min_size"]) == ("class", 32)
    quick = planned(name, jobs(name, "scale=quick")[-1], "scale=quick").settings
    assert quick.rounds <= 60 and quick.num_clients == 20 and quick.num_byzantine <= 8


def test_equal_runs_are_one_run() -> None:
    """Without attack every share is the same run: 13 conditions."""
    shown = [job for job in jobs("table3") if job["+method"].endswith("/mca") and job["partition.alpha"] == "0.2"]
    assert len(shown) == 16 and len({planned("table3", job).run_id for job in shown}) == 13


def job_of(name: str, method: str, threat: str, policy: str = "own") -> dict[str, str]:
    return next(job for job in jobs(name, f"lr_policy={policy}")
                if job["+method"].endswith(f"/{method}") and job["+threat"].endswith(f"/{threat}"))  # fmt: skip


@pytest.mark.parametrize(("name", "steps", "rate"), [("table3", 3, 0.5477), ("table5", 1, 0.04 / 101**0.5)])
def test_methods_have_their_own_rates_or_share_those_of_raga(name: str, steps: int, rate: float) -> None:
    for policy in ("own", "shared"):
        for method in METHODS:
            made = planned(name, job_of(name, method, "lie", policy), f"lr_policy={policy}")
            local, first = made.config["local_update"], made.parts.schedule(made.settings.lr, 0)
            rule = type(made.parts.aggregator).__name__.lower()
            named = {"fedavg": "average", "median": "coomed", "byrd_saga": "raga"}
            assert rule == named.get(method, method)
            assert made.parts.aggregator.weighted == (method != "byrd_saga") if hasattr(
                made.parts.aggregator, "weighted") else method in ("median", "mca")  # fmt: skip
            raga_s = method == "raga" or policy == "shared"
            single = method in ("byrd_saga", "mca") and name == "table3"
            assert first == pytest.approx(rate if raga_s else 0.02 if single else 0.01, rel=1e-3)
            assert (made.parts.schedule(made.settings.lr, 99) < first) == raga_s
            if method == "byrd_saga":
                assert local["_target_"].endswith("Saga")
            else:
                assert local["steps"] == (1 if method == "mca" and not raga_s else steps)
                assert local["upload"] == ("mean_gradient" if raga_s else "difference")


def test_threats_are_those_of_the_paper() -> None:
    attacks: dict[str, Any] = {
        threat: planned("table2", job_of("table2", "raga", threat)).config["attack"]
        for threat in ("none", "gaussian", "sign_flip", "lie")
    }
    assert attacks["none"]["_target_"].endswith("NoAttack")
    assert (attacks["gaussian"]["variance"], attacks["gaussian"].get("std")) == (90, None)
    assert (attacks["sign_flip"]["flip"], attacks["sign_flip"]["factor"]) == ("running_sum", 3)
    assert (attacks["lie"]["z"], attacks["lie"]["sign"]) == (0.7, "plus")


def test_models_and_steps_of_the_figures() -> None:
    targets = {job["+setting"]: planned("fig9", job).config["model"] for job in jobs("fig9")[::4]}
    assert targets["raga/mnist_lenet"]["channels"] == [6, 16] and targets["raga/mnist_mlp"]["hidden"] == [200, 100]
    assert targets["raga/cifar10_lenet"]["dense"] == [384, 192] and targets["raga/cifar10_mlp"]["hidden"] == [200, 200]
    for job in jobs("fig10")[:4]:
        made = planned("fig10", job)
        assert str(made.parts.local_update.steps) == job["local_update.steps"]
        assert made.parts.schedule.factor == made.parts.local_update.steps  # K is in the printed rate
        assert made.config["partition"]["alpha"] == 0.2 and made.settings.num_byzantine == 10
