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


def _brings(steps: int, lr: float, offset: int, single: float) -> dict[str, dict[str, Any]]:
    """Rates and uploads: RAGA's are printed; with 0.01, or ``single`` where a round is one step, the others come near
    their printed accuracies without attack."""
    local = {"local_update": "local_sgd", "schedule": "constant", "lr": 0.01, "local_update.upload": "difference"}
    own = {
        "local_update": "local_sgd", "local_update.steps": steps, "local_update.upload": "mean_gradient", "lr": lr,
        "schedule": "inverse_sqrt", "schedule.offset": offset, "schedule.factor": steps,
    }  # fmt: skip
    saga = {"local_update": "saga", "schedule": "constant", "lr": single}
    others = {rule: local | {"local_update.steps": steps} for rule in ("fedavg", "median", "rfa")}
    return {"raga": own, "byrd_saga": saga, "mca": local | {"local_update.steps": 1, "lr": single}, **others}


_SMALL, _VGG16 = _brings(3, 0.4472135955, 5, single=0.02), _brings(1, 0.04, 100, single=0.01)


def _phi(phi: str) -> Part:
    return Part(f"phi={phi}", {"setting": f"phi={phi}"}, {"partition.alpha": float(phi)})


def _table(number: int, roman: str, title: str, brings: dict[str, dict[str, Any]], blocks: tuple[Part, ...],
           **runs: Any) -> PaperTable:  # fmt: skip
    return PaperTable(
        name=f"raga/table{number}",
        title=f"RAGA, Table {roman}: {title}",
        published={"table": roman},
        runs={"partition": "dirichlet", "partition.per": "class", "partition.min_size": 32, "num_clients": _CLIENTS,
              "byzantine_placement": "replace", "batch_size": 32, **runs},
        methods=_RULES,
        columns=_COLUMNS,
        blocks=blocks,
        brings=brings,
        values={"accuracy": "best_accuracy"},
        repeats="one run",
    )  # fmt: skip


_BOTH_PHI = (_phi("0.6"), _phi("0.2"))
_CIFAR10: dict[str, dict[str, Any]] = {
    "lenet": {"model": "lenet", "model.channels": [64, 64], "model.dense": [384, 192]},
    "mlp": {"model": "mlp", "model.hidden": [200, 200]},
}
TABLES = [
    _table(2, "II", "MNIST, LeNet", _SMALL, _BOTH_PHI, dataset="mnist", model="lenet", rounds=500),
    _table(3, "III", "MNIST, MLP", _SMALL, _BOTH_PHI, dataset="mnist", model="mlp", rounds=500,
           **{"model.hidden": [200, 100]}),
    _table(4, "IV", "CIFAR-10, phi=0.4", _SMALL,
           tuple(Part(name, {"model": name}, runs | {"partition.alpha": 0.4}) for name, runs in _CIFAR10.items()),
           dataset="cifar10", rounds=500),
    _table(5, "V", "CIFAR-100, VGG16", _VGG16, (_phi("0.6"),), dataset="cifar100", model="vgg16", rounds=100),
]  # fmt: skip
