"""What a sweep costs beside training: python scripts/benches/bench_sweep.py [--stored 500] [--tiny 1000]
[--listed 10000].

Each figure is measured by the command itself in a folder of its own. The CPU seconds are those of the command and of
all processes that it started. With --listed only what needs no training is measured: start-up, and a list of cells.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TINY = ("rounds=2", "num_clients=4", "partition=iid", "model.hidden=[4]", "num_byzantine=0", "batch_size=8")
REAL = ("rounds=40", "num_clients=20", "partition=iid", "seed=0,1,2,3")
WORKERS = ("hydra/launcher=processes",)


def used(*words: str) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and the most MB in memory of ``robustfl-bench`` with these words."""
    began = time.perf_counter()
    with open(os.devnull, "w") as nowhere:
        command = [sys.executable, "-m", "robustfl_bench", *words]
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere)
        _, code, spent = os.wait4(process.pid, 0)
    if code:
        raise subprocess.CalledProcessError(code, command)
    return time.perf_counter() - began, spent.ru_utime + spent.ru_stime, spent.ru_maxrss / 1024


def measured(folder: Path, *overrides: str) -> tuple[float, float]:
    """Wall and CPU seconds of a sweep."""
    return used("-m", *overrides, f"results_dir={folder}")[:2]


def print_start(folder: Path, listed: int) -> None:
    """Print what commands cost that train next to nothing."""
    one = (*TINY, f"results_dir={folder}")
    for name, words in (("a tiny run alone", one), ("its stored result", one), ("--help", ("--help",))):
        print(f"{name}: {used(*words)[1]:.2f} s of CPU")
    _, cpu, memory = used("-m", *one, seeds(listed), "dry_run=true")
    print(f"{listed} cells listed: {cpu:.2f} s of CPU, {memory:.0f} MB")


def training(folder: Path) -> float:
    """Seconds that the runs of a folder spent in rounds."""
    return sum(float(json.loads(path.read_text())["seconds"]) for path in folder.glob("runs/*/summary.json"))


def seeds(number: int) -> str:
    """The seeds of that many runs."""
    return f"seed=range({number})"


def main() -> None:
    """Measure, and print one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stored", type=int, default=500, help="cells of the sweep that is started again")
    parser.add_argument("--tiny", type=int, default=1000, help="tiny runs")
    parser.add_argument("--listed", type=int, help="cells of a list")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.listed:
            return print_start(folder / "start", arguments.listed)
        wall, cpu = measured(folder / "tiny", *TINY, seeds(arguments.tiny))
        spent = training(folder / "tiny")
        print(f"{arguments.tiny} tiny runs: {wall:.1f} s, {cpu:.1f} s of CPU; "
              f"{(cpu - spent) / arguments.tiny:.3f} s of CPU for each beside training")  # fmt: skip
        stored = min(arguments.stored, arguments.tiny)
        wall, cpu = measured(folder / "tiny", *TINY, seeds(stored))
        print(f"{stored} stored cells started again: {wall:.2f} s, {cpu:.2f} s of CPU")
        wall, _ = measured(folder / "threads", *REAL, "num_threads=2")
        print(f"4 runs in 1 process x 2 threads: {wall:.1f} s")
        wall, _ = measured(folder / "processes", *REAL, "num_threads=1", *WORKERS, "hydra.launcher.n_jobs=2")
        print(f"4 runs in 2 processes x 1 thread: {wall:.1f} s")
        _, without = measured(folder / "without", *REAL, "checkpoint_seconds=100000")
        _, often = measured(folder / "often", *REAL, "checkpoint_seconds=0.01")
        print(f"checkpoints as often as the spacing allows: {100 * (often / without - 1):.1f}% more CPU")


if __name__ == "__main__":
    main()
