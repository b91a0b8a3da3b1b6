"""Time of a round's client gradients as a multiple of the bare matrix products of the same size, and of whole rounds.

    python scripts/benches/bench_rounds.py [--clients 100] [--samples 600 64] [--threads 1 2]
        [--neighbours 0 2] [--repeats 7] [--csv FILE]
    python scripts/benches/bench_rounds.py --before COMMIT --settings boba/ag_news boba/cifar10 ... [--set batch_size=64
        aggregator=krum ...] [--threads 1 2] [--repeats 7] [--cpu] [--csv FILE]

The shape is BOBA's MNIST setting: a 784-200-200-10 MLP and 100 clients, all their 600 samples or batches of 64. The
measure is the matrix products that any implementation must do (forward, backward to the hidden layers, one weight
gradient per client and layer), by `torch.mm` with nothing around them, on as many threads of PyTorch; where oneDNN is
faster than that, the engine is below 1. Beside it: the gradients by plain autograd, one client after the other, the way
a loop over clients with one model would do it, and whole rounds: batches drawn, 15 IPM attackers, and the mean, the
trimmed mean or Krum. ``--neighbours`` are processes that keep the cores busy.

With ``--before``, whole rounds of settings on their own data are compared with those of the package as of another
commit, in this process: training, attack, rule and server step, without a test. All figures are medians of one run,
taken in turn; compare ratios, not seconds.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
from benches import (  # first: sets how idle threads wait
    as_of,
    conditions,
    measured,
    medians,
    neighbours,
    parser,
    part_of,
    report,
)

# isort: split
import torch

from robustfl_bench.interfaces import Aggregator
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch, Population, Samples
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.average import Average
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.aggregators.trmean import TrMean
from robustfl_bench.parts.models.mlp import Mlp

WIDTHS = (784, 200, 200, 10)
UNTESTED = 1_000_000  # rounds between two tests


def products(clients: int, samples: int) -> Callable[[], object]:
    """The bare products of a round, client by client as they fit the cache."""
    inputs = [torch.randn(clients, samples, width) for width in WIDTHS[:-1]]
    deltas = [torch.randn(clients, samples, width) for width in WIDTHS[1:]]
    weights = [torch.randn(a, b) for a, b in pairwise(WIDTHS)]
    forward = [torch.empty(samples, width) for width in WIDTHS[1:]]
    backward = [torch.empty(samples, width) for width in WIDTHS[1:-1]]
    gradients = [torch.empty(clients, b, a) for a, b in pairwise(WIDTHS)]

    def work() -> None:
        for i in range(clients):
            for layer, weight in enumerate(weights):
                torch.mm(inputs[layer][i], weight, out=forward[layer])
            for layer in (2, 1):
                torch.mm(deltas[layer][i], weights[layer].T, out=backward[layer - 1])
            for layer in range(3):
                torch.mm(deltas[layer][i].T, inputs[layer][i], out=gradients[layer][i])

    return work


def plain_loop(network: Network, batch: Batch, out: torch.Tensor) -> Callable[[], object]:
    """Gradients by autograd with one module, one client after the other."""
    module = network.module
    parameters = list(module.parameters())

    def work() -> None:
        for row, x, y in zip(out, batch.x.split(batch.sizes), batch.y.split(batch.sizes), strict=True):
            gradients = torch.autograd.grad(network.criterion(module(x), y), parameters)
            torch.cat([gradient.reshape(-1) for gradient in gradients], out=row)

    return work


def by_torch(work: Callable[[], object], threads: int) -> Callable[[], object]:
    """The same on PyTorch's own threads, as code without threads of its own is run."""

    def run() -> None:
        torch.set_num_threads(threads)
        try:
            work()
        finally:
            torch.set_num_threads(1)

    return run


def works(
    network: Network, clients: int, samples: int, attackers: int, threads: int
) -> dict[str, Callable[[], object]]:
    """What is timed for clients with batches of so many samples."""
    held, everyone = max(600, samples), range(clients)
    x, y = torch.randn(clients * held, 1, 28, 28), torch.randint(10, (clients * held,))
    population = Population(x, y, np.split(np.arange(len(y)), clients))
    draw = Samples(population, everyone, everyone, 0, "batches", 0, None if samples == held else samples)
    storage, batch = torch.empty(clients + attackers, network.dim), draw.batch(0)
    out, counts = storage[:clients], torch.ones(clients, dtype=torch.float64)

    def whole_round(rule: Aggregator) -> Callable[[], object]:
        def work() -> torch.Tensor:
            network.gradients(network.initial, draw.batch(0), out)
            honest = Updates(out, counts)
            attack = (-10 * honest.mean).expand(attackers, -1)
            updates = honest.append(attack, torch.ones(attackers, dtype=torch.float64), storage)
            return network.initial - 0.1 * rule(updates, None).vector  # type: ignore[call-overload, no-any-return]

        return work

    return {
        "matrix products": by_torch(products(clients, samples), threads),
        "gradients": lambda: network.gradients(network.initial, batch, out),
        "plain loop": by_torch(plain_loop(network, batch, out), threads),
        "round, average": whole_round(Average()),
        "round, trmean": whole_round(TrMean(attackers)),
        "round, krum": whole_round(Krum(attackers)),
    }


