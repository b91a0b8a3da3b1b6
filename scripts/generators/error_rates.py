"""Writes results/arena/error_rates.csv: how often the arena's tests and intervals err, by simulation on its kept runs.

    python scripts/generators/error_rates.py [--repetitions 400]

In each panel of silos, the seeds of its rules are a population: they are drawn again with replacement, the same seeds
for all rules, since rules share seeds. Each rule's accuracies are moved so that all have the same true score, so
whatever a test then tells apart is an error. ``power`` is the share of pairs told apart without this move. ``used`` is
what the package computes; beside it are what it computed before (``bootstrap``: Welch's test with the errors of a
bootstrap), and tests over differences by seed: Student's (``paired``) and sign flips (``flips``).
"""

import argparse
import csv
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

import numpy as np
from scipy.special import stdtr, stdtrit

from robustfl_bench.base import seeding
from robustfl_bench.lab.arena.order import ERROR_RATES, RATES, TOP, contenders
from robustfl_bench.lab.arena.panels import Arena, ArenaPanel, Standing
from robustfl_bench.lab.arena.track import HONEST, NONE
from robustfl_bench.read.runs import archive
from robustfl_bench.read.runs.statistics import LEVEL, RESAMPLES, chance_if_equal, rejected

FEWEST, RULES = 10, 5  # seeds of a population, and rules that it has
SEEDS = (3, 5, 10, 20)  # of a simulated panel
TRUE = 50.0  # the score of all rules
LOWEST = 5.0  # the score from which on a rule can be moved: accuracies at chance vary less


@dataclass
class Counts:
    """What a test does in each repetition: its errors by pair, whether it tells any pair apart, the share of rules left
    out of the best group, which intervals hold the true score, and the share of pairs told apart without the move."""

    errors: list[np.ndarray]
    families: list[bool]
    left_out: list[float]
    covered: list[np.ndarray]
    power: list[float]


def population(arena: Arena, panel: ArenaPanel) -> tuple[np.ndarray, np.ndarray]:
    """The scores of the best rules of a panel in each attack and seed (rules, attacks, seeds), moved to the same true
    score, and by how much each was moved. As many seeds as RULES rules have."""
    cells = defaultdict[str, dict[str, dict[str, float]]](lambda: defaultdict(dict))
    for run in arena.runs_of(panel):
        if run.attack not in (NONE, HONEST):
            share = (100 * run.accuracy - panel.chance) / (panel.honest - panel.chance)
            cells[run.rule][run.attack][run.seed] = 100 * share
    rules = [rule for rule in contenders(panel) if panel.standings[rule].score.value > LOWEST]
    seeds = {rule: set.intersection(*map(set, cells[rule].values())) for rule in rules}
    most = next((n for n in (20, FEWEST) if sum(len(of) >= n for of in seeds.values()) >= RULES), None)
    if most is None:
        return np.empty((0, 0, 0)), np.empty(0)
    known = [rule for rule in rules if len(seeds[rule]) >= most]
    first = sorted(set.intersection(*(seeds[rule] for rule in known)), key=int)[:most]
    numbers = np.array([[[of[seed] for seed in first] for _, of in sorted(cells[rule].items())] for rule in known])
    truth = numbers.mean(axis=2).min(axis=1) - TRUE
    return numbers - truth[:, None, None], truth


def chances(numbers: np.ndarray, shares: np.ndarray, flips: np.ndarray) -> dict[str, np.ndarray]:
    """The p-values of other tests for the pairs of rules in a sample (rules, attacks, seeds)."""
    rules, _, n = numbers.shape
    means = numbers.mean(axis=2)
    scores = means.min(axis=1)
    first, second = np.array(list(combinations(range(rules), 2))).T
    apart = abs(scores[first] - scores[second])
    variance = bootstrap_errors(numbers, shares) ** 2
    own, other = variance[first], variance[second]
    by_seed = numbers[range(rules), means.argmin(axis=1)]
    differences = by_seed[first] - by_seed[second]
    flipped = abs(flips[:, :n] @ differences.T) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = (own + other) ** 2 * (n - 1) / (own**2 + other**2)
        return {
            "bootstrap": 2 * stdtr(freedom, -apart / np.sqrt(own + other)),
            "paired": 2 * stdtr(n - 1, -apart / differences.std(axis=1, ddof=1) * np.sqrt(n)),
            "flips": (flipped >= apart - 1e-9).mean(axis=0),
        }


