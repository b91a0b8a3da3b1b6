"""What planning costs: runs with attack=planned, each beside the training without attack, in seconds of the processor.

    python scripts/generators/planned_cost.py --csv results/planned/cost.csv --results results \
        +experiment=arena/digits seed=0 num_byzantine=5,10 partition=iid,step aggregator=krum,geomed

The page has the command of the digits; the other lines of that file are those of

    +setting=arena/digits seed=0 'lr=${chosen_rate:arena/digits_rates}' batch_size=32 rounds=30 eval_every=1 \
        num_byzantine=10 partition=iid,step,pathological \
        aggregator=trmean,krum,geomed,caf,fltrust,boba,norm_bound,clipped_clustering
    +experiment=arena/image seed=0 num_byzantine=5 partition=iid,mild_dirichlet \
        aggregator=trmean,krum,fltrust,clipped_clustering

Values with commas make one run for each combination, as in a sweep. Every run goes to a run folder, and its line to the
CSV: ``clean_seconds`` is the least of three trainings without attack, ``simulated_seconds`` that of all simulations,
``trainings`` their ratio, all measured in one process. A run whose folder is complete is not made again.
"""

import argparse
import csv
import itertools
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import robustfl_bench
from robustfl_bench.parts import datasets
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.train import loop, rounds
from robustfl_bench.train.federation import federation_of
from robustfl_bench.train.foresight import Foresight
from robustfl_bench.train.metrics import METRICS

COLUMNS = ("run_id", "clean_seconds", "simulated_seconds", "trainings")


def clean_seconds(overrides: list[str]) -> float:
    """The least seconds of three trainings without attack."""
    planned = plan(compose.resolve([*overrides, "attack=none"]).config)
    data = datasets.load(planned.parts.dataset, None, torch.device("cpu"))
    seconds = []
    for _ in range(3):
        federation = federation_of(planned.settings, planned.parts, data)
        began = time.process_time()
        list(loop.run(federation, rounds.initial_state(federation), metrics=METRICS))
        seconds.append(time.process_time() - began)
    return min(seconds)


def measured(overrides: list[str], results: Path) -> dict[str, object] | None:
    """The line of one run; None if it was made before."""
    simulated = 0.0
    simulate = Foresight.simulate

    def timed(*arguments: Any) -> Any:
        nonlocal simulated
        began = time.process_time()
        harms = simulate(*arguments)
        simulated += time.process_time() - began
        return harms

    with patch.object(Foresight, "simulate", timed):
        result = robustfl_bench.run(*overrides, "attack=planned", results_dir=results, use_kept=False)
    if not simulated:
        return None
    clean = clean_seconds(overrides)
    numbers = (f"{number:.3g}" for number in (clean, simulated, simulated / clean))
    return dict(zip(COLUMNS, (result.summary["run_id"], *numbers), strict=True))


def main() -> None:
    """Make the runs that are missing, and append their lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("overrides", nargs="*")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    chosen.csv.parent.mkdir(parents=True, exist_ok=True)
    swept = [[f"{name}={value}" for value in values.split(",")]
             for name, _, values in (word.partition("=") for word in chosen.overrides)]  # fmt: skip
    begins = not chosen.csv.exists()
    with chosen.csv.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if begins:
            writer.writeheader()
        for overrides in itertools.product(*swept):
            if (line := measured(list(overrides), chosen.results)) is not None:
                writer.writerow(line)
                file.flush()
                print(*overrides, *line.values(), flush=True)


if __name__ == "__main__":
    main()
