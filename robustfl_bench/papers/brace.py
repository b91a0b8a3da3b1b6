"""The tables of BRACE: Fang, Liu, Zhao, Liu, WWW Companion 2025; test error and success rate as fractions, one run.

Rates, batches and the strengths of the attacks are not printed: these are ours.
"""

from typing import Any

from robustfl_bench.papers.tables import Column, PaperTable

_RULES = ("rar", "krum", "median", "trimmed_mean", "signsgd", "rlr", "brace")
_ATTACKS = ("label_flip", "gaussian", "krum_attack", "trim_attack", "minmax", "minsum", "backdoor", "adaptive")
_UNDER_ATTACK = {"num_byzantine": 20}  # 20% of the 100 clients
_COLUMNS = (
    Column("none", {"attack": "none"}, {"attack": "none", "num_byzantine": 0}, "test_error"),
    *(Column(name, {"attack": name}, {"attack": name} | _UNDER_ATTACK, "test_error") for name in _ATTACKS),
    Column(
        "backdoor success", {"attack": "backdoor"}, {"attack": "backdoor"} | _UNDER_ATTACK, "attack_success_rate"
    ),
)  # fmt: skip


_SIGNS = ("signsgd", "rlr", "brace")


def _table(letter: str, title: str, mean_lr: float, sign_lr: float, **runs: Any) -> PaperTable:
    return PaperTable(
        name=f"brace/table2{letter}",
        title=f"BRACE, Table 2({letter}): {title}",
        published={"table": f"2{letter}"},
        runs={
            "partition": "fang",
            "partition.q": 0.5,
            "num_clients": 100,
            "num_byzantine_declared": 20,
            "byzantine_placement": "replace",
            **runs,
        },
        methods=_RULES,
        columns=_COLUMNS,
        brings={rule: {"lr": sign_lr if rule in _SIGNS else mean_lr} for rule in _RULES},
        values={"test_error": "test_error", "attack_success_rate": "attack_success_rate"},
        repeats="one run",
    )


TABLES = [
    _table("a", "Fashion-MNIST, CNN", 0.2, 0.001, dataset="fashion_mnist", model="brace_cnn", rounds=300, batch_size=32,
           **{"dataset.scaling": "unit"}),
    _table("b", "CIFAR-10, ResNet-20", 0.2, 0.001, dataset="cifar10", model="resnet20", rounds=500, batch_size=64),
]  # fmt: skip
