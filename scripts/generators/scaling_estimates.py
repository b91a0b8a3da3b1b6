"""What a round of 1,000 clients with 11 million parameters costs a node, from the measurements of bench_all_reduce.py.

    python scripts/generators/scaling_estimates.py

Prints the table of results/bench/README.md. Nothing in it was measured on several machines.
"""

import csv
from pathlib import Path

MEASURED = Path(__file__).parents[2] / "results" / "bench" / "all_reduce.csv"
PARAMETERS, NODES = 11_000_000, (1, 8, 64)
BANDWIDTH = 10e9 / 8  # bytes a second: 10 Gb/s


def main() -> None:
    """Print the table."""
    with MEASURED.open() as file:
        rows = list(csv.DictReader(file))
    alone = {row["what"]: row for row in rows if row["processes"] == "1"}
    (clients,) = {int(row["n"]) for row in alone.values()}
    # Beyond the payload of all_reduce, 2 x 4 d (K - 1) / K, there are only what the processes agree on and headers.
    beyond = max(
        float(row["MB sent"]) * 1e6 / (8 * int(row["d"]) * (1 - 1 / int(row["processes"])))
        for row in rows
        if row["processes"] != "1" and row["what"] in alone
    )
    print("| nodes | clients a node | updates in memory | a node sends | at 10 Gb/s | " + " | ".join(alone) + " |")
    print("| ---: | ---: | ---: | ---: | ---: |" + " ---: |" * len(alone))
    for nodes in NODES:
        sent = beyond * 4 * PARAMETERS * (1 - 1 / nodes) * (clients / nodes + 1)
        matrix = 4 * clients * PARAMETERS / nodes
        seconds = [float(row["cpu ms"]) / 1000 * PARAMETERS / nodes / int(row["d"]) for row in alone.values()]
        cells = [nodes, f"{clients / nodes:,.0f}", f"{matrix / 1e9:.2g} GB", f"{sent / 1e9:.2g} GB",
                 f"{sent / BANDWIDTH:.2g} s", *(f"{each:.3g} s" for each in seconds)]  # fmt: skip
        print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
