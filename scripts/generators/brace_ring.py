"""The real ring of BRACE (Fang et al., WWW Companion 2025) beside its simulation: Fashion-MNIST, 2, 3 and 8 clients.

    python scripts/generators/brace_ring.py --runs DIR

Every pair is run twice, by N processes of `robustfl-ring` into DIR/ring and by `robustfl-bench` into DIR/simulation;
what is finished is not repeated. The table says whether both end with the same bits, that is the SHA-256 of the final
parameters and ``metrics.csv`` byte by byte, and what was really sent beside the formulas of Table 1: 2 m d (N - 1) / N
bits for RAR and d (N - 1) (m + 1) / N for BRACE, m = 32. Above them there is only padding: each of the N - 1 chunks of
one-bit outcomes fills up its last byte. Where N does not divide d, clients send unequally much, the formula on average.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CLIENTS, ROUNDS = (2, 3, 8), 20
RULES = {"rar": ("lr=0.2",), "brace": ("lr=0.001", "aggregator.threshold=1")}
SHARED = (
    "dataset=fashion_mnist", "dataset.scaling=unit", "model=brace_cnn", "partition=iid", "attack=none",
    "batch_size=32", f"rounds={ROUNDS}", "eval_every=5", "protocol=ring", "device=cpu",
)  # fmt: skip
HEADING = (
    "| rule | N | same model, same rows | accuracy | bytes a client sends in a round | formula | bits above, of all |"
)


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", required=True, type=Path, help="results folder of the runs")
    arguments = parser.parse_args()
    lines = [_line(arguments.runs, rule, n) for rule in RULES for n in CLIENTS]
    text = f"""{HEADING}
| --- | ---: | --- | ---: | --- | ---: | ---: |
""" + "".join(lines)
    print(text)


def _line(runs: Path, rule: str, n: int) -> str:
    overrides = [*SHARED, f"num_clients={n}", f"aggregator={rule}", *RULES[rule]]
    real = _run("robustfl_bench.commands.ring", overrides, runs / "ring")
    simulated = _run("robustfl_bench", overrides, runs / "simulation")
    (one, metrics), (other, expected) = real, simulated
    same = [one["model_sha256"] == other["model_sha256"], metrics == expected]
    ring, sent = one["ring"], sorted(set(one["ring"]["payload_bytes"]))
    told = " to ".join(f"{size:,}" for size in (sent if len(sent) == 1 else (sent[0], sent[-1])))
    cells = [rule, n, ", ".join("yes" if each else "NO" for each in same), f"{one['final']['test_accuracy']:.2%}",
             told, f"{ring['formula_bits'] / n / 8:,.1f}", ring["bits_above"]]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |\n"


def _run(module: str, overrides: list[str], folder: Path) -> tuple[dict[str, Any], bytes]:
    """The summary and the rows of a run, made or found."""
    command = [sys.executable, "-m", module, *overrides, f"results_dir={folder}"]
    subprocess.run(command, check=True)
    wanted = {item for item in overrides if item.split("=")[0] in ("num_clients", "aggregator")}
    for path in folder.glob("runs/*/summary.json"):
        summary = json.loads(path.read_text())
        if wanted <= set(summary["command"].split()):
            return summary, (path.parent / "metrics.csv").read_bytes()
    raise SystemExit(f"no result in {folder}")


if __name__ == "__main__":
    main()
