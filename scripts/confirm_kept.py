"""Does a change of the code leave the arena's kept runs as they are?

    python scripts/confirm_kept.py digits --base COMMIT --jobs 2

Only kept runs that the code of COMMIT made, and whose code is different today, are in question. Of these, every rule is
run again under every attack, in a partition and with a seed drawn for each attack, and at every rate. Accuracies, loss
and recall must equal those of the kept runs, to the last digit of the files. A run that differs is also made by the
code of COMMIT, because kinds of processors differ in the last digits, and only a difference between the two versions
counts. Without any, the kept runs in question are marked as made by today's code, and
results/arena/confirmed_TRACK.csv lists the runs that were made again. Otherwise nothing is marked, and the runs that
differ are listed.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pandas as pd

from robustfl_bench.base.code_digest import PACKAGE, code_digest
from robustfl_bench.runs import archive, records
from robustfl_bench.runs.origins import SHORT
from robustfl_bench.runs.records import settings

ROOT = PACKAGE.parent
ARENA = ROOT / "results" / "arena"
DATA = {"digits": "digits", "image": "fashion_mnist"}
FILES = ("runs.csv.gz", "rates.csv.gz")
COMPARED = ("state", "rounds_done", "final_accuracy", "best_accuracy", "validation_accuracy", "test_loss", "recall")
DIGESTS = """
import json, sys
from robustfl_bench.base.code_digest import code_digest
print(json.dumps([code_digest(values) for values in json.load(sys.stdin)]))
"""
PLACE = {"partition": "partition", "seed": "seed", "num_byzantine_declared": "num_byzantine"}
"""What a cell is asked for by, by its column."""


def sweeps(kept: pd.DataFrame, track: str) -> list[list[str]]:
    """What is run again of a track: every rule that has kept runs under every attack, once, and at every rate."""
    draw = random.Random(0)
    is_rate = pd.to_numeric(kept["validation_share"], errors="coerce").notna()
    cells = [[track, f"attack={attack}", *_drawn(draw, of)] for attack, of in kept[~is_rate].groupby("attack")]
    rates = [[f"{track}_rates", f"lr={rate}", *_drawn(draw, of)] for rate, of in kept[is_rate].groupby("lr")]
    return [[f"+experiment=arena/{experiment}", *words] for experiment, *words in [*cells, *rates]]


def _drawn(draw: random.Random, runs: pd.DataFrame) -> list[str]:
    """One of the places in which most rules were run, and these rules."""
    rules: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for *asked, rule in zip(*(runs[name].astype(str) for name in (*PLACE, "aggregator")), strict=True):
        rules[tuple(asked)].add(rule)
    most = max(map(len, rules.values()))
    place, names = draw.choice([(place, names) for place, names in sorted(rules.items()) if len(names) == most])
    asked = [f"{key}={value}" for key, value in zip(PLACE.values(), place, strict=True)]
    return [*asked, f"aggregator={','.join(sorted(names))}"]


def made(asked: Sequence[Sequence[str]], root: str, jobs: int, folder: str) -> pd.DataFrame:
    """The runs of sweeps, each in words of the command line, made by the code in ``root``."""
    for words in asked:
        command = [sys.executable, "-m", "robustfl_bench", "-m", *words, f"results_dir={folder}", "use_kept=false"]
        print(*(word[:60] for word in words), flush=True)
        command += ["num_threads=1", "hydra/launcher=processes", f"hydra.launcher.n_jobs={jobs}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": root})
    runs = records.load(folder)
    return runs[runs["state"].isin(records.MEASURED)]


def differing(kept: pd.DataFrame, again: pd.DataFrame) -> list[str]:
    """The ids of the runs that were made again and are not as they are kept; raises KeyError for one that is not."""
    known = {str(run["run_id"]): _facts(run) for run in kept.to_dict("records")}
    return [str(run["run_id"]) for run in again.to_dict("records") if known[str(run["run_id"])] != _facts(run)]


def _facts(run: Mapping[Hashable, object]) -> str:
    """What is stored of a run's result, as text, to the last digits of a file."""
    return str([_rounded(run.get(name)) for name in COMPARED])


def _rounded(value: object) -> object:
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return f"{value:.7g}" if isinstance(value, float | int) else value


def marked(kept: pd.DataFrame, base: str) -> pd.DataFrame:
    """The runs with today's code for that in the folder ``base``, where they were made by it."""
    parts = kept[[name for name in settings(kept) if "." in name]]
    texts = [str(values) for values in parts.itertuples(index=False, name=None)]
    unlike = sorted(set(texts))
    done = subprocess.run([sys.executable, "-c", DIGESTS], input=json.dumps(unlike), cwd=base, check=True,
                          env={**os.environ, "PYTHONPATH": base}, stdout=subprocess.PIPE, text=True)  # fmt: skip
    then = dict(zip(unlike, json.loads(done.stdout), strict=True))
    code = [code_digest(text)[:SHORT] if held == then[text][:SHORT] else held
            for text, held in zip(texts, kept["code"], strict=True)]  # fmt: skip
    return kept.assign(code=code)


@contextmanager
def tree(commit: str) -> Iterator[str]:
    """The files of a commit, in a folder that goes afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "worktree", "add", "--detach", folder, commit], check=True, cwd=ROOT)
        try:
            yield folder
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", folder], check=True, cwd=ROOT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("track", choices=DATA)
    parser.add_argument("--base", required=True, metavar="COMMIT", help="whose code made the kept runs")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", help="for the runs that are made again (a temporary one)")
    asked = parser.parse_args()
    kept = {name: archive.read(str(ARENA / name)) for name in FILES}
    chosen = {name: runs["dataset"] == DATA[asked.track] for name, runs in kept.items()}
    with tempfile.TemporaryDirectory() as temporary, tree(asked.base) as base:
        folder = asked.folder or temporary
        now = {name: marked(runs[chosen[name]], base) for name, runs in kept.items()}
        known = archive.join([runs[runs["code"] != kept[name].loc[chosen[name], "code"]] for name, runs in now.items()])
        if known.empty:
            raise SystemExit(f"no kept run is made by the code of {asked.base} and has different code today")
        today = made(sweeps(known, asked.track), str(ROOT), asked.jobs, f"{folder}/today")
        if others := set(differing(known, today)):
            rows = today[today["run_id"].isin(others)]
            print(f"{len(others)} of {len(today)} differ from the kept runs; made by the code of {asked.base} too")
            before = made([[f"rerun={','.join(rows['folder'])}"]], base, asked.jobs, f"{folder}/base")
            if changed := differing(before, rows):
                names = rows.set_index("run_id").loc[changed, ["aggregator", "attack", "partition", "lr", "seed"]]
                raise SystemExit(f"{len(changed)} runs are changed by the code:\n{names.to_string()}")
        print(f"all {len(today)} runs are as they were")
        columns = ["run_id", "aggregator", "attack", "partition", "num_byzantine", "lr", "seed", "final_accuracy"]
        table = today[columns].assign(other_processor=today["run_id"].isin(others))
        path = ARENA / f"confirmed_{asked.track}.csv"
        table = pd.concat([table, pd.read_csv(path)]).drop_duplicates("run_id") if path.exists() else table
        table.sort_values(columns[1:]).to_csv(path, index=False)
        for name, runs in kept.items():
            archive.write(archive.join([now[name], runs[~chosen[name]]]), str(ARENA / name))


if __name__ == "__main__":
    main()
