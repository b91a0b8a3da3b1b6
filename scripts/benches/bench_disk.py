"""Rules on updates in a file: what memory they need, and what they cost beside the same rules in memory.

    python scripts/benches/bench_disk.py [--shapes 2000,1000000 100,100000000] [--rules average trmean ...]
        [--beside 500,100000] [--folder FOLDER] [--repeats 3] [--csv FILE]

For each n,d of ``--shapes`` a process of its own fills a file in ``--folder`` client by client and runs the rules on
it. The peak is the most memory that the process has had so far, of all kinds. The Gram matrix, which several rules
need, is a line of its own; the times of these rules come on top. For the shape of ``--beside``, the same rules are also
run in memory, in turns; both must give the same bytes. ``s CPU`` are seconds of a processor in all threads.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# first: sets how idle threads wait
from benches import alone, conditions, highest, measured, medians, n_and_d, parser, report

# isort: split
import torch
from bench_aggregators import attackers
from torch import Tensor

from robustfl_bench.numerics import on_disk
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerAlone
from robustfl_bench.runner.config import compose, options
from robustfl_bench.runner.config.request import made

RULES = ("average", "trmean", "krum", "geomed", "boba")
GRAM = "Gram"
CLASSES = 10
SHARE = 0.1  # of attackers
CHUNK = 1 << 22  # columns that are filled at once


def rule_of(name: str, f: int) -> Aggregator:
    """A rule with its options as they come, which assumes f attackers."""
    config = compose.resolve((f"aggregator={name}", f"num_byzantine_declared={f}", "num_clients=1000")).config
    built: Aggregator = made("aggregator", config["aggregator"])
    return built


def fill(rows: Tensor, f: int) -> None:
    """Write the updates of classes, of honest clients with two classes each, and of f attackers into ``rows``."""
    generator, (size, d) = torch.Generator().manual_seed(0), rows.shape
    noise = torch.randn(CHUNK + size, generator=generator)
    for number, row in enumerate(rows):
        for start in range(0, d, CHUNK):
            part = row[start : start + CHUNK]
            if number < CLASSES:
                part.normal_(generator=generator)
                continue
            client = number - CLASSES
            torch.add(*(rows[each % CLASSES, start : start + CHUNK] for each in (client, client + 1)), out=part)
            part.mul_(-5 if client < f else 0.5).add_(noise[number : number + len(part)], alpha=0.1)


def works(rows: Tensor, names: list[str], f: int) -> dict[str, Callable[[], Tensor]]:
    """The Gram matrix, and each rule once it is known, on the updates below the first rows, those of the classes."""
    classes, clients = rows[:CLASSES], rows[CLASSES:]
    updates, plain = Updates(clients), {"average", "trmean"}

    def gram() -> Tensor:
        updates.__dict__.pop("gram", None)
        return updates.gram

    def aggregate(rule: Aggregator, shared: bool) -> Tensor:
        known = {"train_per_class": lambda: classes, "previous": None, "counts": updates.counts}
        return rule(updates if shared else Updates(clients), ServerAlone(rule, str, **known)).vector

    rules = {name: rule_of(name, f) for name in names}
    work: dict[str, Callable[[], Tensor]] = {
        name: lambda rule=rule, name=name: aggregate(rule, name not in plain)  # type: ignore[misc]
        for name, rule in rules.items()
        if name in plain
    }
    if others := {name: rule for name, rule in rules.items() if name not in plain}:
        work[GRAM] = gram
        work |= {name: lambda rule=rule: aggregate(rule, True) for name, rule in others.items()}  # type: ignore[misc]
    return work


def in_a_file(n: int, d: int, names: list[str], threads: int, folder: Path) -> list[dict[str, Any]]:
    """The lines of a shape. For a process of its own."""
    f, shape = attackers(SHARE, n), {"n": n, "d": d, "file GB": 4e-9 * (n + CLASSES) * d, "threads": threads}
    rows, lines = on_disk.empty(n + CLASSES, d, folder), []
    with measured(threads):
        for name, work in {"filling": lambda: fill(rows, f), **works(rows, names, f)}.items():
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            times = {"s CPU": time.process_time() - cpu, "s wall": time.perf_counter() - wall}
            lines.append({**shape, "rule": name, **times, "peak GB": highest() / 1e9})
            print(*(f"{key} {value:.3g}" if isinstance(value, float) else value for key, value in lines[-1].items()))
    return lines


def beside(n: int, d: int, names: list[str], threads: int, repeats: int, folder: Path) -> list[dict[str, Any]]:
    """The lines that compare a file with memory. For a process of its own."""
    f, stored = attackers(SHARE, n), on_disk.empty(n + CLASSES, d, folder)
    with measured(threads):
        fill(stored, f)
        ways = {"file": works(stored, names, f), "memory": works(stored.clone(), names, f)}
        same = {name: torch.equal(ways["file"][name](), ways["memory"][name]()) for name in ways["file"]}
        turns = {(way, name): work for way, each in ways.items() for name, work in each.items()}
        times = medians({" ".join(key): work for key, work in turns.items()}, repeats, cpu=True)
    shape = {"n": n, "d": d, "threads": threads}
    return [
        {**shape, "rule": name, "s file": times[f"file {name}"], "s memory": times[f"memory {name}"],
         "ratio": times[f"file {name}"] / times[f"memory {name}"], "same bytes": same[name]}
        for name in same
    ]  # fmt: skip


def main() -> None:
    """Print the tables."""
    arguments = parser(__doc__)
    arguments.set_defaults(repeats=3, threads=[1])
    rules, shapes = options.names("aggregator"), [(2000, 10**6), (100, 10**8)]
    arguments.add_argument("--rules", nargs="+", choices=rules, default=RULES, metavar="RULE", help="(five)")
    arguments.add_argument(
        "--shapes", type=n_and_d, nargs="*", default=shapes, metavar="N,D", help="of updates in a file"
    )
    arguments.add_argument("--beside", type=n_and_d, default=(500, 100_000), metavar="N,D", help="beside memory")
    arguments.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="of the file")
    args = arguments.parse_args()
    print(conditions())
    compared, lines = [], []
    for threads in args.threads:
        compared += alone(beside, *args.beside, args.rules, threads, args.repeats, args.folder)
        for shape in args.shapes:
            lines += alone(in_a_file, *shape, args.rules, threads, args.folder)
    report(compared, args.csv and args.csv.with_stem(f"{args.csv.stem}_memory"))
    if lines:
        report(lines, args.csv)


if __name__ == "__main__":
    main()
