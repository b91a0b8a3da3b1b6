"""Time of every aggregation rule, as a multiple of what it cannot do without. Run: python scripts/bench_aggregators.py

The yardsticks are measured in the same run: reading the matrix once (its sum), one Gram matrix, and one numpy.sort of
the rows of the transposed matrix. Aims: rules computed from the Gram matrix at most 1.3 times that matrix, it included;
coordinate-wise rules at most 4 times the sort.

What counts follows Fig. 3 of BOBA (Bao et al., AISTATS 2024): the server's own updates are there before BOBA and
FLTrust begin, but evaluating models (200 samples, an MLP) is part of SelfRej, AvgRej, Zeno and ByGARS. Yardsticks and
rules take turns and medians are printed, so that a passing load on the machine hits all alike.
"""

import argparse
import csv
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from robustfl_bench.config import presets, targets
from robustfl_bench.interfaces import ConfigError, ServerView
from robustfl_bench.pictures import bars
from robustfl_bench.pictures.canvas import save
from robustfl_bench.pictures.styles import GREY, RED, SKY
from robustfl_bench.updates import Updates

CONF = Path(__file__).resolve().parents[1] / "conf"
ALIASES = {"rar", "median", "trimmed_mean", "fedavg"}
BY_COORDINATE, BY_LOSS = {"coomed", "trmean", "beta_trmean", "server_mix"}, {"selfrej", "avgrej", "zeno", "bygars"}
CLASSES, INPUTS, SAMPLES = 10, 784, 200


def make_round(n: int, num_byzantine: int, d: int) -> tuple[Updates, ServerView]:
    """Updates as under label skew with two classes a client, the last ``num_byzantine`` being IPM attackers."""
    rng = np.random.default_rng(0)
    corners = rng.standard_normal((CLASSES, d), dtype=np.float32)
    honest = rng.standard_normal((n - num_byzantine, d), dtype=np.float32) * 0.1
    honest += (
        corners[rng.integers(CLASSES, size=len(honest))] / 2 + corners[rng.integers(CLASSES, size=len(honest))] / 2
    )
    attack = np.repeat(-10 * honest.mean(axis=0, keepdims=True), num_byzantine, axis=0)
    return Updates(torch.from_numpy(np.concatenate([honest, attack]))), make_server(torch.from_numpy(corners), n, d)


