"""The memory of whole runs beside what the check before a run predicts, and how both grow with the clients.

    python scripts/benches/bench_memory.py [--cases NAME ...] [--data-dir FOLDER] [--csv FILE]

Every case is a run of three rounds on one thread in a process of its own, as by ``robustfl-bench``: its data are read
and dealt out, rounds made, models tested, files written. "peak" is the most memory that the process had, less what it
had before the run; "predicted" what the check counts, a lower bound without which the run is refused. "most" is the
largest part of it. "CPU s" is the time of the second round, without a test: compare cases, not machines. "/ 1,600" is
that time over that of the same rule with 1,600 clients.

A case that ends in ``resumed`` is stopped before its last round, and what is measured is the process that resumes it.
"""

import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benches import alone, conditions, highest, parser, report  # first: sets how idle threads wait

# isort: split
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment import memory
from robustfl_bench.runner.experiment.execute import completing
from robustfl_bench.runner.experiment.machine import choose_device
from robustfl_bench.runner.experiment.networks import num_params
from robustfl_bench.runner.experiment.plan import plan

ROUNDS = 3
MB = 1e6
MNIST = ("dataset=mnist", "partition=iid", "attack=none", "local_update=fedsgd")
TEN_THOUSAND = ("model.hidden=[12]", "batch_size=8")  # parameters: 784 * 12 + 12 + 12 * 10 + 10 = 9,550
DEVICES = ("dataset=mnist", "partition=iid", "attack=none", "num_clients=10000", "participation=0.01", "batch_size=3",
           "model.hidden=[1000,500]")  # fmt: skip
RULES = ("average", "trmean", "krum")
SIZES = (100, 400, 1600, 6400)

CASES: dict[str, tuple[str, ...]] = {
    "digits": ("attack=none",),
    "mlp": (*MNIST, "num_clients=100"),
    "mlp batch 64": (*MNIST, "num_clients=100", "batch_size=64"),
    "mlp n=600": (*MNIST, "num_clients=600", "batch_size=64"),
    **{f"{rule} n={n:,}": (*MNIST, *TEN_THOUSAND, f"num_clients={n}", f"aggregator={rule}")
       for rule in RULES for n in SIZES},
    "nnm n=1,600": (*MNIST, *TEN_THOUSAND, "num_clients=1600", "pre_aggregation=nnm", "num_byzantine_declared=100"),
    "cifar10 cnn": ("+setting=boba/cifar10", "batch_size=32", "attack=ipm", "aggregator=trmean"),
    "cifar10 cnn full": ("+setting=boba/cifar10", "attack=ipm", "aggregator=trmean"),
    "ag_news gru": ("+setting=boba/ag_news", "batch_size=64", "attack=ipm", "aggregator=trmean"),
    "momentum devices": (*DEVICES, "local_update=momentum"),
    "saga devices": (*DEVICES, "local_update=saga"),
    "momentum mlp": (*MNIST[:-1], "num_clients=600", "batch_size=64", "local_update=momentum"),
    "momentum mlp resumed": (*MNIST[:-1], "num_clients=600", "batch_size=64", "local_update=momentum"),
}  # fmt: skip
ALWAYS = ("scale=paper", f"rounds={ROUNDS}", f"eval_every={ROUNDS}", "num_threads=1", "use_kept=false")


def measured(name: str, data_dir: str | None, results_dir: str) -> dict[str, Any]:
    """The row of a case. For a process of its own."""
    run = (*CASES[name], *ALWAYS, f"results_dir={results_dir}", *([f"data_dir={data_dir}"] if data_dir else ()))
    planned = plan(compose.resolve(run).config)
    device = choose_device("cpu")
    needs = memory.needs(planned, device)
    before = _most(forget=True)
    times = _times(completing(planned, silent=True))
    peak, predicted = _most() - before, sum(needs.values())
    row: dict[str, Any] = {"case": name, "n": planned.settings.clients_per_round}
    row |= {"d": num_params(planned.parts.model, planned.parts.dataset), "predicted MB": predicted / MB}
    row |= {"peak MB": peak / MB, "peak / predicted": peak / predicted, "CPU s": times[-1] if times else ""}
    return row | {"most": max(needs, key=lambda what: needs[what])}


def stopped(name: str, data_dir: str | None, results_dir: str) -> None:
    """Begin a case, and leave the checkpoint before its last round."""
    run = (*CASES[name], *ALWAYS, f"results_dir={results_dir}", *([f"data_dir={data_dir}"] if data_dir else ()))
    steps = completing(plan(compose.resolve(run).config), silent=True)
    while next(steps).state.round < ROUNDS - 1:
        pass
    with suppress(SystemExit):
        steps.throw(SystemExit())


def _times(steps: Any) -> list[float]:
    """Seconds of the processor from each stop of a run to the next, once it has ended."""
    times = []
    next(steps)
    with suppress(StopIteration):
        while True:
            began = time.process_time()
            steps.send(None)
            times.append(time.process_time() - began)
    return times


def _most(forget: bool = False) -> int:
    """The most bytes that this process has had in memory; ``forget``: from now on."""
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    return highest()


def with_growth(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with their times over those of the same case with 1,600 clients."""
    at = {row["case"]: row["CPU s"] for row in rows}
    for row in rows:
        base = at.get(f"{row['case'].partition(' n=')[0]} n=1,600")
        row["/ 1,600"] = row["CPU s"] / base if base and row["CPU s"] else ""
    return rows


def main() -> None:
    """Print the table."""
    arguments = parser(__doc__)
    arguments.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE", help="(all)")
    arguments.add_argument("--data-dir", help="the folder of the data sets")
    args = arguments.parse_args()
    print(conditions())
    rows: list[dict[str, Any]] = []
    for name in args.cases:
        with TemporaryDirectory() as folder:
            if name.endswith("resumed"):
                alone(stopped, name, args.data_dir, folder)
            rows.append(alone(measured, name, args.data_dir, folder))
    report(with_growth(rows), args.csv)


if __name__ == "__main__":
    main()
