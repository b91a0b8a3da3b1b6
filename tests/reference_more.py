"""Slow, obvious versions of GAS, FedSECA, Aksel, the medoid, PoisonedFL, Neurotoxin and the hybrid sparse attack, in
float64, with loops over clients and coordinates."""

import math
from fractions import Fraction
from statistics import median

import numpy as np
from scipy.stats import binom


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


def poisonedfl(signs, models, factor, interval, shrink=0.7, least=0.5, confidence=0.99):
    """The pushes k of the model (a list of vectors) in each round, from the models that the attackers receive in them:
    the authors' loop, whose rounds are numbered from 0."""
    needed, pushes = binom.ppf(confidence, len(signs), 0.5), [np.zeros(len(signs))]
    for e in range(1, len(models)):
        change = models[e] - models[e - 1]
        last, size = pushes[-1], np.linalg.norm(change)
        left = np.abs(change - last * size / np.linalg.norm(last)) if last.any() else np.abs(change)
        if e % interval == 0:
            went = models[e] - models[e - interval + 1]  # since the end of the round of the last test
            went = np.array([weight if step == 0 else step for step, weight in zip(went, models[e], strict=True)])
            aligned = sum(sign(a) == b for a, b in zip(went, signs, strict=True))
            if aligned < needed and factor * shrink >= least:
                factor *= shrink
        pushes.append(factor * size * left / np.linalg.norm(left) * signs)
    return pushes


def hybrid_sparse(mean, std, params, share, scale, z):
    count = max(1, round(share * len(mean)))
    sensitive = sorted(range(len(mean)), key=lambda k: -abs(params[k] * mean[k]))[:count]
    return np.array([mean[k] - (scale if k in sensitive else z) * std[k] for k in range(len(mean))])


def neurotoxin(rows, reference, avoided):
    heavy = sorted(range(len(reference)), key=lambda k: -abs(reference[k]))[: round(avoided * len(reference))]
    return np.array([[0.0 if k in heavy else row[k] for k in range(len(row))] for row in rows])
