"""The tables of BOBA: Bao, Wu, He, AISTATS 2024; settings from its Table 6 and appendix C."""

from collections.abc import Mapping
from typing import Any

from robustfl_bench.papers.tables import Column, PaperTable, Part

_RULES = ("average", "coomed", "trmean", "krum", "mkrum", "geomed", "selfrej", "avgrej", "zeno", "fltrust", "bygars",
          "b_krum", "b_mkrum", "rage", "boba")  # fmt: skip
_FEW = ("average", "mkrum", "fltrust", "boba")
_ATTACKS = ("gauss", "ipm", "lie", "mimic", "minmax", "minsum")

_DATASETS: dict[str, tuple[str, int, dict[str, Any]]] = {  # what is printed, |B| under attack, settings
    "mnist": ("MNIST", 15, {
        "dataset": "mnist", "model": "mlp", "num_clients": 100, "num_byzantine_declared": 16, "rounds": 200, "lr": 0.1,
        "server_data.samples_per_class": 20, "schedule": "step", "schedule.start": 100, "schedule.interval": 10,
        "schedule.factor": 0.95,
    }),
    "cifar10": ("CIFAR-10", 15, {
        "dataset": "cifar10", "model": "cnn", "num_clients": 100, "num_byzantine_declared": 16, "rounds": 2000,
        "lr": 0.2, "server_data.samples_per_class": 20, "schedule": "step", "schedule.start": 1000,
        "schedule.interval": 100, "schedule.factor": 0.8,
    }),
    "ag_news": ("AG-News", 54, {
        "dataset": "ag_news", "model": "gru", "num_clients": 160, "num_byzantine_declared": 60, "rounds": 200, "lr": 1,
        "server_data.samples_per_class": 30, "schedule": "step", "schedule.start": 100, "schedule.interval": 10,
        "schedule.factor": 0.95,
    }),
}  # fmt: skip


def _none(*metrics: str) -> tuple[Column, ...]:
    """Columns without attack; with two, each says what it is."""
    runs = {"attack": "none", "num_byzantine": 0}
    return tuple(Column(f"none {metric}" if len(metrics) > 1 else "none", {"attack": "none"}, runs, metric)
                 for metric in metrics)  # fmt: skip


def _attacks(num_byzantine: int) -> tuple[Column, ...]:
    return tuple(
        Column(attack, {"attack": attack}, {"attack": attack, "num_byzantine": num_byzantine}) for attack in _ATTACKS
    )


_WORST = Column("Wst", {"attack": "worst"}, worst=True)


def _table(
    number: str,
    what: str,
    dataset: str,
    methods: tuple[str, ...],
    columns: tuple[Column, ...],
    *,
    each: bool = False,
    runs: Mapping[str, Any] | None = None,
    blocks: tuple[Part, ...] = (Part(),),
) -> PaperTable:
    """One table on one data set; ``each``: the paper prints several, and the name says which this is."""
    title, _, settings = _DATASETS[dataset]
    return PaperTable(
        name=f"boba/table{number}_{dataset}" if each else f"boba/table{number}",
        title=f"BOBA, Table {number}: {what}, {title}",
        published={"table": number, "dataset": dataset},
        runs={"partition": "pathological"} | settings | dict(runs or {}),
        methods=methods,
        columns=columns,
        blocks=blocks,
        repeats="mean (sd) over 5 seeds" if int(number) <= 4 else "mean (sd) over seeds whose number is not given",
    )


def _tables() -> list[PaperTable]:
    both = _none("accuracy", "mrd")
    tables = []
    for name, (_, byzantine, _) in _DATASETS.items():
        everything = (*both, *_attacks(byzantine), _WORST)
        skew = {"partition": "dirichlet", "partition.alpha": 0.01}
        tables += [
            _table("1", "no Byzantine clients", name, ("average", "server", *_RULES[1:]), both, each=True),
            _table("2", "under attack", name, _RULES, (*_attacks(byzantine), _WORST), each=True),
            _table("7", "Dirichlet partition", name, _FEW, everything, each=True, runs=skew),
        ]
    everything = (*both, *_attacks(15), _WORST)
    corrupted = {"corruption": "common", "corruption.severity": 3}
    ablation = {"num_clients": 16, "num_byzantine_declared": 2}
    parts = ("average", "boba_es", "boba", "boba_wo_stage1", "boba_wo_stage2")
    shares = tuple(  # what the server then declares is not printed: as many of those that take part as of all
        Part(
            f"participation={share}",
            {"setting": f"participation={share}"},
            {"participation": float(share), "num_byzantine_declared": round(60 * float(share))},
        )
        for share in ("0.25", "0.50", "0.75", "1.00")
    )
    return [
        *tables,
        _table("3", "image corruptions", "cifar10", _FEW, everything, runs=corrupted),
        _table("4", "ablation", "ag_news", parts, (*_none("accuracy"), *_attacks(2)), runs=ablation),
        _table("8", "participation", "ag_news", _FEW, (*both, *_attacks(54), _WORST), blocks=shares),
        _table("9", "image corruptions, all rules", "cifar10", _RULES, everything, runs=corrupted),
    ]


TABLES = sorted(_tables(), key=lambda table: table.published["table"])
