"""Runs of a sweep trained together, against the same runs one by one.

    python scripts/benches/bench_stack.py [--runs 2 8 32] [--rules average krum trmean] [--rounds 60] [--repeats 3]
        [--before COMMIT] [--csv FILE]

The first table has the gradients of 20 honest clients for several networks and numbers of samples, in milliseconds of
one thread for one model, alone and together, and whether they have the same bytes. In the second, cells of arena/digits
under attacks that do not search are made by the loop of a sweep, in folders of their own, with ``stack=false`` and
``stack=true``: CPU milliseconds of a cell, all included; with ``--before`` also together by the package of a commit.
Turns alternate; compare ratios.
"""

import contextlib
import io
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benches import as_of, conditions, measured, medians, parser, part_of, report  # first: sets how idle threads wait

# isort: split
import torch

from robustfl_bench.numerics.network import stacked
from robustfl_bench.numerics.network.network import Network
from robustfl_bench.numerics.network.samples import Batch
from robustfl_bench.parts.models.mlp import Mlp

CLIENTS = 20
SHAPES = (
    ((1, 8, 8), (32,), 57), ((1, 8, 8), (128,), 57), ((1, 28, 28), (32,), 32),
    ((1, 28, 28), (32,), 300), ((1, 28, 28), (200, 200), 32),
)  # fmt: skip
ATTACKS = (
    "ipm", "lie", "gauss", "mimic", "minmax", "minsum", "sign_flip", "label_flip", "krum_attack", "trim_attack",
    "adaptive", "backdoor", "label_shuffle", "label_flip_one", "noisy", "zero", "bit_flip", "free_rider", "rop",
    "fake_loss", "edge_case", "model_replacement",
)  # fmt: skip


def gradients(
    shape: tuple[int, ...], hidden: tuple[int, ...], samples: int, models: int, repeats: int
) -> dict[str, object]:
    """A row of the first table."""
    network, sizes = Network(Mlp(hidden), shape, 10, seed=0), (samples,) * CLIENTS
    draws = torch.Generator().manual_seed(0)
    x, y = torch.randn(sum(sizes), *shape, generator=draws), torch.arange(sum(sizes)) % 10
    batch, stack = Batch(x, y, sizes), network.initial + 0.1 * torch.randn(models, network.dim, generator=draws)
    apart, at_once = (torch.empty(models, CLIENTS, network.dim) for _ in range(2))

    def one_by_one() -> float:
        began = time.process_time()
        for model, out in zip(stack, apart, strict=True):
            network.gradients(model, batch, out)
        return time.process_time() - began

    def together() -> float:
        began = time.process_time()
        stacked.gradients(network, stack, [batch] * models, at_once)
        return time.process_time() - began

    found = medians({"alone": one_by_one, "together": together}, repeats)
    return {
        "inputs": x[0].numel(),
        "hidden": "-".join(map(str, hidden)) or "none",
        "samples": samples,
        "runs": models,
        "samples x parameters": float(sum(sizes) * network.dim),
        "alone_ms": 1e3 * found["alone"] / models,
        "together_ms": 1e3 * found["together"] / models,
        "ratio": found["alone"] / found["together"],
        "same bytes": torch.equal(apart, at_once),
    }


def sweep_of(rule: str, rounds: int, stack: bool, package: str = "robustfl_bench") -> Callable[[], float]:
    """A sweep of cells of arena/digits with one rule; returns its CPU seconds."""
    make, take = part_of(package, "sweeps.cells:Sweep"), part_of(package, "sweeps.take:take")

    def work() -> float:
        with TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            common = ("+experiment=arena/digits", "partition=iid", "seed=0", "num_byzantine=5", "lr=0.1",
                      f"aggregator={rule}", f"rounds={rounds}", f"results_dir={folder}", "use_kept=false",
                      f"stack={str(stack).lower()}")  # fmt: skip
            began = time.process_time()
            take(make(tuple((*common, f"attack={attack}") for attack in ATTACKS), results_dir=folder))
            return time.process_time() - began

    return work


def main() -> None:
    """Measure, and print two tables."""
    arguments = parser(__doc__)
    arguments.add_argument("--runs", type=int, nargs="+", default=[2, 8, 32], help="runs trained together")
    arguments.add_argument("--rules", nargs="*", default=["average", "krum", "trmean"], help="rules of the sweeps")
    arguments.add_argument("--rounds", type=int, default=60, help="rounds of their cells")
    arguments.add_argument("--before", metavar="COMMIT", help="also stacks of this package as of that commit")
    args = arguments.parse_args()
    earlier = as_of(args.before) if args.before else None
    print(conditions())
    with measured(1):
        rows = [
            gradients(shape, hidden, samples, models, args.repeats)
            for shape, hidden, samples in SHAPES
            for models in args.runs
        ]
    report(rows, args.csv)
    cells: list[dict[str, object]] = []
    for rule in args.rules:
        works = {name: sweep_of(rule, args.rounds, name == "together") for name in ("alone", "together")}
        if earlier:
            works["before"] = sweep_of(rule, args.rounds, True, earlier)
        found = medians(works, args.repeats)
        each = {f"{name}_ms": 1e3 * seconds / len(ATTACKS) for name, seconds in found.items()}
        ratios = {"ratio": found["alone"] / found["together"]}
        if earlier:
            ratios["before / together"] = found["before"] / found["together"]
        cells.append({"rule": rule, "cells": len(ATTACKS), **each, **ratios})
    if cells:
        report(cells, args.csv and Path(args.csv).with_stem(f"{args.csv.stem}_cells"))


if __name__ == "__main__":
    main()
