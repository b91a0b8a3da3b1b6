"""Does a change of the code leave the arena's kept runs as they are?

    python scripts/confirm_kept.py digits --base COMMIT --jobs 2

Every rule is run again under every attack, in a partition and with a seed drawn for each attack, and at every rate
that was tried; accuracies, loss and recall are compared with the kept runs, to the last digit of the files. If all are
equal, the kept runs that were made by the code of COMMIT are marked as made by today's, and
results/arena/confirmed_TRACK.csv says which were made again. If one differs, nothing is marked, and those that differ
are listed: run these again.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Hashable, Mapping

import pandas as pd

from robustfl_bench.package import PACKAGE, code_digest
from robustfl_bench.results import archive, records
from robustfl_bench.results.origins import SHORT
from robustfl_bench.results.records import settings

ARENA = PACKAGE.parent / "results" / "arena"
FILES = ("runs.csv.gz", "rates.csv.gz")
COMPARED = ("state", "rounds_done", "final_accuracy", "best_accuracy", "validation_accuracy", "test_loss", "recall")
DIGESTS = """
import json, sys
from robustfl_bench.package import code_digest
print(json.dumps([code_digest(values) for values in json.load(sys.stdin)]))
"""
PLACE = {"partition": "partition", "seed": "seed", "num_byzantine_declared": "num_byzantine"}
"""What a cell is asked for by, by its column."""


def again(kept: pd.DataFrame, track: str, jobs: int, folder: str) -> pd.DataFrame:
    """Runs of a track made again: every rule that has kept runs under every attack, once, and at every rate."""
    draw = random.Random(0)
    is_rate = pd.to_numeric(kept["validation_share"], errors="coerce").notna()
    for attack, of in kept[~is_rate].groupby("attack"):
        _sweep(track, jobs, folder, f"attack={attack}", *_drawn(draw, of))
    for rate, of in kept[is_rate].groupby("lr"):
        _sweep(f"{track}_rates", jobs, folder, f"lr={rate}", *_drawn(draw, of))
    return records.load(folder)


def _drawn(draw: random.Random, runs: pd.DataFrame) -> list[str]:
    """One of the places in which most rules were run, and these rules."""
    rules: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for *asked, rule in zip(*(runs[name].astype(str) for name in (*PLACE, "aggregator")), strict=True):
        rules[tuple(asked)].add(rule)
    most = max(map(len, rules.values()))
    place, names = draw.choice([(place, names) for place, names in sorted(rules.items()) if len(names) == most])
    told = [f"{key}={value}" for key, value in zip(PLACE.values(), place, strict=True)]
    return [*told, f"aggregator={','.join(sorted(names))}"]


def _sweep(experiment: str, jobs: int, folder: str, *overrides: str) -> None:
    print(experiment, *overrides, flush=True)
    command = [sys.executable, "-m", "robustfl_bench", "-m", f"+experiment=arena/{experiment}", *overrides]
    command += ["hydra/launcher=joblib", f"hydra.launcher.n_jobs={jobs}", "num_threads=1", "use_kept=false"]
    command += [f"results_dir={folder}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def differing(kept: pd.DataFrame, made: pd.DataFrame) -> list[str]:
    """The ids of the runs that were made again and are not as they are kept; raises KeyError for one that is not."""
    known = {str(run["run_id"]): _facts(run) for run in kept.to_dict("records")}
    return [str(run["run_id"]) for run in made.to_dict("records") if known[str(run["run_id"])] != _facts(run)]


def _facts(run: Mapping[Hashable, object]) -> str:
    """What is stored of a run's result, as text, to the last digits of a file."""
    return str([_rounded(run.get(name)) for name in COMPARED])


def _rounded(value: object) -> object:
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return f"{value:.7g}" if isinstance(value, float) else value


def marked(kept: pd.DataFrame, base: str) -> pd.DataFrame:
    """The runs with today's code for that of the commit ``base``, where they were made by it."""
    parts = kept[[name for name in settings(kept) if "." in name]]
    texts = [str(values) for values in parts.itertuples(index=False, name=None)]
    unlike = sorted(set(texts))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "worktree", "add", "--detach", folder, base], check=True, cwd=PACKAGE.parent)
        try:
            done = subprocess.run([sys.executable, "-c", DIGESTS], input=json.dumps(unlike), cwd=folder, check=True,
                                  env={**os.environ, "PYTHONPATH": folder}, capture_output=True, text=True)  # fmt: skip
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", folder], check=True, cwd=PACKAGE.parent)
    then = dict(zip(unlike, json.loads(done.stdout), strict=True))
    now = {text: code_digest(text) for text in unlike}
    code = [now[text][:SHORT] if held == then[text][:SHORT] else held
            for text, held in zip(texts, kept["code"], strict=True)]  # fmt: skip
    return kept.assign(code=code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("track")
    parser.add_argument("--base", required=True, metavar="COMMIT", help="whose code made the kept runs")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", help="for the runs that are made again (a temporary one)")
    asked = parser.parse_args()
    kept = {name: archive.read(str(ARENA / name)) for name in FILES}
    data = "digits" if asked.track == "digits" else "fashion_mnist"
    everything = archive.join(list(kept.values()))
    with tempfile.TemporaryDirectory() as folder:
        made = again(everything[everything.dataset == data], asked.track, asked.jobs, asked.folder or folder)
    if others := differing(everything, made):
        names = made[made.run_id.isin(others)][["aggregator", "attack", "partition", "lr", "seed", "run_id"]]
        raise SystemExit(f"{len(others)} of {len(made)} runs differ:\n{names.to_string(index=False)}")
    print(f"all {len(made)} runs are equal")
    columns = ["run_id", "aggregator", "attack", "partition", "num_byzantine", "lr", "seed", "final_accuracy"]
    made[columns].sort_values(columns[1:]).to_csv(ARENA / f"confirmed_{asked.track}.csv", index=False)
    for name, runs in kept.items():
        chosen = runs.dataset == data
        archive.write(archive.join([marked(runs[chosen], asked.base), runs[~chosen]]), str(ARENA / name))


if __name__ == "__main__":
    main()
