"""The presets of BOBA's tables and figures: how many runs each makes, and that they are set as the paper says."""

from typing import Any

import pytest

from robustfl_bench.config.options import CONF
from robustfl_bench.config.parts import GROUPS
from tests import presets

RULES = ["average", "server", "coomed", "trmean", "krum", "mkrum", "geomed", "selfrej", "avgrej", "zeno", "fltrust"]
RULES += ["bygars", "b_krum", "b_mkrum", "rage", "boba"]
WITHOUT_SERVER = [rule for rule in RULES if rule != "server"]
FOUR = ["average", "mkrum", "fltrust", "boba"]
ATTACKS = ["gauss", "ipm", "lie", "mimic", "minmax", "minsum"]
ALSO_NONE = ["none", *ATTACKS]
SEEDS = ["0", "1", "2", "3", "4"]
NOISES = ["[gaussian_noise]", "[shot_noise]", "[impulse_noise]", "[speckle_noise]"]
LOCAL = ["fedsgd", "fedavg", "fedprox"]

# Table 6: rounds, initial rate, decay (start, interval, factor), honest clients, real and declared Byzantine clients,
# server samples per class.
MNIST = (200, 0.1, (100, 10, 0.95), 100, 15, 16, 20)
CIFAR10 = (2000, 0.2, (1000, 100, 0.8), 100, 15, 16, 20)
AG_NEWS = (200, 1.0, (100, 10, 0.95), 160, 54, 60, 30)
ABLATION = (200, 1.0, (100, 10, 0.95), 16, 2, 2, 30)
TABLE6 = {"mnist": MNIST, "cifar10": CIFAR10, "ag_news": AG_NEWS}
MODELS = {"mnist": "Mlp", "cifar10": "Cnn", "ag_news": "Gru"}


def grid(**values: list[str]) -> dict[str, list[str]]:
    return {name.replace("__", "."): value for name, value in values.items()}


