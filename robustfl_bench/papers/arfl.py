"""The tables of ARFL: Li, Ngai, Ye, Voigt, arXiv:2101.05880; settings from its Table 1."""

from typing import Any

from robustfl_bench.papers.tables import Column, PaperTable

_RULES = ("fedavg", "rfa", "mkrum", "cfl", "arfl")
_SCENARIOS = ("label_shuffle", "label_flip_one", "noisy")
_DATASETS: dict[str, tuple[str, dict[str, Any]]] = {  # what is printed, settings
    "cifar10": ("CIFAR-10, CNN", {
        "model": "cnn", "partition": "iid", "num_clients": 100, "participation": 20 / 100, "lr": 0.01, "batch_size": 64,
        "rounds": 2000,
    }),
    "femnist": ("FEMNIST, CNN", {
        "model": "femnist_cnn", "partition": "natural", "num_clients": 1039, "participation": 32 / 1039, "lr": 0.01,
        "batch_size": 64, "rounds": 2000,
    }),
    "shakespeare": ("Shakespeare, LSTM", {
        "model": "lstm", "partition": "natural", "num_clients": 71, "participation": 16 / 71, "lr": 0.6,
        "batch_size": 10, "rounds": 100,
    }),
}  # fmt: skip


def _columns(clients: int) -> tuple[Column, ...]:
    corrupted = tuple(
        Column(
            f"{name} {fraction}",
            {"attack": name, "attack_fraction": fraction},
            {"attack": name, "num_byzantine": round(float(fraction) * clients)},
        )
        for name in _SCENARIOS
        for fraction in ("0.3", "0.5")
    )
    return (Column("none", {"attack": "none"}, {"attack": "none", "num_byzantine": 0}), *corrupted)


TABLES = [
    PaperTable(
        name=f"arfl/table2_{dataset}",
        title=f"ARFL, Table 2: {title}",
        published={"table": "2", "dataset": dataset},
        runs={"dataset": dataset, "byzantine_placement": "replace"} | settings,
        methods=_RULES,
        columns=_columns(settings["num_clients"]),
    )
    for dataset, (title, settings) in _DATASETS.items()
]
