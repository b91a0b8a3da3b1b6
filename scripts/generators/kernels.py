"""What another processor changes, on one machine: cells of an arena with the kernels that PyTorch chooses for the
processor, and with those for AVX2, which add up in another order.

    python scripts/generators/kernels.py silos --csv results/arena/silos_kernels.csv --results results/kernels \
        num_byzantine=5 partition=mild_dirichlet,pathological seed=0 aggregator=krum,trmean

Values with commas make one run for each combination, as in a sweep. The runs go to two folders in ``--results``; the
lines of the CSV are made anew from all runs there: a cell, and its accuracy in both, a fraction.
"""

import argparse
import csv
import os
import subprocess
import sys
from pathlib import Path

from robustfl_bench.lab.arena.answers.rounding import AVX2, KERNELS, USUAL_KERNELS
from robustfl_bench.lab.arena.track import Track
from robustfl_bench.read.runs import records


def accuracies(track: Track, folder: Path) -> dict[tuple[str, ...], float]:
    """The accuracy of each cell whose run is in a folder."""
    runs = track.runs(records.load(folder))
    return {(run.rule, run.partition, str(run.num_byzantine), run.attack, run.seed): run.accuracy for run in runs}


def main() -> None:
    """Make the runs that are missing, and write all lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("track")
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("overrides", nargs="*")
    chosen = parser.parse_intermixed_args()
    track = Track(chosen.track)
    held = []
    for name, forced in ((USUAL_KERNELS, {}), (AVX2, {"ATEN_CPU_CAPABILITY": AVX2})):
        folder = chosen.results / name
        words = [f"+experiment={track.experiment}", *chosen.overrides, "use_kept=false", f"results_dir={folder}"]
        subprocess.run([sys.executable, "-m", "robustfl_bench", "-m", *words], check=True, env={**os.environ, **forced})
        held.append(accuracies(track, folder))
    usual, other = held
    with chosen.csv.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(KERNELS)
        writer.writerows([*cell, usual[cell], other[cell]] for cell in sorted(usual) if cell in other)


if __name__ == "__main__":
    main()
