"""Slow, obvious versions of clustered learning: one machine, one model, one number at a time, in float64."""

from itertools import permutations

import numpy as np
from scipy.optimize import minimize


def distance(estimates, truth):
    """The least mean distance over all ways of matching k estimates to k true parameters."""
    k = len(truth)
    means = [sum(np.sqrt(sum((estimates[order[j]] - truth[j]) ** 2)) for j in range(k)) / k
             for order in permutations(range(k))]  # fmt: skip
    return min(means)


def nearest(estimates, truth):
    """Every estimate against its nearest true parameter."""
    return sum(min(np.sqrt(sum((e - t) ** 2)) for t in truth) for e in estimates) / len(estimates)


def recovery(counts):
    """The best share of clients over all ways of matching models to clusters."""
    k = len(counts)
    return max(sum(counts[j][order[j]] for j in range(k)) for order in permutations(range(k))) / np.sum(counts)


def loss(theta, x, y):
    return sum((y[i] - x[i] @ theta) ** 2 for i in range(len(y))) / len(y)


def gradient(theta, x, y):
    return sum(2 * (x[i] @ theta - y[i]) * x[i] for i in range(len(y))) / len(y)


def median(rows, lower):
    out = []
    for column in np.array(rows).T:
        ordered = sorted(column)
        low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
        out.append(low if lower else (low + high) / 2)
    return np.array(out)


def trimmed_mean(rows, fraction):
    cut = int(fraction * len(rows) + 1e-9)
    return np.array([np.mean(sorted(column)[cut : len(rows) - cut]) for column in np.array(rows).T])


def algorithm_1(models, machines, byzantine, rounds, step, combine, loss_at_3theta=False, by_share=False, radius=None):
    """BRIFCA's Algorithm 1 with its own Byzantine machines; a model that nobody chose stays as it is."""
    for _ in range(rounds):
        groups = [[] for _ in models]
        for i, (x, y) in enumerate(machines):
            scale = 3 if i in byzantine and loss_at_3theta else 1
            chosen = int(np.argmin([loss(scale * theta, x, y) for theta in models]))
            groups[chosen].append(gradient((3 if i in byzantine else 1) * models[chosen], x, y))
        after = []
        for theta, group in zip(models, groups, strict=True):
            if group:
                share = len(group) / len(machines) if by_share else 1
                theta = theta - step * share * combine(group)
            if radius is not None and np.linalg.norm(theta) > radius:
                theta = theta * radius / np.linalg.norm(theta)
            after.append(theta)
        models = after
    return np.array(models)


def geometric_median(points):
    """The point of least total distance: by a general optimiser, or one of the points, whichever is better."""

    def total(at):
        return np.linalg.norm(points - at, axis=1).sum()

    found = minimize(total, points.mean(axis=0), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).x
    return min([found, *points], key=total)


def trimmed_kmeans(points, centres, keep, max_iter, tol):
    """Lloyd's iteration; a centre is the mean of its points without those farthest from their geometric median."""
    for _ in range(max_iter):
        labels = [int(np.argmin([np.linalg.norm(p - c) for c in centres])) for p in points]
        after = []
        for j, centre in enumerate(centres):
            own = np.array([p for p, label in zip(points, labels, strict=True) if label == j])
            if len(own):
                middle = geometric_median(own)
                away = np.array([np.linalg.norm(p - middle) for p in own])
                kept = own if keep == 1 else own[away < np.quantile(away, keep)]
                centre = (kept if len(kept) else own).mean(axis=0)
            after.append(centre)
        moved = sum(np.sum((a - c) ** 2) for a, c in zip(after, centres, strict=True)) / len(centres)
        centres = after
        if moved < tol:
            break
    return np.array(labels), np.array(centres)
