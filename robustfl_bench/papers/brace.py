"""The tables of BRACE: Fang, Liu, Zhao, Liu, WWW Companion 2025; test error and success rate as fractions, one run;
and what a round costs.

Rates, batches and the strengths of the attacks are not printed: these are ours.
"""

from typing import Any

from robustfl_bench.papers.tables import Column, PaperTable, Published

_RULES = ("rar", "krum", "median", "trimmed_mean", "signsgd", "rlr", "brace")
_ATTACKS = ("label_flip", "gaussian", "krum_attack", "trim_attack", "minmax", "minsum", "backdoor", "adaptive")
_UNDER_ATTACK = {"num_byzantine": 20}  # 20% of the 100 clients
_STRENGTHS: dict[str, dict[str, Any]] = {"gaussian": {"attack.variance": 200 / 32**2}}
_COLUMNS = (
    Column("none", {"attack": "none"}, {"attack": "none", "num_byzantine": 0}, "test_error"),
    *(Column(name, {"attack": name}, {"attack": name} | _UNDER_ATTACK | _STRENGTHS.get(name, {}), "test_error")
      for name in _ATTACKS),
    Column(
        "backdoor success", {"attack": "backdoor"}, {"attack": "backdoor"} | _UNDER_ATTACK, "attack_success_rate"
    ),
)  # fmt: skip

_SIGNS = ("signsgd", "rlr", "brace")
_CLIENTS = {
    "partition": "fang",
    "partition.q": 0.5,
    "num_clients": 100,
    "num_byzantine_declared": 20,
    "byzantine_placement": "replace",
}
_FASHION = {"dataset": "fashion_mnist", "dataset.scaling": "unit", "model": "brace_cnn", "batch_size": 32}


def _rates(mean_lr: float, sign_lr: float) -> dict[str, dict[str, float]]:
    return {rule: {"lr": sign_lr if rule in _SIGNS else mean_lr} for rule in _RULES}


def _table(letter: str, title: str, mean_lr: float, sign_lr: float, **runs: Any) -> PaperTable:
    return PaperTable(
        name=f"brace/table2{letter}",
        title=f"BRACE, Table 2({letter}): {title}",
        published={"table": f"2{letter}"},
        runs={**_CLIENTS, **runs},
        methods=_RULES,
        columns=_COLUMNS,
        brings=_rates(mean_lr, sign_lr),
        values={"test_error": "test_error", "attack_success_rate": "attack_success_rate"},
        repeats="one run",
    )


def _costs() -> PaperTable:
    """Table 1 and what section 5.2 says of it: bits of a round, m n d in all to a server, and of a client on a ring."""
    m, n, d = 32, 100, 139_960  # d: the CNN for Fashion-MNIST
    server = dict.fromkeys(("krum", "median", "trimmed_mean"), m * n * d) | dict.fromkeys(("signsgd", "rlr"), n * d)
    ring = {"rar": 2 * m * d * (n - 1) / n} | dict.fromkeys(_SIGNS, d * (n - 1) * (m + 1) / n)
    fixed = {"paper": "brace", "table": "1", "dataset": "fashion_mnist", "model": "cnn", "attack": "none"}
    empty = dict.fromkeys(("partition", "byzantine", "attack_fraction", "setting"), "")
    return PaperTable(
        name="brace/table1",
        title=f"BRACE, Table 1: bits per round, n = {n}, m = {m}, d = {d}",
        published={"table": "1"},
        runs={**_CLIENTS, **_FASHION, "rounds": 1, "attack": "none", "num_byzantine": 0},
        methods=_RULES,
        columns=(
            Column("all, to a server", {}, {"communication": "star"}, "bits_total"),
            Column("a client, on a ring", {}, {"communication": "ring"}, "bits_per_client"),
        ),
        brings=_rates(0.3, 0.002),
        values={"bits_total": "bits_total", "bits_per_client": "bits_per_client"},
        repeats="by its formulas",
        formulas=tuple(
            Published({**fixed, **empty, "aggregator": rule, "metric": metric}, f"{bits / 1e6:.3f}", "")
            for metric, costs in (("bits_total", server), ("bits_per_client", ring))
            for rule, bits in costs.items()
        ),
    )


TABLES = [
    _costs(),
    _table("a", "Fashion-MNIST, CNN", 0.3, 0.002, rounds=300, **_FASHION),
    _table("b", "CIFAR-10, ResNet-20", 0.2, 0.001, dataset="cifar10", model="resnet20", rounds=500, batch_size=64),
]