# Data set, Table 6 line, and the swept values at paper scale.
PRESETS: dict[str, tuple[str, tuple[Any, ...], dict[str, list[str]]]] = {
    **{f"table1_{d}": (d, TABLE6[d], grid(aggregator=RULES, attack=["none"], seed=SEEDS)) for d in TABLE6},
    **{f"table2_{d}": (d, TABLE6[d], grid(aggregator=WITHOUT_SERVER, attack=ATTACKS, seed=SEEDS)) for d in TABLE6},
    **{f"table7_{d}": (d, TABLE6[d], grid(aggregator=FOUR, attack=ALSO_NONE, seed=SEEDS)) for d in TABLE6},
    "table3": ("cifar10", CIFAR10, grid(aggregator=FOUR, attack=ALSO_NONE, seed=SEEDS)),
    "table4": (
        "ag_news",
        ABLATION,
        grid(
            aggregator=["average", "boba_es", "boba", "boba_wo_stage1", "boba_wo_stage2"],
            attack=ALSO_NONE,
            seed=SEEDS,
        ),
    ),
    "table8": (
        "ag_news",
        AG_NEWS,
        grid(participation=["0.25", "0.5", "0.75", "1.0"], aggregator=FOUR, attack=ALSO_NONE, seed=SEEDS),
    ),
    "table9": ("cifar10", CIFAR10, grid(aggregator=WITHOUT_SERVER, attack=ALSO_NONE, seed=SEEDS)),
    "fig1": ("mnist", (1, *MNIST[1:]), grid(aggregator=["average"], attack=["none"], seed=["0"])),
    "fig2": (
        "mnist",
        (1, *MNIST[1:]),
        grid(aggregator=["geomed", "krum", "coomed", "boba"], attack=ALSO_NONE, seed=SEEDS),
    ),
    "fig3": ("mnist", (10, *MNIST[1:]), grid(aggregator=WITHOUT_SERVER, attack=["none"], seed=["0"])),
    "fig4": (
        "mnist",
        MNIST,
        grid(server_data__corruption__kinds=NOISES, aggregator=["boba"], attack=ALSO_NONE, seed=SEEDS),
    ),
    "fig5": ("ag_news", ABLATION, grid(aggregator=["boba"], attack=ALSO_NONE, seed=["0"])),
    "fig6": (
        "mnist",
        MNIST,
        {
            "aggregator@aggregator.rule": ["trmean", "mkrum", "geomed", "b_mkrum"],
            "aggregator.server_weight": ["0", "0.25", "0.5", "0.75", "1"],
            "attack": ALSO_NONE,
            "seed": SEEDS,
        },
    ),
    "fig7": (
        "cifar10",
        CIFAR10,
        grid(server_data__corruption__kinds=NOISES, aggregator=["boba"], attack=ALSO_NONE, seed=SEEDS),
    ),
    "fig8": (
        "ag_news",
        AG_NEWS,
        grid(
            server_data__samples_per_class=["30", "[40,40,20,20]"],
            aggregator=["server", "selfrej", "avgrej", "zeno", "fltrust", "bygars", "boba"],
            attack=["none", "gauss", "ipm", "lie", "mimic"],
            seed=SEEDS,
        ),
    ),
    "fig9": (
        "cifar10",
        CIFAR10,
        grid(
            server_data__samples_per_class=["1", "5", "10", "20", "40", "80", "160", "320"],
            aggregator=["boba"],
            attack=["ipm"],
            seed=SEEDS,
        ),
    ),
    "fig10": (
        "ag_news",
        AG_NEWS,
        grid(
            num_byzantine_declared=["0", "20", "40", "60", "80", "100"],
            num_byzantine=["0", "18", "36", "54"],
            aggregator=["boba"],
            attack=["ipm"],
            seed=SEEDS,
        ),
    ),
    "fig11": (
        "cifar10",
        CIFAR10,
        grid(aggregator__p_min=["-1", "-0.7", "-0.5", "-0.2", "-0.1", "0"], attack=["none", "ipm"], seed=SEEDS),
    ),
    "fig12": (
        "mnist",
        MNIST,
        grid(
            partition__alpha=["1", "2", "4", "8", "inf"],
            aggregator=["trmean", "mkrum", "geomed", "fltrust", "boba"],
            attack=ALSO_NONE,
            seed=SEEDS,
        ),
    ),
    "fig13": (
        "mnist",
        (1, *MNIST[1:]),
        grid(
            partition=["iid", "pathological"],
            local_update=LOCAL,
            aggregator=["average"],
            attack=["none"],
            seed=["0"],
        ),
    ),
    "fig14": ("mnist", MNIST, grid(local_update=LOCAL, aggregator=["boba"], attack=ALSO_NONE, seed=SEEDS)),
}
RUNS = {  # at paper scale: cells of the table times seeds
    **{f"table1_{d}": 80 for d in TABLE6},
    **{f"table2_{d}": 450 for d in TABLE6},
    **{f"table7_{d}": 140 for d in TABLE6},
    **{"table3": 140, "table4": 175, "table8": 560, "table9": 525, "fig1": 1, "fig2": 140, "fig3": 15, "fig4": 140},
    **{"fig5": 7, "fig6": 700, "fig7": 140, "fig8": 350, "fig9": 40, "fig10": 120, "fig11": 60, "fig12": 875},
    **{"fig13": 6, "fig14": 105},
}


def jobs(name: str, scale: str) -> list[dict[str, str]]:
    return presets.jobs(f"boba/{name}", f"scale={scale}")


def planned(name: str, scale: str, job: dict[str, str]) -> presets.Plan:
    return presets.planned(f"boba/{name}", job, f"scale={scale}")


def kind(part: dict[str, Any]) -> str:
    return str(part["_target_"]).rsplit(".", 1)[-1]


