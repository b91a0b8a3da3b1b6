"""The presets of ARFL's tables and figures: how many runs each makes, and that they are set as paper and code say."""

from typing import Any

import pytest

from tests import presets

METHODS = ("fedavg", "rfa", "mkrum", "cfl", "arfl")
RUNS = {  # at paper scale; methods x scenarios x shares x seeds
    "table2_cifar10": 5 * 4 * 2 * 5, "table2_femnist": 5 * 4 * 2 * 5, "table2_shakespeare": 5 * 4 * 2 * 5,
    "writers": 5 * 4 * 2 * 5, "fig2": 4 * 4 * 5, "fig3": 10 * 5, "fig4": 4 * 5, "fig5": 10, "fig6": 1, "fig7": 2,
}  # fmt: skip
TABLE1 = {  # rounds, clients, of them in a round, corrupted, rate, batch, epochs
    "table2_cifar10": (2000, 100, 20, (30, 50), 0.01, 32, 5),
    "table2_femnist": (2000, 1039, 32, (311, 519), 0.01, 64, 20),
    "table2_shakespeare": (100, 71, 16, (21, 35), 0.6, 10, 1),
    "writers": (60, 539, 32, (161, 269), 0.1, 32, 5),
}
jobs, planned = presets.of("arfl")


def test_there_is_a_preset_for_every_table_and_figure() -> None:
    assert presets.names("arfl") == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_a_preset_begins_with_its_command_and_makes_its_runs(name: str) -> None:
    assert presets.first_lines(f"arfl/{name}")[1] == f"# robustfl-bench -m +experiment=arfl/{name}"
    assert len(jobs(name)) == RUNS[name]
    shorter = jobs(name, "scale=quick")
    assert len(shorter) in (RUNS[name], RUNS[name] // 5)
    assert planned(name, shorter[-1], "scale=quick").settings.rounds <= 40


@pytest.mark.parametrize("name", TABLE1)
def test_settings_are_those_of_table_1(name: str) -> None:
    rounds, clients, present, corrupted, lr, batch, epochs = TABLE1[name]
    attacked = [job for job in jobs(name) if job["attack"] == "noisy"]
    for number, job in zip(corrupted, (attacked[0], attacked[-1]), strict=True):
        made = planned(name, job)
        s = made.settings
        assert (s.rounds, s.num_clients, s.num_byzantine, s.lr, s.batch_size) == (rounds, clients, number, lr, batch)
        assert round(s.participation * clients) == present and s.byzantine_placement == "replace"
        assert made.parts["local_update"].epochs == epochs


def test_methods_are_those_of_the_code() -> None:
    made = {
        method: next(planned("table2_cifar10", job).parts["aggregator"]
                     for job in jobs("table2_cifar10")
                     if (job["+method"], job["attack"]) == (f"arfl/{method}", "noisy"))
        for method in METHODS
    }  # fmt: skip
    assert made["fedavg"].weighted
    assert (made["rfa"].nu, made["rfa"].steps, made["rfa"].weighted) == (1e-5, 4, True)
    mkrum: Any = made["mkrum"]
    assert (mkrum.num_byzantine, mkrum.squared, mkrum.self_distance, mkrum.weighted) == (None, False, True, True)
    assert made["arfl"].regularization == 1


def test_arfl_knows_which_runs_are_clean() -> None:
    lambdas = {job["attack"]: planned("writers", job).parts["aggregator"].regularization
               for job in jobs("writers") if job["+method"] == "arfl/arfl"}  # fmt: skip
    assert lambdas == {"none": 10000, "label_shuffle": 1, "label_flip_one": 1, "noisy": 1}


def test_the_ten_clients_of_the_weights_figures() -> None:
    made = planned("fig6", jobs("fig6")[0])
    s, identity = made.settings, made.identity
    assert (s.num_clients, s.num_byzantine, s.participation) == (10, 3, 1.0)
    assert identity["partition"]["alpha"] == 0.5 and made.parts["aggregator"].regularization == 1
    swept = [planned("fig5", job).parts["aggregator"].regularization for job in jobs("fig5")]
    assert swept == [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100]
