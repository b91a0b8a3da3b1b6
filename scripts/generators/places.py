"""Every rule where the updates are elsewhere: in a file, and over processes of gloo, beside all of them in one memory.

    python scripts/generators/places.py --run      # measures again: results/bench/places.csv; ten minutes
    python scripts/generators/places.py            # prints the site's page of that file

Each line of the file is one round of a rule from the initial model: the length of the difference between the models
after it, there and in memory, over the length of the step; or the reason why the rule is refused.
"""

import argparse
import csv
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts import datasets
from robustfl_bench.parts.datasets.base import Data
from robustfl_bench.runner.config import compose, options
from robustfl_bench.runner.experiment.plan import Request, plan
from robustfl_bench.runner.processes.columns import SpreadStep
from robustfl_bench.runner.processes.launch import local
from robustfl_bench.runner.processes.peers import joined
from robustfl_bench.train.federation import Federation, Store, federation_of
from robustfl_bench.train.rounds import initial_state, step
from robustfl_bench.train.storage import InMemory, OnDisk

FOLDER = Path(__file__).parents[2] / "results" / "bench"
PAGE = "results/bench/places.md"
PROCESSES = (1, 2, 4, 7)
PLACES = ("disk", *(f"{size} processes" if size > 1 else "1 process" for size in PROCESSES))
ROUNDS = {
    "close updates": ("partition=iid", "attack=lie"),
    "label skew": ("partition=pathological", "attack=ipm"),
    "outliers": ("partition=pathological", "attack=gauss"),
}
SHARED = ("num_clients=20", "num_byzantine=3", "model.hidden=[32]", "rounds=1")
COLUMNS = ("rule", "round", "place", "difference", "refused")


def cases() -> Iterator[tuple[str, str, Request]]:
    """Every rule in every round in which it can be planned."""
    for rule in options.names("aggregator"):
        if options.original("aggregator", rule) == rule:
            for name, words in ROUNDS.items():
                try:
                    yield rule, name, plan(compose.resolve((f"aggregator={rule}", *SHARED, *words)).config)
                except ConfigError:  # such as boba_es, which tries all subsets of clients
                    continue


def measured(rank: int, size: int, folder: Path) -> None:
    """Measure all cases as one of several processes; the first writes what it finds."""
    found = []
    with joined(rank, size, f"file://{folder / 'meeting'}", 60.0, "process") as link:
        for rule, name, planned in cases():
            data = datasets.load(planned.parts.dataset, None, torch.device("cpu"))

            def federation(store: Store = InMemory, planned: Request = planned, data: Data = data) -> Federation:
                return federation_of(planned.settings, planned.parts, data, store)

            def compared(made: torch.Tensor) -> float:
                own = federation()
                start = initial_state(own)
                expected = step(own, start)[0].params
                return float((made - expected).double().norm() / (expected - start.params).double().norm())

            def note(
                place: str, params: torch.Tensor | None, refused: str = "", rule: str = rule, name: str = name
            ) -> None:
                if rank == 0:
                    difference = "" if params is None else compared(params)
                    found.append(dict(zip(COLUMNS, (rule, name, place, difference, refused), strict=True)))

            spread = federation()
            try:
                made = SpreadStep(link, spread, 60.0)(spread, initial_state(spread))[0].params
            except ConfigError as error:
                note(PLACES[1 + PROCESSES.index(size)], None, str(error))
            else:
                note(PLACES[1 + PROCESSES.index(size)], made)
            if size == 1:
                stored = federation(partial(OnDisk, folder=folder))
                note("disk", step(stored, initial_state(stored))[0].params)
    if rank == 0:
        (folder / "found.json").write_text(json.dumps(found))


def run() -> None:
    """Measure all places and write the file."""
    rows = []
    for size in PROCESSES:
        with tempfile.TemporaryDirectory() as folder:
            started: list[BaseProcess] = [
                local().context.Process(target=measured, args=(rank, size, Path(folder))) for rank in range(size)
            ]
            for process in started:
                process.start()
            for process in started:
                process.join()
            rows += json.loads((Path(folder) / "found.json").read_text())
    with (FOLDER / "places.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


def page() -> str:
    """The page of the rows of the file."""
    with (FOLDER / "places.csv").open() as file:
        rows = list(csv.DictReader(file))
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    refused: dict[str, str] = {}
    for row in rows:
        if row["refused"]:
            refused[row["rule"]] = row["refused"]
        else:
            found[row["rule"], row["place"]].append(float(row["difference"]))
    rules = list(dict.fromkeys(rule for rule, _ in found))
    table = [f"| {rule} | " + " | ".join(_cell(found.get((rule, place))) for place in PLACES) + " |" for rule in rules]
    several = max(max(values) for (_, place), values in found.items() if place != "disk")
    stored = sum(max(found[rule, "disk"]) == 0 for rule in rules)
    works = len(rules) - len(refused)
    rounds = "; ".join(f"{name}: `{' '.join(words)}`" for name, words in ROUNDS.items())
    return f"""# Rules, places and processes

`python scripts/generators/places.py` prints this page; [README.md](README.md) has what rules over processes cost.

**{works} of {len(rules)} rules work wherever the columns of updates are**, and give what they give in one memory:
the same bytes with updates in a file ({stored} rules), and within {several:.0e} of the step over processes. The other
{len(refused)} ({", ".join(refused)}) test whole models of clients. Over several processes they end with one line.

The table has a round of every rule from the initial model, with 20 honest clients and 3 attackers on digits: the length
of the difference between the model there and the model in memory, over the length of the step, the largest of three
rounds ({rounds}).
"=" means the same bytes, "-" that the rule is refused. The processes are real ones, over gloo. What attackers send is
computed by columns as well, so that a rule which only sorts can differ in the last place.

| rule | {" | ".join(PLACES)} |
| --- |{" ---: |" * len(PLACES)}
{chr(10).join(table)}

`python scripts/generators/places.py --run` measures again (`places.csv`). The tests also compare all rules on near ties
and outliers of 1e12, and weights across processes (`tests/test_places.py`).
"""


def _cell(values: list[float] | None) -> str:
    return "-" if values is None else "=" if max(values) == 0 else f"{max(values):.0e}"


def main() -> None:
    """Measure if asked to, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="measure again")
    if parser.parse_args().run:
        run()
    print(page(), end="")


if __name__ == "__main__":
    main()