def rounds_of(package: str, overrides: Sequence[str]) -> Iterator[Any]:
    """The states after the rounds of a run by a version of this package, each computed when it is asked for."""
    resolve = part_of(package, "config.compose:resolve", "config.presets:resolve")
    planned = part_of(package, "experiment.plan:plan")(resolve([*overrides, f"eval_every={UNTESTED}"]).config)
    data = part_of(package, "datasets:load")(planned.parts.dataset, None, torch.device("cpu"))
    federation = part_of(package, "engine.federation:Federation")(planned.settings, planned.parts, data)
    start = part_of(package, "engine.rounds:initial_state")(federation)
    return (state for state, _ in part_of(package, "engine.loop:run")(federation, start))


def compare(args: argparse.Namespace) -> list[dict[str, object]]:
    """The rows of whole rounds of settings, now and before."""
    packages, rows = {"now": "robustfl_bench", "before": as_of(args.before)}, []
    in_threads = part_of(packages["before"], "base.parallel:workers", "parallel:workers")
    for threads, setting in product(args.threads, args.settings):
        runs = {name: rounds_of(package, (f"+setting={setting}", *args.set)) for name, package in packages.items()}
        last: dict[str, torch.Tensor] = {}

        def go_on(name: str, runs: dict[str, Any] = runs, last: dict[str, torch.Tensor] = last) -> None:
            last[name] = next(runs[name]).params

        with measured(threads), in_threads(threads):
            seconds = medians({name: partial(go_on, name) for name in packages}, args.repeats, args.cpu)
        difference = float((last["now"] - last["before"]).norm() / last["before"].norm())
        rows.append(
            {"setting": setting, "with": " ".join(args.set), "threads": threads}
            | {f"{name}, ms": 1e3 * value for name, value in seconds.items()}
            | {"before / now": seconds["before"] / seconds["now"], "models differ by": difference}
        )
    return rows


def main() -> None:
    """Print the table, and write it with --csv."""
    arguments = parser(__doc__)
    arguments.add_argument("--clients", type=int, default=100, help="honest clients (100)")
    arguments.add_argument("--attackers", type=int, default=15, help="beside them (15)")
    arguments.add_argument("--samples", type=int, nargs="+", default=[600, 64], help="of a client in a round")
    arguments.add_argument("--neighbours", type=int, nargs="+", default=[0], help="busy processes beside this one (0)")
    arguments.add_argument(
        "--cpu", action="store_true", help="seconds of the processor, for a machine that is not idle"
    )
    arguments.add_argument("--before", metavar="COMMIT", help="compare rounds of settings with those of this commit")
    arguments.add_argument("--settings", nargs="+", default=["boba/ag_news", "boba/cifar10"], metavar="SETTING")
    arguments.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="overrides of all settings")
    args = arguments.parse_args()
    print(conditions())
    if args.before:
        print(f"medians of {args.repeats} rounds{', CPU time' * args.cpu}")
        report(compare(args), args.csv)
        return
    network, rows = Network(Mlp(), (1, 28, 28), 10, seed=0), []
    for threads, busy in ((threads, busy) for threads in args.threads for busy in args.neighbours):
        for samples in args.samples:
            with measured(threads), neighbours(busy):
                jobs = works(network, args.clients, samples, args.attackers, threads)
                seconds = medians(jobs, args.repeats)
            rows += [
                {"threads": threads, "neighbours": busy, "samples": samples, "what": name, "ms": 1e3 * value}
                | {"x products": value / seconds["matrix products"]}
                for name, value in seconds.items()
            ]
    widths = "-".join(map(str, WIDTHS))
    print(f"{args.clients} clients and {args.attackers} attackers, MLP {widths}, medians of {args.repeats}")
    report(rows, args.csv)


if __name__ == "__main__":
    main()
