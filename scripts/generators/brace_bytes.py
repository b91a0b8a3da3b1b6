"""What a client sends in a round of BRACE's setting, by rule and by the way that updates take.

    python scripts/generators/brace_bytes.py

Writes results/brace/bytes.csv: 100 clients and the 139,960 parameters of BRACE's CNN. ``star`` and ``ring`` count as
the protocols of that name, whose formulas are those of BRACE's Table 1; ``ring, needed`` counts as
``protocol.counting=needed``. ``all-reduce`` is `robustfl_bench.distributed`: a client sends each other one its columns
and later the aggregate of its own columns, what the processes agree on, and what they add up, which a ring all-reduce
sends twice but for one chunk. How much they add up depends on the rule, which therefore runs here.
"""

import csv
from pathlib import Path

import torch
from torch import Tensor

from robustfl_bench.numerics.places import Place
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.base import Aggregator, ServerAlone
from robustfl_bench.parts.protocols import Ring, Star
from robustfl_bench.parts.protocols.chunks import chunks
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.plan import plan

OUTPUT = Path(__file__).parents[2] / "results" / "brace" / "bytes.csv"
N, D = 100, 139_960
AGREED = 4  # numbers of 8 bytes: the length, the rule and its seed, the round, and the sample count
RULES = ("rar", "krum", "median", "trimmed_mean", "geomed", "signsgd", "rlr", "brace")


def all_reduce_bytes(rule: Aggregator, n: int = N, d: int = D) -> float:
    """Bytes that one of n processes sends in a round of ``RobustAllReduce``, with an update of d numbers."""
    mine = chunks(d, n)[0]
    columns, summed = mine.stop - mine.start, [n * 8]  # which updates are finite

    def add_up(numbers: Tensor) -> Tensor:
        summed.append(numbers.numel() * numbers.element_size())
        return numbers

    rows = torch.randn(n, columns, generator=torch.Generator().manual_seed(0))
    counts = torch.ones(n, dtype=torch.float64)
    server = ServerAlone(rule, lambda name: name, clients=torch.arange(n), counts=counts, layers=())
    rule(Updates(rows, counts, place=Place(d, mine.start, mine.stop, add_up)), server)
    swapped = 4 * (d - columns) + 4 * (n - 1) * columns
    return swapped + 8 * AGREED * (n - 1) + 2 * sum(summed) * (n - 1) / n


def lines() -> list[tuple[str, str, float]]:
    """Way, rule and bytes."""
    found = []
    for name in RULES:
        rule = plan(compose.resolve(["+setting=brace/fashion_mnist", f"aggregator={name}"]).config).parts.aggregator
        found.append(("star", name, Star().total_bits(rule, N, D) / N / 8))
        if rule.ring is not None:
            found.append(("ring", name, Ring().total_bits(rule, N, D) / N / 8))
            found.append(("ring, needed", name, Ring(counting="needed").total_bits(rule, N, D) / N / 8))
        found.append(("all-reduce", name, all_reduce_bytes(rule)))
    return found


if __name__ == "__main__":
    with OUTPUT.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("way", "rule", "bytes"))
        writer.writerows((way, rule, round(size)) for way, rule, size in lines())
    print(OUTPUT.read_text())
