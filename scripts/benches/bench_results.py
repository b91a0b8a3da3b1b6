"""CPU time and memory of robustfl-results on many run folders.

    python scripts/benches/bench_results.py [--runs 5000] [--commands status table ...] [--keep FOLDER] [--csv PATH]

Generates run folders with 20 to 100 evaluated rounds: ten rules x ten attacks x five seeds in settings that differ in
the partition, the rounds and the rate, 500 runs to a setting. The numbers in them are invented and mean nothing. Each
command reads all of them once, in a process of its own; its CPU time and its peak memory are those the system reports.
"""

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

import yaml

from robustfl_bench.runner.config import compose, identity
from robustfl_bench.runner.store import folders
from robustfl_bench.runner.store.folders import runs_folder, slug
from robustfl_bench.runner.store.results import of_rows

RULES = ("average", "coomed", "trmean", "krum", "mkrum", "geomed", "rfa", "mca", "boba", "raga")
ATTACKS = ("none", "gauss", "ipm", "lie", "mimic", "minmax", "minsum", "sign_flip", "label_flip", "zero")
ROUNDS = {0.1: 20, 0.3: 40, 1: 60, 3: 80, 10: 100}
SETTINGS = [
    (f"partition.alpha={alpha}", f"rounds={ROUNDS[alpha]}", f"lr={lr}") for lr in (0.1, 0.01) for alpha in ROUNDS
]
SEEDS = range(5)
CLASSES = 10
COMMANDS = {
    "status": ("status",),
    "list": ("list",),
    "table": ("table", "--where", "lr=0.1", "--where", "partition.alpha=0.1"),
    "report": ("report", "--output", "report.html"),
    "export": ("export", "--output", "rounds.csv"),
}
_CALL = "import sys; from robustfl_bench.commands.entry import results; results()"


def configs() -> Iterator[tuple[compose.Resolved, int]]:
    """The runs, setting by setting, each with its seed."""
    for setting, rule, attack, seed in product(SETTINGS, RULES, ATTACKS, SEEDS):
        sizes = "num_byzantine=0" if attack == "none" else "num_byzantine=4"
        words = ("partition=dirichlet", *setting, f"aggregator={rule}", f"attack={attack}", sizes, f"seed={seed}")
        yield compose.resolve(words), seed


def generate(results: Path, count: int) -> None:
    """Write ``count`` finished runs as ``robustfl-bench`` leaves them."""
    for number, (run, seed) in enumerate(islice(configs(), count)):
        chosen, draw = run.choices, random.Random(number)
        name = f"{slug(*(chosen[group] for group in ('dataset', 'partition', 'attack', 'aggregator')), f's{seed}')}"
        folder = runs_folder(results) / f"{name}-{run.run_id}"
        folder.mkdir(parents=True)
        rounds, config = run.config["rounds"], identity.defining(run.config)
        (folder / "config.yaml").write_text(yaml.dump(config, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)))
        rows = _write_metrics(folder / "metrics.csv", rounds, draw)
        summary = {
            "run_id": run.run_id, "name": folder.name, "choices": chosen, "scale": "paper", "variant": "fair",
            "command": f"robustfl-bench {' '.join(run.overrides)}",
            "reference_id": identity.run_id(identity.reference(run.config)),
            "seconds": float(rounds), "code": {"package": "0" * 64, "parts": {}}, "device": "cpu", "num_threads": 1,
            "versions": {"robustfl-bench": "0", "python": "3", "torch": "2"}, "commit": "0" * 40,
            "processor": "invented", "status": "finished", "error": None,
            "data": {"variant": "official", "train_samples": 1437, "test_samples": 360, "digest": "0" * 64},
        } | of_rows(rows)  # fmt: skip
        (folder / "summary.json").write_text(
            json.dumps(folders.seal(summary | {"files": folders.recorded(folder)}), indent=1)
        )


def _write_metrics(path: Path, rounds: int, draw: random.Random) -> list[dict[str, float]]:
    """Rounds whose accuracy rises to a level, as they are read."""
    level = draw.uniform(0.1, 0.95)
    names = (
        "round",
        "lr",
        "train_loss",
        "test_loss",
        "test_accuracy",
        *(f"recall_{label}" for label in range(CLASSES)),
    )
    rows: list[dict[str, float]] = []
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for done in range(1, rounds + 1):
            accuracy = level * done / (done + 5)
            shares = (min(max(draw.gauss(accuracy, 0.01), 0.0), 1.0) for _ in range(CLASSES + 1))
            row = [str(done), *(f"{value:.8g}" for value in (0.1, 2 - accuracy, 2 - accuracy, *shares))]
            writer.writerow(row)
            rows.append({name: float(value) for name, value in zip(names, row, strict=True)})
    return rows


def measure(command: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """Seconds of CPU and peak MB of one command."""
    words = [sys.executable, "-c", _CALL, *command, "--results-dir", str(folder)]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="generate there, or use what is there")
    parser.add_argument("--csv", type=Path, metavar="PATH")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        if not runs_folder(folder).exists():
            generate(folder, arguments.runs)
        rows = [(name, *measure(COMMANDS[name], folder.resolve())) for name in arguments.commands]
    for name, seconds, megabytes in rows:
        print(f"{name:<8} {seconds:6.1f} s of CPU {megabytes:6.0f} MB")
    if arguments.csv:
        with open(arguments.csv, "w", newline="") as file:
            csv.writer(file).writerows([("command", "cpu_seconds", "peak_mb"), *rows])


if __name__ == "__main__":
    main()
