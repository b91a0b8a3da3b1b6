"""The real ring of BRACE (Fang et al., WWW Companion 2025) beside its simulation: Fashion-MNIST, 2, 3 and 8 clients.

    python scripts/generators/brace_ring.py --runs DIR --output results/brace/ring.md

Every pair is run twice, by N processes of `robustfl-ring` into DIR/ring and by `robustfl-bench` into DIR/simulation;
what is finished is not repeated. The report says whether both end with the same bits, and what was really sent.
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
    """Run what is missing and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", required=True, type=Path, help="results folder of the runs")
    parser.add_argument("--output", required=True, type=Path, help="ends in .md")
    arguments = parser.parse_args()
    lines = [_line(arguments.runs, rule, n) for rule in RULES for n in CLIENTS]
    text = f"""# The real ring beside its simulation

Made by `python scripts/generators/brace_ring.py`: the CNN of BRACE on Fashion-MNIST, IID, batches of 32, {ROUNDS}
rounds; N processes of `robustfl-ring` over gloo against `robustfl-bench protocol=ring`. "Same" is the SHA-256 of
the final parameters, and `metrics.csv` byte by byte. The formulas are those of Table 1: 2 m d (N - 1) / N bits for RAR
and d (N - 1) (m + 1) / N for BRACE, m = 32. Above them there is only padding: each of the N - 1 chunks of one-bit
outcomes that a client passes on fills up its last byte. Chunks differ by one coordinate where N does not divide d;
clients then send unequally much, and the formula is their mean.

{HEADING}
| --- | ---: | --- | ---: | --- | ---: | ---: |
""" + "".join(lines)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(text)
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
