"""Is attack=worst at least as harmful as every attack of its list, sent all through the run at one strength?

    python scripts/generators/worst_adversary.py run --csv results/worst/digits.csv      # go on with what is missing
    python scripts/generators/worst_adversary.py run --csv results/worst/mnist.csv --rules median,krum dataset=mnist ...
    python scripts/generators/worst_adversary.py table --csv results/worst/digits.csv    # the verdict per rule
    python scripts/generators/worst_adversary.py won results/runs/FOLDER                 # what worst sent in a run

A rule may come with a pre-aggregation, as in median+nnm. Every line of the CSV is one run: no attack, worst, or one
entry of the list at one strength. ``attack_seconds`` is the processor time of the attack in a round, ``round_seconds``
that of everything. The table takes means over seeds. A run that diverged counts as guessing one class, and so does not
stand out as the worst that can happen.
"""

import argparse
import csv
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean

import torch

from robustfl_bench.base.errors import Diverged
from robustfl_bench.interfaces import Attack, AttackView, Crafted
from robustfl_bench.parts import datasets
from robustfl_bench.parts.attacks.candidates import ENTRIES
from robustfl_bench.parts.attacks.held import Held
from robustfl_bench.parts.attacks.none import NoAttack
from robustfl_bench.parts.attacks.worst import Worst
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.train import loop, rounds
from robustfl_bench.train.federation import federation_of
from robustfl_bench.train.metrics import METRICS

CASE = ("rule", "seed", "attack", "strength")
COLUMNS = (*CASE, "status", "test_accuracy", "test_loss", "attack_seconds", "round_seconds", "sent")
RULES = "average,median,trmean,krum,geomed,centered_clipping,bulyan,rage,fltrust,median+nnm"
CLIENTS = ("partition=dirichlet", "partition.alpha=0.5", "num_clients=20", "num_byzantine=4")
SETTING = (*CLIENTS, "byzantine_placement=replace", "rounds=30", "eval_every=30", "model.hidden=[32]")
POINT = 0.01


@dataclass(frozen=True)
class Timed(Attack):
    """The ``attack``, whose processor time and choices are kept."""

    attack: Attack
    seconds: list[float] = field(default_factory=list)
    choices: list[int] = field(default_factory=list)

    def craft(self, view: AttackView) -> Crafted:
        began = time.process_time()
        crafted = self.attack.craft(view)
        self.seconds.append(time.process_time() - began)
        assert isinstance(crafted, Crafted)
        if "choice" in crafted.notes:
            self.choices.append(int(crafted.notes["choice"]))
        return crafted


def attacks() -> Iterator[tuple[str, float | None, Attack]]:
    """Name, strength and attack of every run of a rule."""
    yield "none", None, NoAttack()
    yield "worst", None, Worst()
    yield "worst_ahead_3", None, Worst(ahead=3)
    for entry in ENTRIES:
        for strength in entry.strengths:
            yield entry.name, strength, Held(entry.name, strength)


def measure(rule: str, seed: int, attack: Attack, overrides: list[str]) -> dict[str, object]:
    """One run; what of its line depends on the result."""
    name, _, mixing = rule.partition("+")
    given = [*SETTING, *overrides, f"aggregator={name}", f"seed={seed}"]
    given += [f"pre_aggregation={mixing}"] if mixing else []
    planned = plan(compose.resolve([*given, f"attack={'none' if isinstance(attack, NoAttack) else 'ipm'}"]).config)
    timed = Timed(attack)
    parts = planned.parts if isinstance(attack, NoAttack) else replace(planned.parts, attack=timed)
    data = datasets.load(parts.dataset, None, torch.device("cpu"))
    federation = federation_of(planned.settings, parts, data)
    row: dict[str, float] = {}
    began, status = time.process_time(), "finished"
    try:
        for _, record in loop.run(federation, rounds.initial_state(federation), metrics=METRICS):
            row = record or row
    except Diverged:
        row, status = {"test_accuracy": 1 / federation.clients.num_classes, "test_loss": float("inf")}, "diverged"
    number = planned.settings.rounds
    sent = Counter(ENTRIES[place].name for place in timed.choices if place >= 0).most_common()
    return {
        "status": status,
        "test_accuracy": f"{row['test_accuracy']:.6g}",
        "test_loss": f"{row['test_loss']:.6g}",
        "attack_seconds": f"{sum(timed.seconds) / number:.3g}",
        "round_seconds": f"{(time.process_time() - began) / number:.3g}",
        "sent": " ".join(f"{name}:{times}" for name, times in sent),
    }


