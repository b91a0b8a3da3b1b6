"""BOBA's settings are those of its Table 6, at paper scale, and its figures vary what the text says."""

from typing import Any

import pytest

from robustfl_bench.runner.config.compose import resolve, swept
from tests import presets

# Table 6: rounds, initial rate, decay (start, interval, factor), honest clients, real and declared Byzantine clients,
# server samples per class.
TABLE6 = {
    "mnist": (200, 0.1, (100, 10, 0.95), 100, 15, 16, 20),
    "cifar10": (2000, 0.2, (1000, 100, 0.8), 100, 15, 16, 20),
    "ag_news": (200, 1.0, (100, 10, 0.95), 160, 54, 60, 30),
    "ag_news_ablation": (200, 1.0, (100, 10, 0.95), 16, 2, 2, 30),
}
MODELS = {"mnist": "mlp", "cifar10": "cnn", "ag_news": "gru", "ag_news_ablation": "gru"}


def kind(part: dict[str, Any]) -> str:
    return str(part["_target_"]).rsplit(".", 1)[-1]


def figure(name: str, *overrides: str) -> Any:
    return resolve([f"+experiment=boba/{name}", *overrides]).config


@pytest.mark.parametrize("name", TABLE6)
def test_settings_are_those_of_table_6(name: str) -> None:
    run = resolve([f"+setting=boba/{name}", "attack=ipm"])
    c = run.config
    decay = (c["schedule"]["start"], c["schedule"]["interval"], c["schedule"]["factor"])
    assert (
        c["rounds"], c["lr"], decay, c["num_clients"], c["num_byzantine"], c["num_byzantine_declared"],
        c["server_data"]["samples_per_class"],
    ) == TABLE6[name]  # fmt: skip
    assert (run.choices["dataset"], run.choices["model"]) == (name.removesuffix("_ablation"), MODELS[name])
    assert (run.choices["partition"], run.choices["local_update"]) == ("pathological", "fedsgd")
    assert c["batch_size"] is None and c["byzantine_placement"] == "add" and c["participation"] == 1


@pytest.mark.parametrize("name", TABLE6)
def test_quick_scale_is_for_a_laptop(name: str) -> None:
    c = resolve([f"+setting=boba/{name}", "attack=ipm", "scale=quick"]).config
    assert c["rounds"] <= 60 and c["batch_size"] in (32, 64) and c["num_clients"] <= 48
    assert c["num_byzantine"] < c["num_clients"] / 2 and c["num_byzantine_declared"] >= c["num_byzantine"]


def test_details_of_single_presets() -> None:
    for name in ("table3", "table9"):
        assert figure(name)["corruption"]["severity"] == 3 and figure(name)["corruption"]["kinds"] is None
    noise = figure("fig7", "server_data.corruption.kinds=[gaussian_noise]")["server_data"]["corruption"]
    assert noise["severity"] == 3 and noise["kinds"] == ["gaussian_noise"]
    assert figure("table7_ag_news")["partition"]["alpha"] == 0.5
    alphas = swept(["+experiment=boba/fig12"])["partition.alpha"]
    assert (alphas[0], alphas[-1]) == ("1", "inf") and figure("fig12")["partition"]["major_classes"] == 2
    prox, avg = (figure("fig14", f"local_update={name}")["local_update"] for name in ("fedprox", "fedavg"))
    assert (prox["epochs"], prox["mu"], prox["server_lr"]) == (5, 0.01, 1)
    assert (avg["epochs"], avg["mu"], avg["server_lr"]) == (5, 0, 1)
    mixed = figure("fig6", "aggregator@aggregator.rule=b_mkrum", "aggregator.server_weight=1")["aggregator"]
    assert mixed["rule"]["rule"]["num_byzantine"] == 16 and mixed["rule"]["pre_aggregation"]["bucket_size"] == 2
    assert swept(["+experiment=boba/fig11"])["aggregator.p_min"][0] == "-1"
    assert swept(["+experiment=boba/fig8"])["server_data.samples_per_class"] == ["30", "[40,40,20,20]"]


@pytest.mark.parametrize(
    ("participation", "clients", "declared"), [("0.25", 54, 15), ("0.75", 160, 45), ("1.0", 214, 60)]
)
def test_with_fewer_clients_the_server_assumes_fewer_attackers(participation: str, clients: int, declared: int) -> None:
    settings = presets.planned("+experiment=boba/table8", f"participation={participation}", "attack=ipm").settings
    assert (settings.clients_per_round, settings.num_byzantine_declared) == (clients, declared)


def test_a_preset_gives_way_to_the_command_line() -> None:
    run = figure("fig12", "scale=quick", "partition=iid", "attack=ipm", "num_byzantine=2", "rounds=5")
    assert kind(run["partition"]) == "IID" and (run["num_byzantine"], run["rounds"]) == (2, 5)
