"""The presets of ARFL's tables and figures: set as paper and code say."""

from typing import Any

import pytest

from tests import presets

METHODS = ("fedavg", "rfa", "mkrum", "cfl", "arfl")
TABLE1 = {  # rounds, clients, of them in a round, corrupted, rate, batch, epochs
    "table2_cifar10": (2000, 100, 20, (30, 50), 0.01, 32, 5),
    "table2_femnist": (2000, 1039, 32, (311, 519), 0.01, 64, 20),
    "table2_shakespeare": (100, 71, 16, (21, 35), 0.6, 10, 1),
    "writers": (60, 539, 32, (161, 269), 0.1, 32, 5),
}
jobs, planned = presets.of("arfl")


@pytest.mark.parametrize("name", TABLE1)
def test_settings_are_those_of_table_1(name: str) -> None:
    rounds, clients, present, corrupted, lr, batch, epochs = TABLE1[name]
    attacked = [job for job in jobs(name) if job["attack"] == "noisy"]
    for number, job in zip(corrupted, (attacked[0], attacked[-1]), strict=True):
        made = planned(name, job)
        s = made.settings
        assert (s.rounds, s.num_clients, s.num_byzantine, s.lr, s.batch_size) == (rounds, clients, number, lr, batch)
        assert round(s.participation * clients) == present and s.byzantine_placement == "replace"
        assert made.parts.local_update.epochs == epochs


def test_methods_are_those_of_the_code() -> None:
    made = {
        method: next(planned("table2_cifar10", job).parts.aggregator
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
    lambdas = {job["attack"]: planned("writers", job).parts.aggregator.regularization
               for job in jobs("writers") if job["+method"] == "arfl/arfl"}  # fmt: skip
    assert lambdas == {"none": 10000, "label_shuffle": 1, "label_flip_one": 1, "noisy": 1}


def test_the_ten_clients_of_the_weights_figures() -> None:
    made = planned("fig6", jobs("fig6")[0])
    s, identity = made.settings, made.identity
    assert (s.num_clients, s.num_byzantine, s.participation) == (10, 3, 1.0)
    assert identity["partition"]["alpha"] == 0.5 and made.parts.aggregator.regularization == 1
    swept = [planned("fig5", job).parts.aggregator.regularization for job in jobs("fig5")]
    assert swept == [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100]
