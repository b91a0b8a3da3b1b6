"""Time of a few rules against n and against d, and the memory of a round against the size of its matrix.

    python scripts/benches/bench_scaling.py [--rules RULE ...] [--n 25 50 100 200 400]
        [--d 10000 30000 100000 300000 1000000] [--at 100 199210] [--memory 100,100000 ...] [--threads 2]
        [--repeats 3] [--csv FILE] [--png FOLDER]

Times are those of ``bench_aggregators.py``, every rule beside its bound: each n of ``--n`` at the d of ``--at``, then
each d of ``--d`` at its n. All are medians of turns in one run; compare ratios, not seconds.

Memory is that of a run of one round in a process of its own, for each n,d of ``--memory``: the clients' gradients of a
network with one hidden layer and about d parameters, IPM attackers, and the rule. It is the most that the process had,
less what it had before the round. The least is the matrix of the updates, 4 n d bytes. With ``--csv`` this table goes
to a second file, whose name ends in ``_memory``.
"""

import argparse
import tempfile
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

# first: sets how idle threads wait
from benches import alone, conditions, federation, highest, measured, medians, n_and_d, parser, picture, report

# isort: split
import pandas as pd
from bench_aggregators import attackers, rows_of, works

from robustfl_bench.read.pages.pictures.curves import Curves, draw
from robustfl_bench.runner.config import options
from robustfl_bench.train import loop
from robustfl_bench.train.metrics import METRICS
from robustfl_bench.train.rounds import initial_state

RULES = ("average", "coomed", "trmean", "krum", "boba", "geomed", "rfa")
TIMES = ("n", "d", "f", "threads", "rule", "ms", "aim")
SHARE = 0.13  # of attackers
MIB = 2**20


def times(args: argparse.Namespace, shapes: Iterable[tuple[int, int]], threads: int) -> list[dict[str, object]]:
    """The time of every rule and bound, for each shape (n, d)."""
    rows = []
    with measured(threads), tempfile.TemporaryDirectory() as folder:
        for n, d in shapes:
            f = attackers(SHARE, n)
            seconds = medians(works(n, d, f, args.rules, {}, Path(folder)), args.repeats)
            found = rows_of(seconds, {"n": n, "d": d, "f": f, "threads": threads})
            rows += [{name: row[name] for name in TIMES} for row in found]
    return rows


def memory(rule: str, n: int, d: int, threads: int) -> dict[str, object]:
    """The row of a rule's memory in a round. For a process of its own."""
    f, inputs, classes = attackers(SHARE, n), 64, 10  # of the digits
    width = max(1, (d - classes) // (inputs + 1 + classes))
    sizes = (f"num_clients={n}", f"num_byzantine={f}", "byzantine_placement=replace", f"model.hidden=[{width}]")
    run = ("rounds=1", "dataset=digits", "partition=iid", "batch_size=2", "attack=ipm", f"aggregator={rule}", *sizes)
    of_run = federation(*run)
    matrix, before = 4 * n * of_run.network.dim, highest()
    with measured(threads):
        for _ in loop.run(of_run, initial_state(of_run), metrics=METRICS):
            pass
    needed = highest() - before
    shape: dict[str, object] = {"n": n, "d": of_run.network.dim, "f": f, "threads": threads, "rule": rule}
    return shape | {"matrix MiB": matrix / MIB, "peak MiB": needed / MIB, "x matrix": needed / matrix}


def main() -> None:
    """Print the tables."""
    arguments = parser(__doc__)
    arguments.set_defaults(repeats=3)
    rules, sizes = options.names("aggregator"), (10_000, 30_000, 100_000, 300_000, 1_000_000)
    arguments.add_argument("--rules", nargs="+", choices=rules, default=RULES, metavar="RULE", help="(seven)")
    arguments.add_argument("--n", type=int, nargs="+", default=(25, 50, 100, 200, 400), help="clients")
    arguments.add_argument("--d", type=int, nargs="+", default=sizes, help="parameters")
    arguments.add_argument("--at", type=int, nargs=2, default=(100, 199_210), metavar=("N", "D"), help="what is fixed")
    shapes = [(100, 100_000), (100, 300_000), (100, 1_000_000), (400, 1_000_000)]
    arguments.add_argument("--memory", type=n_and_d, nargs="*", default=shapes, metavar="N,D", help="shapes of rounds")
    arguments.add_argument("--png", type=Path, help="a folder for pictures")
    args = arguments.parse_args()
    print(conditions())
    n, d = args.at
    by_n, by_d, held = [], [], []
    for threads in args.threads:
        by_n += times(args, [(each, d) for each in args.n], threads)
        by_d += times(args, [(n, each) for each in args.d], threads)
    report([*by_n, *by_d], args.csv)
    for threads, shape, rule in product(args.threads, args.memory, args.rules):
        held.append(alone(memory, rule, *shape, threads))
    if held:
        report(held, args.csv and args.csv.with_stem(f"{args.csv.stem}_memory"))
    if args.png:
        draw_times(by_n, "n", f"{d=}", args.png)
        draw_times(by_d, "d", f"{n=}", args.png)
        if held:
            draw_memory(held, args.png)


def draw_times(rows: list[dict[str, Any]], against: str, fixed: str, folder: Path) -> None:
    """Times against n or d on the most threads: a panel for each bound and the rules that are held to it."""
    rows, threads = _most_threads(rows)
    places = {row["rule"]: row["aim"].partition("= ")[2].partition(" ")[2] or row["aim"] or row["rule"] for row in rows}
    places["Gram"] = places["Gram float32"]
    ordered = sorted(rows, key=lambda row: (places[row["rule"]], row["rule"]))
    points = [_point(places[row["rule"]], row["rule"], row[against], row["ms"]) for row in ordered]
    heading = f"One aggregation: {fixed}, {threads=}"
    found = Curves(pd.DataFrame(points), against, {"": "Time [ms]"}, heading, log="xy")
    picture(draw(found), folder / f"scaling_{against}.png")


def draw_memory(rows: list[dict[str, Any]], folder: Path) -> None:
    """Memory against the size of the matrix, which is a line of its own, on the most threads."""
    rows, threads = _most_threads(rows)
    sizes = [float(f"{row['matrix MiB']:.3g}") for row in rows]
    points = [_point("", row["rule"], size, row["peak MiB"]) for row, size in zip(rows, sizes, strict=True)]
    points += [_point("", "the matrix", size, size) for size in dict.fromkeys(sizes)]
    heading = f"Memory of a round beside the data, {threads=}"
    found = Curves(
        pd.DataFrame(points), "matrix of the updates, 4 n d bytes [MiB]", {"": "Memory [MiB]"}, heading, log="xy"
    )
    picture(draw(found), folder / "scaling_memory.png")


def _most_threads(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    threads = max(row["threads"] for row in rows)
    return [row for row in rows if row["threads"] == threads], threads


def _point(panel: str, line: str, x: float, value: float) -> dict[str, object]:
    return {"value": "", "panel": panel, "line": line, "x": x} | dict.fromkeys(("mean", "low", "high"), value)


if __name__ == "__main__":
    main()
