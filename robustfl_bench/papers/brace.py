"""The tables of BRACE: Fang, Liu, Zhao, Liu, WWW Companion 2025; test error and success rate as fractions, one run."""

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


def _table(letter: str, dataset: str, title: str, model: str, rounds: int) -> PaperTable:
    return PaperTable(
        name=f"brace/table2{letter}",
        title=f"BRACE, Table 2({letter}): {title}",
        published={"table": f"2{letter}"},
        runs={"dataset": dataset, "model": model, "partition": "fang", "partition.q": 0.5, "num_clients": 100,
              "byzantine_placement": "replace", "rounds": rounds},
        methods=_RULES,
        columns=_COLUMNS,
        values={"test_error": "test_error", "attack_success_rate": "attack_success_rate"},
        repeats="one run",
    )  # fmt: skip


TABLES = [
    _table("a", "fashion_mnist", "Fashion-MNIST, CNN", "cnn", 300),
    _table("b", "cifar10", "CIFAR-10, ResNet-20", "resnet20", 500),
]
