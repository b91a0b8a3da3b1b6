"""The tables of RAGA: Zuo et al., arXiv:2403.13374; single runs, the best accuracy over all rounds.

``attack_fraction`` is the share of the data that Byzantine clients hold; with 50 clients it is taken here as the share
of clients, who replace honest ones.
"""

from typing import Any

from robustfl_bench.papers.tables import Column, PaperTable, Part

_RULES = ("raga", "fedavg", "median", "byrd_saga", "rfa", "mca")
_CLIENTS = 50
_ATTACKS: dict[str, dict[str, Any]] = {
    "gaussian": {"attack": "gaussian", "attack.variance": 90},
    "sign_flip": {"attack": "sign_flip"},
    "lie": {"attack": "lie", "attack.z": 0.7, "attack.sign": "plus"},
}
_COLUMNS = (
    Column("none", {"attack": "none"}, {"attack": "none", "num_byzantine": 0}),
    *(
        Column(
            f"{attack} {fraction}",
            {"attack": attack, "attack_fraction": fraction},
            runs | {"num_byzantine": round(float(fraction) * _CLIENTS)},
        )
        for attack, runs in _ATTACKS.items()
        for fraction in ("0.1", "0.2", "0.3", "0.4")
    ),
)


def _phi(phi: str) -> Part:
    return Part(f"phi={phi}", {"setting": f"phi={phi}"}, {"partition.alpha": float(phi)})


def _table(number: int, roman: str, dataset: str, title: str, blocks: tuple[Part, ...], **runs: Any) -> PaperTable:
    return PaperTable(
        name=f"raga/table{number}",
        title=f"RAGA, Table {roman}: {title}",
        published={"table": roman},
        runs={"dataset": dataset, "partition": "dirichlet", "num_clients": _CLIENTS, "byzantine_placement": "replace",
              "batch_size": 32, **runs},
        methods=_RULES,
        columns=_COLUMNS,
        blocks=blocks,
        values={"accuracy": "best_accuracy"},
        repeats="one run",
    )  # fmt: skip


TABLES = [
    _table(2, "II", "mnist", "MNIST, LeNet", (_phi("0.6"), _phi("0.2")), model="lenet", rounds=500),
    _table(3, "III", "mnist", "MNIST, MLP", (_phi("0.6"), _phi("0.2")), model="mlp", rounds=500),
    _table(
        4, "IV", "cifar10", "CIFAR-10, phi=0.4",
        tuple(Part(model, {"model": model}, {"model": model, "partition.alpha": 0.4}) for model in ("lenet", "mlp")),
        rounds=500,
    ),
    _table(5, "V", "cifar100", "CIFAR-100, VGG16", (_phi("0.6"),), model="vgg16", rounds=100),
]  # fmt: skip
