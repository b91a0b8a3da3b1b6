"""Slow, obvious versions of GAS, FedSECA, Aksel and the medoid, in float64, with loops over clients and coordinates."""

import math
from fractions import Fraction
from statistics import median

import numpy as np


def nearest(rows, scores, count):
    """Mean of the ``count`` rows of least score."""
    return np.mean([rows[i] for i in sorted(range(len(rows)), key=lambda i: scores[i])[:count]], axis=0)


def medoid(rows):
    totals = [sum(math.dist(row, other) for other in rows) for row in rows]
    return rows[totals.index(min(totals))]


def aksel(rows, f=None):
    middle = [median(column) for column in rows.T]
    count = (len(rows) + 1) // 2 if f is None else len(rows) - f
    return nearest(rows, [math.dist(row, middle) for row in rows], count)


def gas(rows, f, groups, rule):
    """``groups`` are lists of coordinates; ``rule`` maps rows (n, k) to a vector (k,)."""
    scores = [0.0] * len(rows)
    for group in groups:
        reference = rule(rows[:, group])
        for i, row in enumerate(rows):
            scores[i] += math.dist(row[group], reference)
    return nearest(rows, scores, len(rows) - f)


def sign(value):
    return int(value > 0) - int(value < 0)


def fedseca(rows, sparsity):
    n, d = rows.shape

    def concordance(a, b):
        return Fraction(sum(sign(x) * sign(y) for x, y in zip(a, b, strict=True)), d)

    ratios = [max(Fraction(0), Fraction(sum(sign(concordance(a, b)) for b in rows), n)) for a in rows]
    bound = median(float(np.linalg.norm(row)) for row in rows)
    clipped = [row * min(1.0, bound / float(np.linalg.norm(row))) for row in rows]
    limits = [float(np.quantile(np.abs(row), sparsity)) for row in rows]
    result = []
    for j in range(d):
        elected = sign(sum(ratio * sign(row[j]) for ratio, row in zip(ratios, rows, strict=True)))
        most = median(abs(row[j]) for row in clipped)
        found = []
        for i in range(n):
            entry = sign(clipped[i][j]) * min(most, abs(clipped[i][j])) if abs(rows[i][j]) > limits[i] else 0.0
            if elected * entry > 0:
                found.append(entry)
        result.append(sum(found) / len(found) if found else 0.0)
    return np.array(result)