def test_there_is_a_preset_for_every_table_and_figure() -> None:
    assert presets.names("boba") == set(PRESETS) == set(RUNS)
    assert {f"fig{number}" for number in range(1, 15)} < set(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_begins_with_its_command(name: str) -> None:
    lines = presets.first_lines(f"boba/{name}")
    assert lines[:2] == ["# @package _global_", f"# robustfl-bench -m +experiment=boba/{name}"]
    number = name.split("_")[0].removeprefix("table").removeprefix("fig")
    assert f"BOBA, {'Table' if name.startswith('table') else 'Fig.'} {number}" in lines[2]


@pytest.mark.parametrize("name", PRESETS)
def test_paper_scale_is_the_papers(name: str) -> None:
    dataset, (rounds, lr, decay, clients, byzantine, declared, samples), swept = PRESETS[name]
    runs = jobs(name, "paper")
    assert len(runs) == RUNS[name]
    for key, values in swept.items():
        assert list(dict.fromkeys(run[key] for run in runs)) == values
        if key in GROUPS:
            assert all((CONF / key / f"{value}.yaml").is_file() for value in values)
    assert set(runs[0]) == set(swept)

    last = planned(name, "paper", runs[-1])
    s, identity = last.settings, last.identity
    assert (s.rounds, s.lr, s.num_clients, s.seed) == (rounds, lr, clients, int(runs[-1]["seed"]))
    assert s.batch_size is None and s.byzantine_placement == "add"
    assert s.num_byzantine == (0 if runs[-1]["attack"] == "none" else byzantine)
    assert s.num_byzantine_declared == (100 if name == "fig10" else declared)
    assert s.participation == (float(runs[-1]["participation"]) if name == "table8" else 1)
    assert (identity["schedule"]["start"], identity["schedule"]["interval"], identity["schedule"]["factor"]) == decay
    assert last.parts.dataset.name == dataset and kind(identity["model"]) == MODELS[dataset]
    assert identity["server_data"]["samples_per_class"] == {"fig8": [40, 40, 20, 20], "fig9": 320}.get(name, samples)
    partition = {"fig12": "Step"}.get(name, "Dirichlet" if name.startswith("table7") else "Pathological")
    assert kind(identity["partition"]) == partition
    assert kind(identity["local_update"]) == ("FedAvg" if "local_update" in swept else "FedSgd")
    assert ("corruption" in identity) == (name in ("table3", "table9"))
    assert ("corruption" in identity["server_data"]) == (name in ("fig4", "fig7"))


@pytest.mark.parametrize("name", PRESETS)
def test_quick_scale_is_the_same_grid_on_a_laptop(name: str) -> None:
    paper, quick = jobs(name, "paper"), jobs(name, "quick")
    assert {run["seed"] for run in quick} == {"0"}
    assert len(quick) == len(paper) // len({run["seed"] for run in paper})
    if name != "fig10":
        assert [run for run in paper if run["seed"] == "0"] == quick
    settings = planned(name, "quick", quick[-1]).settings
    assert settings.scale == "quick" and settings.rounds <= 60 and settings.batch_size in (32, 64)
    assert settings.num_clients <= 48 and settings.num_byzantine < settings.num_clients / 2
    assert settings.num_byzantine_declared >= settings.num_byzantine


def test_details_of_single_presets() -> None:
    corruption = planned("table9", "paper", {"attack": "ipm", "aggregator": "boba", "seed": "0"}).identity["corruption"]
    assert corruption["severity"] == 3 and corruption["kinds"] is None
    noise = planned("fig7", "paper", jobs("fig7", "paper")[0]).identity["server_data"]["corruption"]
    assert noise["severity"] == 3 and noise["kinds"] == ["gaussian_noise"]
    dirichlet = planned("table7_ag_news", "paper", {"aggregator": "boba", "attack": "none", "seed": "0"}).identity
    assert dirichlet["partition"]["alpha"] == 0.01
    ends = (jobs("fig12", "paper")[i] for i in (0, -1))
    step = [planned("fig12", "paper", run).identity["partition"] for run in ends]
    assert [(part["alpha"], part["major_classes"]) for part in step] == [(1, 2), (float("inf"), 2)]
    prox, avg = (
        planned("fig14", "paper", {"local_update": name, "attack": "ipm"}).identity["local_update"]
        for name in ("fedprox", "fedavg")
    )
    assert (prox["epochs"], prox["mu"], prox["server_lr"]) == (5, 0.01, 1)
    assert (avg["epochs"], avg["mu"], avg["server_lr"]) == (5, 0, 1)
    mixed = planned("fig6", "paper", jobs("fig6", "paper")[-1]).identity["aggregator"]
    assert mixed["server_weight"] == 1 and mixed["rule"]["rule"]["num_byzantine"] == 16
    assert mixed["rule"]["pre_aggregation"]["bucket_size"] == 2
    assert planned("fig11", "paper", jobs("fig11", "paper")[0]).identity["aggregator"]["p_min"] == -1


@pytest.mark.parametrize(
    ("participation", "clients", "declared"), [("0.25", 54, 15), ("0.75", 160, 45), ("1.0", 214, 60)]
)
def test_with_fewer_clients_the_server_assumes_fewer_attackers(participation: str, clients: int, declared: int) -> None:
    settings = planned("table8", "paper", {"participation": participation, "attack": "ipm"}).settings
    assert (settings.clients_per_round, settings.num_byzantine_declared) == (clients, declared)


def test_a_preset_gives_way_to_the_command_line() -> None:
    run = planned("fig12", "quick", {"partition": "iid", "attack": "ipm", "num_byzantine": "2", "rounds": "5"})
    assert kind(run.identity["partition"]) == "IID"
    assert (run.settings.num_byzantine, run.settings.rounds) == (2, 5)
