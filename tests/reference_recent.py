"""Slow, obvious versions of rules of 2022 and later: loops over vectors in float64, from the papers' formulas."""

import math
from itertools import combinations, pairwise

import numpy as np


def fed_nga(rows, counts):
    total = np.zeros(rows.shape[1])
    for row, count in zip(rows, counts, strict=True):
        length = np.linalg.norm(row)
        if length > 0:
            total += count / sum(counts) * row / length
    return total


def bfgs(steps, changes):
    """The matrix (d, d) after one BFGS update for each step."""
    sigma = (changes[-1] @ steps[-1]) / (steps[-1] @ steps[-1])
    matrix = sigma * np.eye(len(steps[0]))
    for step, change in zip(steps, changes, strict=True):
        seen = matrix @ step
        matrix = matrix - np.outer(seen, seen) / (step @ seen) + np.outer(change, change) / (change @ step)
    return matrix


def best_groups(values, count):
    """The least sum of squared distances from the groups' means, over all cuts of the sorted values, and the groups."""
    ordered, found = sorted(values), (math.inf, [])
    for cuts in combinations(range(1, len(ordered)), count - 1):
        groups = [ordered[start:stop] for start, stop in pairwise((0, *cuts, len(ordered)))]
        spread = sum(sum((value - sum(group) / len(group)) ** 2 for value in group) for group in groups)
        found = min(found, (spread, groups))
    return found


def suspects(scores, rng, references=10, most=3):
    """The clients in the upper of two groups, if the Gap statistic finds more than one."""
    scaled = [(score - min(scores)) / (max(scores) - min(scores)) for score in scores]
    uniform = rng.random((references, len(scores))).tolist()
    gaps, errors = [], []
    for k in range(1, most + 1):
        spreads = [best_groups(sample, k)[0] for sample in uniform]
        gaps.append(math.log(np.mean(spreads)) - math.log(best_groups(scaled, k)[0]))
        errors.append(math.sqrt(1 + 1 / references) * np.std(np.log(spreads)))
    if next((k for k in range(1, most) if gaps[k - 1] >= gaps[k] - errors[k]), most) == 1:
        return set()
    upper = best_groups(scaled, 2)[1][1]
    return {client for client, score in enumerate(scaled) if score in upper}


class FlDetector:
    """The rule for clients who all take part, told the models and the updates of every round in turn."""

    def __init__(self, rule, window):
        self.rule, self.window, self.removed = rule, window, set()
        self.models, self.rounds, self.aggregates, self.shares = [], [], [], []

    def __call__(self, model, rows, rng):
        if not self.removed:
            self.watch(model, rows, rng)
        self.models.append(model)
        self.rounds.append(rows)
        self.aggregates.append(self.rule(np.array([row for i, row in enumerate(rows) if i not in self.removed])))
        return self.aggregates[-1]

    def watch(self, model, rows, rng):
        if len(self.models) > self.window:
            steps, changes = np.diff(self.models, axis=0), np.diff(self.aggregates, axis=0)
            hessian = bfgs(steps[-self.window :], changes[-self.window :])
            predicted = [row + hessian @ (model - self.models[-1]) for row in self.rounds[-1]]
            missed = [np.linalg.norm(row - guess) for row, guess in zip(rows, predicted, strict=True)]
            self.shares.append(np.array(missed) / sum(missed))
        if len(self.shares) >= self.window:
            self.removed = suspects(np.mean(self.shares[-self.window :], axis=0), rng)
