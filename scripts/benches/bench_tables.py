"""How long the tables of a paper take on this machine, projected from the first rounds of each of their runs.

    python scripts/benches/bench_tables.py [--presets boba/table1_mnist boba/table2_mnist] [--rounds 3] [--processes 2]
        [--csv FILE]

Every run of one seed makes twice as many rounds, with as many other runs beside it as the whole sweep would have. The
second half of them, with one evaluation, stands for all rounds; what the first half takes longer is counted as it was.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from benches import conditions, report  # first: sets how idle threads wait

# isort: split
from robustfl_bench.runner.config import compose


def main() -> None:
    """Measure, and print a line for each preset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=["boba/table1_mnist", "boba/table2_mnist"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--csv", type=Path, help="also write the table here")
    arguments = parser.parse_args()
    print(conditions())
    rows = [row for name in arguments.presets for row in projected(name, arguments.rounds, arguments.processes)]
    report(rows, arguments.csv)
    whole = sum(row["hours of a core"] for row in rows if row["rule"] == "all")  # type: ignore[misc]
    print(f"one seed of {' and '.join(arguments.presets)}: {whole / arguments.processes:.2f} hours on "
          f"{arguments.processes} cores, from {2 * arguments.rounds} rounds of each run")  # fmt: skip


def projected(preset: str, rounds: int, processes: int) -> Iterator[dict[str, object]]:
    """A line for each rule, and one for all of them."""
    experiment = f"+experiment={preset}"
    goal = int(compose.resolve([experiment]).config["rounds"])
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "robustfl_bench", "-m", experiment, "seed=0", f"rounds={2 * rounds}",
                   f"eval_every={rounds}", f"results_dir={folder}", "num_threads=1", "hydra/launcher=processes",
                   f"hydra.launcher.n_jobs={processes}"]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        runs = pd.DataFrame([_run(path.parent, rounds, goal) for path in Path(folder).glob("runs/*/summary.json")])
    whole = pd.concat([runs, runs.assign(rule="all")])
    for rule, of in whole.groupby("rule"):
        yield {
            "table": preset, "rule": rule, "runs": len(of), "seconds a round": of["round"].mean(),
            "hours of a core": of["whole"].sum() / 3600,
        }  # fmt: skip


def _run(folder: Path, rounds: int, goal: int) -> dict[str, object]:
    """The rule of a run, and the seconds of a round and of the whole run."""
    rule = json.loads((folder / "summary.json").read_text())["choices"]["aggregator"]
    first, second = pd.read_csv(folder / "timings.csv")["seconds"]
    return {"rule": rule, "round": second / rounds, "whole": first + (goal / rounds - 1) * second}


if __name__ == "__main__":
    main()
