"""The tables of ARFL: Li, Ngai, Ye, Voigt, arXiv:2101.05880; settings from its Table 1 and its code.

On CIFAR-10 the code takes batches of 32 and one augmented copy of the data per round, where the text says 64; and its
noisy clients have no noise, which only FedAvg's and ARFL's printed numbers agree with. Here they have.

``arfl/writers`` is no table of the paper: MNIST by its 539 writers stands in for FEMNIST, whose printed numbers are
beside it: another data set under another network.
"""

from typing import Any

from robustfl_bench.papers.tables import Column, PaperTable

_RULES = ("fedavg", "rfa", "mkrum", "cfl", "arfl")
_SCENARIOS = ("label_shuffle", "label_flip_one", "noisy")
_BRINGS: dict[str, dict[str, Any]] = {
    "fedavg": {"aggregator.weighted": True},
    "rfa": {"aggregator.nu": 1e-5, "aggregator.steps": 4, "aggregator.weighted": True},
    "mkrum": {
        "aggregator.num_byzantine": None, "aggregator.squared": False, "aggregator.self_distance": True,
        "aggregator.weighted": True,
    },
}  # fmt: skip
_CLEAN = {"arfl": {"aggregator.regularization": 10000.0}}
_SETTINGS: dict[str, tuple[str, str, dict[str, Any]]] = {  # by preset: what is printed, of which data set, settings
    "table2_cifar10": ("CIFAR-10, CNN", "cifar10", {
        "dataset": "cifar10", "dataset.scaling": "unit", "model": "cnn_glorot", "partition": "iid", "num_clients": 100,
        "participation": 20 / 100, "lr": 0.01, "batch_size": 32, "rounds": 2000, "local_update": "fedavg",
        "local_update.epochs": 5, "augmentation": "shift_flip",
    }),
    "table2_femnist": ("FEMNIST, CNN", "femnist", {
        "dataset": "femnist", "model": "femnist_cnn", "partition": "natural", "num_clients": 1039,
        "participation": 32 / 1039, "lr": 0.01, "batch_size": 64, "rounds": 2000, "local_update": "fedavg",
        "local_update.epochs": 20,
    }),
    "table2_shakespeare": ("Shakespeare, LSTM", "shakespeare", {
        "dataset": "shakespeare", "model": "lstm", "partition": "natural", "num_clients": 71,
        "participation": 16 / 71, "lr": 0.6, "batch_size": 10, "rounds": 100, "local_update": "fedavg_clipped",
        "local_update.epochs": 1,
    }),
    "writers": ("MNIST by 539 writers, MLP, in the place of FEMNIST (as published)", "femnist", {
        "dataset": "mnist_writers", "dataset.scaling": "unit", "model": "mlp", "partition": "natural",
        "num_clients": 539, "participation": 32 / 539, "lr": 0.1, "batch_size": 32, "rounds": 60,
        "local_update": "fedavg", "local_update.epochs": 5,
    }),
}  # fmt: skip


def _columns(clients: int) -> tuple[Column, ...]:
    corrupted = tuple(
        Column(
            f"{name} {fraction}",
            {"attack": name, "attack_fraction": fraction},
            {"attack": name, "num_byzantine": int(float(fraction) * clients)},
        )
        for name in _SCENARIOS
        for fraction in ("0.3", "0.5")
    )
    clean = Column("none", {"attack": "none"}, {"attack": "none", "num_byzantine": 0}, brings=_CLEAN)
    return (clean, *corrupted)


TABLES = [
    PaperTable(
        name=f"arfl/{preset}",
        title=f"ARFL, Table 2: {title}",
        published={"table": "2", "dataset": dataset},
        runs={"byzantine_placement": "replace"} | settings,
        methods=_RULES,
        columns=_columns(settings["num_clients"]),
        brings=_BRINGS,
        stand_in=settings["dataset"] == "mnist_writers",
    )
    for preset, (title, dataset, settings) in _SETTINGS.items()
]