def bootstrap_errors(numbers: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The standard errors of scores over draws of the seeds."""
    n = numbers.shape[2]
    drawn = np.einsum("ras,ds->dra", numbers, shares).min(axis=2)
    return np.asarray(drawn.std(axis=0) * np.sqrt(n / (n - 1)))


def simulated(panel: ArenaPanel, numbers: np.ndarray, truth: np.ndarray, n: int, repetitions: int) -> dict[str, Counts]:
    """What each test does in a panel whose rules all have n seeds."""
    draws = seeding.generator(0, "error rates", panel.partition, panel.number, n)
    shares = seeding.generator(0, "bootstrap", n).multinomial(n, [1 / n] * n, size=RESAMPLES) / n
    flips = np.sign(draws.random((RESAMPLES, n)) - 0.5)
    counts = defaultdict[str, Counts](lambda: Counts([], [], [], [], []))
    scale = replace(panel, chance=0.0, honest=100.0, attacks=1)
    every = list(combinations(range(TOP), 2))
    for _ in range(repetitions):
        sample = numbers[:, :, draws.integers(numbers.shape[2], size=n)]
        for moved in (True, False):
            of = sample if moved else sample + truth[:, None, None]
            scores = {str(rule): scale.score(rows) for rule, rows in enumerate(of)}
            compared = [pair for pair in every if pair[1] < len(of)]
            found = chances(of[:TOP], shares, flips)
            found["used"] = np.array([chance_if_equal(scores[str(a)], scores[str(b)]) for a, b in compared])
            for name, chance in found.items():
                told = rejected(dict(zip(compared, chance.tolist(), strict=True)), panel.level)
                if not moved:
                    counts[name].power.append(len(told) / len(compared))
                    continue
                counts[name].errors.append(chance <= 1 - LEVEL)
                counts[name].families.append(bool(told))
            if moved:
                standings = {rule: Standing(rule, 0.0, "", {"": 0.0}, score) for rule, score in scores.items()}
                group = next(replace(scale, standings=standings).groups(scores))
                counts["used"].left_out.append(1 - len(group) / len(of))
                bounds = [score.interval() for score in scores.values()]
                counts["used"].covered.append(np.array([of is not None and of.low <= TRUE <= of.high for of in bounds]))
                reach = stdtrit(n - 1, (1 + LEVEL) / 2) * bootstrap_errors(of, shares)
                counts["bootstrap"].covered.append(abs(of.mean(axis=2).min(axis=1) - TRUE) <= reach)
    return counts


def lines(arena: Arena, repetitions: int) -> Iterator[Mapping[str, object]]:
    """The lines of the file."""
    for panel in arena.by_list.values():
        numbers, truth = population(arena, panel)
        for n in (n for n in SEEDS if n <= numbers.shape[2]):
            for name, of in simulated(panel, numbers, truth, n, repetitions).items():
                by_pair, covered = np.mean(of.errors, axis=0), np.mean(of.covered or [np.full(1, math.nan)], axis=0)
                rates = [by_pair.mean(), by_pair.max(), fmean(of.families), fmean(of.left_out or [math.nan]),
                         covered.mean(), covered.min(), fmean(of.power)]  # fmt: skip
                place = [arena.track.name, panel.partition, panel.number, len(numbers), n, name]
                yield dict(zip(RATES, [*place, *(f"{rate:.4f}" for rate in rates)], strict=True))


def main() -> None:
    """Simulate all panels of silos."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=400)
    repetitions = parser.parse_args().repetitions
    found = list(lines(Arena(archive.kept(arena=True), "silos"), repetitions))
    with ERROR_RATES.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, RATES, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main()