def make_server(class_updates: Tensor, n: int, d: int) -> ServerView:
    """A server that evaluates an MLP with two equal hidden layers, the widest of at most ``d`` parameters."""
    width = max(h for h in range(1, 2000) if (INPUTS + 1) * h + (h + 1) * h + (h + 1) * CLASSES <= d)
    shapes = [(width, INPUTS), (width,), (width, width), (width,), (CLASSES, width), (CLASSES,)]
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, INPUTS, generator=draws)
    y = torch.randint(CLASSES, (SAMPLES,), generator=draws)

    def loss_of(model: Tensor) -> Tensor:
        parts = model[: sum(map(np.prod, shapes))].split([int(np.prod(shape)) for shape in shapes])
        w1, b1, w2, b2, w3, b3 = (part.view(shape) for part, shape in zip(parts, shapes, strict=True))
        hidden = torch.relu(torch.addmm(b2, torch.relu(torch.addmm(b1, x, w1.T)), w2.T))
        return torch.nn.functional.cross_entropy(torch.addmm(b3, hidden, w3.T), y)

    def gradient(model: Tensor) -> Tensor:
        model = model.detach().requires_grad_()
        return torch.autograd.grad(loss_of(model), model)[0]

    def loss(models: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.stack([loss_of(model) for model in models]).double()

    server = ServerView(
        params=0.05 * torch.randn(d, generator=draws),
        step_size=0.1,
        round=0,
        rng=np.random.default_rng(0),
        previous=None,
        clients=torch.arange(n),
        counts=torch.full((n,), 600.0, dtype=torch.float64),
        memory={},
        losses_of=lambda params, clients: torch.zeros(len(clients)),
        train_per_class=lambda: class_updates,
        train_together=lambda: class_updates.mean(dim=0),
        loss=loss,
        gradient=gradient,
    )
    _ = server.class_updates, server.update  # what Fig. 3 leaves out
    return server


def build(name: str, f: int) -> Any:
    return targets.build(presets.resolve([f"aggregator={name}", f"num_byzantine_declared={f}"]).config["aggregator"])


def measure(jobs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of every job; the jobs take turns, and a first turn is not counted."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(repeats + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if turn > 0:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    every = sorted({path.stem for path in (CONF / "aggregator").glob("*.yaml")} - ALIASES)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=115, help="clients, Byzantine included (115)")
    parser.add_argument("--d", type=int, default=199_210, help="parameters of the model (199210)")
    parser.add_argument("--num-byzantine", type=int, default=15, help="attackers among the clients (15)")
    parser.add_argument("--f", type=int, default=16, help="attackers that the rules allow for (16)")
    parser.add_argument("--rules", nargs="+", choices=every, default=every, metavar="RULE", help="(all but aliases)")
    parser.add_argument("--repeats", type=int, default=7, help="turns over all rules, of which medians are taken (7)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads of torch and BLAS")
    parser.add_argument("--csv", type=Path, help="also write the table here")
    parser.add_argument("--png", type=Path, help="also draw it here, as in Fig. 3 of BOBA")
    options = parser.parse_args()
    if options.d < INPUTS + CLASSES * 2 + 3:
        parser.error(f"--d must be at least {INPUTS + CLASSES * 2 + 3}, the smallest MLP's size, got {options.d}")
    torch.set_num_threads(options.threads)

    updates, server = make_round(options.n, options.num_byzantine, options.d)
    matrix = updates.matrix
    transposed = np.ascontiguousarray(matrix.numpy().T)
    jobs: dict[str, Callable[[], object]] = {
        "reading": matrix.sum,
        "Gram": lambda: Updates(matrix).gram,
        "sort": lambda: np.sort(transposed, axis=1),
    }
    for name in options.rules:
        rule = build(name, options.f)
        try:
            rule.check(options.n)
        except ConfigError as error:
            print(f"{name} left out: {error}", file=sys.stderr)
        else:
            jobs[name] = lambda rule=rule: rule(Updates(matrix), server)
    with threadpool_limits(options.threads):
        seconds = measure(jobs, options.repeats)

    print(f"n={options.n} d={options.d} f={options.f} threads={options.threads}, medians of {options.repeats}")
    print(f"{'':16}{'ms':>9}{'/ reading':>11}{'/ Gram':>9}{'/ sort':>9}  aim")
    rows = []
    for name, value in sorted(seconds.items(), key=lambda item: item[1]):
        ratios = [value / seconds[yardstick] for yardstick in ("reading", "Gram", "sort")]
        aim = "" if name in ("reading", "Gram", "sort") else "evaluates models" if name in BY_LOSS else ""
        if not aim and name in options.rules:
            limit, ratio = (4.0, ratios[2]) if name in BY_COORDINATE else (1.3, ratios[1])
            aim = f"{'met' if ratio <= limit else 'MISSED'}: <= {limit:g} {'sort' if name in BY_COORDINATE else 'Gram'}"
        print(f"{name:16}{value * 1e3:9.1f}{ratios[0]:11.1f}{ratios[1]:9.2f}{ratios[2]:9.2f}  {aim}")
        rows.append([name, f"{value:.6f}", *(f"{ratio:.3f}" for ratio in ratios)])
    if options.csv:
        options.csv.parent.mkdir(parents=True, exist_ok=True)
        with options.csv.open("w", newline="") as file:
            csv.writer(file).writerows([["rule", "seconds", "per_reading", "per_gram", "per_sort"], *rows])
        print(f"written: {options.csv}")
    if options.png:
        draw(seconds, options)
        print(f"written: {options.png}")


def draw(seconds: dict[str, float], options: argparse.Namespace) -> None:
    """A bar for every yardstick (grey) and rule (blue; those that evaluate models sky blue; BOBA red)."""
    ordered = sorted(seconds.items(), key=lambda item: item[1])
    points = pd.DataFrame([{"line": "", "x": name, "mean": 1e3 * value} for name, value in ordered])
    colours = dict.fromkeys(BY_LOSS, SKY) | dict.fromkeys(("reading", "Gram", "sort"), GREY) | {"boba": RED}
    label = "ms (sky blue: evaluates models)"
    heading = f"One aggregation: n = {options.n}, d = {options.d}, {options.threads} threads"
    save(bars.draw(points, label, "", heading, log=True, colours=colours), options.png, "--png")


if __name__ == "__main__":
    main()