def run(path: Path, rules: list[str], seeds: list[int], screened: int | None, overrides: list[str]) -> None:
    """Append the missing runs to the CSV.

    With ``screened``, seeds after the first get only so many attacks of the list: those of the least accuracy with it.
    """
    torch.set_num_threads(1)
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {tuple(row[name] for name in CASE) for row in lines(path)} if path.exists() else set()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for seed in seeds:
            for rule in rules:
                kept = None if seed == seeds[0] or screened is None else strongest(path, rule, seeds[0], screened)
                for name, strength, attack in attacks():
                    key = (rule, str(seed), name, "" if strength is None else f"{strength:g}")
                    if key not in done and (strength is None or kept is None or key[2:] in kept):
                        known = dict(zip(CASE, key, strict=True))
                        writer.writerow(known | measure(rule, seed, attack, overrides))
                        file.flush()


def strongest(path: Path, rule: str, seed: int, number: int) -> set[tuple[str, str]]:
    """Name and strength of the attacks of the list under which a rule has the least accuracy with this seed."""
    found = [row for row in lines(path) if (row["rule"], row["seed"]) == (rule, str(seed)) and row["strength"]]
    found.sort(key=lambda row: float(row["test_accuracy"]))
    return {(row["attack"], row["strength"]) for row in found[:number]}


def lines(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def table(path: Path, seeds: list[str]) -> None:
    """Print, per rule, the accuracy without attack, under worst, and under the most harmful attack of the list.

    Attacks that were not run with all of these seeds are left out.
    """
    cells: dict[tuple[str, str, str], list[dict[str, str]]] = defaultdict(list)
    for row in (row for row in lines(path) if row["seed"] in seeds):
        cells[row["rule"], row["attack"], row["strength"]].append(row)
    print(
        "| rule | seeds | no attack | worst | worst, ahead=3 | most harmful single attack | its accuracy"
        " | beat worst by > 1 point | help by > 1 point | worst sent most | attack s/round | honest s/round |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for rule in dict.fromkeys(rule for rule, _, _ in cells):
        calm, worst, ahead = (cells[rule, name, ""] for name in ("none", "worst", "worst_ahead_3"))
        singles = {
            f"{name} {strength}": accuracy(cell)
            for (of, name, strength), cell in cells.items()
            if of == rule and strength and len(cell) == len(worst)
        }
        best = min(singles, key=lambda name: singles[name])
        beaten = sum(found < accuracy(worst) - POINT for found in singles.values())
        helping = sum(found > accuracy(calm) + POINT for found in singles.values())
        sent: Counter[str] = Counter()
        for row in worst:
            sent.update({name: int(times) for name, times in (word.split(":") for word in row["sent"].split())})
        flag = "attackers help" if accuracy(worst) > accuracy(calm) + POINT else ""
        print(
            f"| {rule} | {len(worst)} | {accuracy(calm):.1%} | {accuracy(worst):.1%} {flag}|"
            f" {format(accuracy(ahead), '.1%') if ahead else ''} | {best} |"
            f" {singles[best]:.1%} | {beaten} of {len(singles)} | {helping} |"
            f" {', '.join(f'{name} {times}' for name, times in sent.most_common(3))} |"
            f" {average(worst, 'attack_seconds'):.3f} | {average(calm, 'round_seconds'):.4f} |"
        )


def accuracy(cell: list[dict[str, str]]) -> float:
    """Mean final accuracy over the seeds."""
    return average(cell, "test_accuracy")


def average(cell: list[dict[str, str]], column: str) -> float:
    """The mean of a column."""
    return mean(float(row[column]) for row in cell)


def won(folder: Path) -> None:
    """Print what a run's attackers sent, round by round."""
    for row in lines(folder / "metrics.csv"):
        for column in (name for name in row if name.startswith("attack_choice")):
            end = column.removeprefix("attack_choice")
            place = float(row[column])
            name = ENTRIES[int(place)].name if place >= 0 else "nothing of the list"
            print(row["round"], f"{name} {row[f'attack_strength{end}']}", f"harm {row[f'attack_harm{end}']}", end)


def main(arguments: list[str]) -> None:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running, printing = commands.add_parser("run"), commands.add_parser("table")
    for command in (running, printing):
        command.add_argument("--csv", type=Path, required=True)
        command.add_argument("--seeds", default="0,1,2")
    running.add_argument("--rules", default=RULES)
    running.add_argument("--screened", type=int, help="attacks of the list that seeds after the first get")
    running.add_argument("overrides", nargs="*")
    commands.add_parser("won").add_argument("folder", type=Path)
    chosen = parser.parse_args(arguments)
    if chosen.command == "run":
        seeds = [int(seed) for seed in chosen.seeds.split(",")]
        run(chosen.csv, chosen.rules.split(","), seeds, chosen.screened, chosen.overrides)
    elif chosen.command == "table":
        table(chosen.csv, chosen.seeds.split(","))
    else:
        won(chosen.folder)


if __name__ == "__main__":
    main(sys.argv[1:])
