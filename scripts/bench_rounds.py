"""Time of a round's client gradients as a multiple of the bare matrix products of the same size.

    python scripts/bench_rounds.py [--clients 100] [--samples 600 64] [--repeats 7] [--threads 2] [--csv PATH]

The shape is BOBA's MNIST setting: a 784-200-200-10 MLP and 100 clients, all their 600 samples or batches of 64. The
measure is the matrix products that any implementation must do (forward, backward to the hidden layers, one weight
gradient per client and layer), by `torch.mm` with nothing around them; where oneDNN is faster than that, the engine is
below 1. Beside it: the gradients by plain autograd, one client after
the other, the way a loop over clients with one model would do it, and a whole round with aggregation by the mean. All
figures are medians of one run, taken in turn; compare ratios, not seconds.
"""

import argparse
import csv
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np

import robustfl_bench  # first: sets how idle threads wait

assert robustfl_bench
import torch  # noqa: E402
from torch.nn import functional  # noqa: E402

from robustfl_bench.engine.network import Network  # noqa: E402
from robustfl_bench.engine.samples import Batch, Population, Samples  # noqa: E402
from robustfl_bench.models.mlp import Mlp  # noqa: E402
from robustfl_bench.updates import Updates  # noqa: E402

WIDTHS = (784, 200, 200, 10)


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
            gradients = torch.autograd.grad(functional.cross_entropy(module(x), y), parameters)
            torch.cat([gradient.reshape(-1) for gradient in gradients], out=row)

    return work


def medians(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each, taken in turn so that a change of the machine's speed hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            if turn:  # the first one warms up
                times[name].append(time.perf_counter() - began)
    return {name: float(np.median(values)) for name, values in times.items()}


def main() -> None:
    """Print the table, and write it with --csv."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--samples", type=int, nargs="+", default=[600, 64])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--csv", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    network = Network(Mlp(), (1, 28, 28), 10, seed=0)
    out = torch.empty(args.clients, network.dim)
    held = max(600, *args.samples)
    x, y = torch.randn(args.clients * held, 1, 28, 28), torch.randint(10, (args.clients * held,))
    population = Population(x, y, np.split(np.arange(len(y)), args.clients))
    rows = []
    for samples in args.samples:
        everyone = range(args.clients)
        draw = Samples(population, everyone, everyone, 0, "batches", 0, None if samples == held else samples)
        batch = draw.batch(0)

        def whole_round(draw: Samples = draw) -> torch.Tensor:
            network.gradients(network.initial, draw.batch(0), out)
            vector = Updates(out).combine(torch.full((args.clients,), 1 / args.clients, dtype=torch.float64)).vector
            return network.initial - 0.1 * vector

        seconds = medians(
            {
                "matrix products": products(args.clients, samples),
                "gradients": lambda batch=batch: network.gradients(network.initial, batch, out),  # type: ignore[misc]
                "plain loop": plain_loop(network, batch, out),
                "round": whole_round,
            },
            args.repeats,
        )
        bound = seconds["matrix products"]
        rows += [
            {"samples": samples, "what": name, "seconds": f"{value:.4f}", "x products": f"{value / bound:.2f}"}
            for name, value in seconds.items()
        ]
    widths = "-".join(map(str, WIDTHS))
    print(f"{args.clients} clients, MLP {widths}, {args.threads} threads, PyTorch {torch.__version__}")
    print(f"{'samples':>8}  {'what':<16}  {'seconds':>8}  {'x products':>10}")
    for row in rows:
        print(f"{row['samples']:>8}  {row['what']:<16}  {row['seconds']:>8}  {row['x products']:>10}")
    if args.csv:
        with open(args.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
