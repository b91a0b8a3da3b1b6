"""The presets of RAGA's tables and figures: how many runs each makes, and that they are set as the paper says."""

from functools import cache
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from robustfl_bench import cli
from robustfl_bench.experiment import Plan, plan
from robustfl_bench.options import CONF

assert cli  # registers the typed settings with hydra

METHODS = ["raga", "fedavg", "median", "byrd_saga", "rfa", "mca"]
RUNS = {  # methods x conditions x partitions x models
    "table2": 2 * 6 * 16, "table3": 2 * 6 * 16, "table4": 2 * 6 * 16, "table5": 6 * 16, "fig2": 2 * 6 * 2,
    "fig3": 2 * 6 * 2, "fig4": 2 * 6 * 2 * 5, "fig5": 2 * 6 * 2 * 5, "fig6": 6 * 3 * 5, "fig7": 4 * 3 * 3,
    "fig8": 3 * 3 * 2, "fig9": 4 * 4, "fig10": 4 * 4,
}  # fmt: skip


@cache
def jobs(name: str, *overrides: str) -> list[dict[str, str]]:
    """The overrides of every run, as the sweeper makes them."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("config", [f"+experiment=raga/{name}", *overrides], return_hydra_config=True)
    params = OmegaConf.to_container(cfg.hydra.sweeper.params, resolve=True)
    assert isinstance(params, dict)
    parsed = OverridesParser.create().parse_overrides([f"{key}={value}" for key, value in params.items()])
    (batch,) = BasicSweeper.split_arguments(parsed, max_batch_size=None)
    return [dict(item.split("=", 1) for item in job) for job in batch]


def planned(name: str, job: dict[str, str], *overrides: str) -> Plan:
    arguments = [f"+experiment=raga/{name}", *overrides, *(f"{key}={value}" for key, value in job.items())]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return plan(compose("config", arguments))


def test_there_is_a_preset_for_every_table_and_figure() -> None:
    assert {path.stem for path in (CONF / "experiment" / "raga").glob("*.yaml")} == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_a_preset_begins_with_its_command_and_makes_its_runs(name: str) -> None:
    lines = (CONF / "experiment" / "raga" / f"{name}.yaml").read_text().splitlines()
    assert lines[:2] == ["# @package _global_", f"# robustfl-bench -m +experiment=raga/{name}"]
    runs = jobs(name)
    assert len(runs) == len(jobs(name, "scale=quick")) == RUNS[name]
    last = planned(name, runs[-1])
    s, identity = last.settings, last.identity
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
            local, first = made.identity["local_update"], made.parts["schedule"](made.settings.lr, 0)
            rule = type(made.parts["aggregator"]).__name__.lower()
            named = {"fedavg": "average", "median": "coomed", "byrd_saga": "raga"}
            assert rule == named.get(method, method)
            assert made.parts["aggregator"].weighted == (method != "byrd_saga") if hasattr(
                made.parts["aggregator"], "weighted") else method in ("median", "mca")  # fmt: skip
            raga_s = method == "raga" or policy == "shared"
            assert first == pytest.approx(rate if raga_s else 0.01, rel=1e-3)
            assert (made.parts["schedule"](made.settings.lr, 99) < first) == raga_s
            if method == "byrd_saga":
                assert local["_target_"].endswith("Saga")
            else:
                assert local["steps"] == (1 if method == "mca" and not raga_s else steps)
                assert local["upload"] == ("mean_gradient" if raga_s else "difference")


def test_threats_are_those_of_the_paper() -> None:
    attacks: dict[str, Any] = {
        threat: planned("table2", job_of("table2", "raga", threat)).identity["attack"]
        for threat in ("none", "gaussian", "sign_flip", "lie")
    }
    assert attacks["none"]["_target_"].endswith("NoAttack")
    assert (attacks["gaussian"]["variance"], attacks["gaussian"]["std"]) == (90, None)
    assert (attacks["sign_flip"]["flip"], attacks["sign_flip"]["factor"]) == ("own", 3)
    assert (attacks["lie"]["z"], attacks["lie"]["sign"]) == (0.7, "plus")


def test_models_and_steps_of_the_figures() -> None:
    targets = {job["+setting"]: planned("fig9", job).identity["model"] for job in jobs("fig9")[::4]}
    assert targets["raga/mnist_lenet"]["channels"] == [6, 16] and targets["raga/mnist_mlp"]["hidden"] == [200, 100]
    assert targets["raga/cifar10_lenet"]["dense"] == [384, 192] and targets["raga/cifar10_mlp"]["hidden"] == [200, 200]
    for job in jobs("fig10")[:4]:
        made = planned("fig10", job)
        assert str(made.parts["local_update"].steps) == job["local_update.steps"]
        assert made.parts["schedule"].factor == made.parts["local_update"].steps  # K is in the printed rate
        assert made.identity["partition"]["alpha"] == 0.2 and made.settings.num_byzantine == 10
