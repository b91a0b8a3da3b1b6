"""Slow, obvious versions of the rules: loops over vectors in float64, written from the papers' formulas.

Updates are rows of a float64 NumPy array (n, d). Server data come as the class updates (c, d), or as the functions
``loss`` and ``gradient`` of a model (d,).
"""

from itertools import combinations

import numpy as np


def coomed(rows):
    result = []
    for column in rows.T:
        values, middle = sorted(column), len(column) // 2
        result.append(values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2)
    return np.array(result)


def trmean(rows, f):
    return np.array([np.mean(sorted(column)[f : len(column) - f]) for column in rows.T])


def krum_scores(rows, f):
    n, scores = len(rows), []
    for i in range(n):
        distances = sorted(float(np.sum((rows[i] - rows[j]) ** 2)) for j in range(n) if j != i)
        scores.append(sum(distances[: n - f - 2]))
    return np.array(scores)


def krum(rows, f, m=1):
    best = sorted(range(len(rows)), key=lambda i: krum_scores(rows, f)[i])[:m]
    return np.mean([rows[i] for i in best], axis=0)


def geomed(rows, eps=1e-10, steps=5000):
    """Vardi and Zhang's iteration in all d dimensions."""
    point = rows.mean(axis=0)
    for _ in range(steps):
        distances = [float(np.linalg.norm(row - point)) for row in rows]
        pulls = [1 / distance if distance > eps else 0.0 for distance in distances]
        if sum(pulls) == 0:
            return point
        target = sum(pull * row for pull, row in zip(pulls, rows, strict=True)) / sum(pulls)
        at_point = sum(distance <= eps for distance in distances)
        length = float(np.linalg.norm(target - point)) * sum(pulls)
        stay = min(1.0, at_point / length) if length > 0 else 0.0
        moved = (1 - stay) * target + stay * point
        if np.linalg.norm(moved - point) < eps:
            return moved
        point = moved
    return point


def fltrust(rows, server_update):
    total, trusts = np.zeros(rows.shape[1]), 0.0
    for row in rows:
        norms = np.linalg.norm(row) * np.linalg.norm(server_update)
        trust = max(0.0, float(row @ server_update) / norms) if norms > 0 else 0.0
        if trust > 0:
            total += trust * np.linalg.norm(server_update) / np.linalg.norm(row) * row
        trusts += trust
    return total / trusts if trusts > 0 else total


def svd_fit(points, dim):
    """Mean and orthonormal axes (dim, d) of the affine subspace nearest to the points."""
    mean = points.mean(axis=0)
    return mean, np.linalg.svd(points - mean, full_matrices=False)[2][:dim]


def residuals(rows, mean, axes):
    return np.array([np.sum((row - mean - axes.T @ (axes @ (row - mean))) ** 2) for row in rows])


def boba_stage1(rows, classes, f, max_iter=10):
    dim, kept, members = len(classes) - 1, len(rows) - f, None
    mean, axes = svd_fit(classes, dim)
    for _ in range(max_iter):
        nearest = set(np.argsort(residuals(rows, mean, axes), kind="stable")[:kept].tolist())
        if nearest == members:
            break
        members = nearest
        mean, axes = svd_fit(rows[sorted(members)], dim)
    return mean, axes


def boba_exhaustive(rows, classes, f):
    fits = [svd_fit(rows[list(s)], len(classes) - 1) for s in combinations(range(len(rows)), len(rows) - f)]
    return min(fits, key=lambda fit: trimmed_loss(rows, *fit, f))


def trimmed_loss(rows, mean, axes, f):
    return np.sort(residuals(rows, mean, axes))[: len(rows) - f].sum()


def boba_stage2(rows, classes, f, mean, axes, p_min=-0.5):
    """The aggregate and the set of accepted clients."""
    kept = len(rows) - f
    corners = np.array([[*(axes @ (corner - mean)), 1.0] for corner in classes])
    lowest = []
    for row in rows:
        lowest.append(np.linalg.solve(corners.T, [*(axes @ (row - mean)), 1.0]).min())
    accepted = {i for i in range(len(rows)) if lowest[i] >= p_min}
    if len(accepted) <= kept:
        accepted = set(sorted(range(len(rows)), key=lambda i: -lowest[i])[:kept])
    projections = [mean + axes.T @ (axes @ (rows[i] - mean)) for i in accepted]
    return np.mean(projections, axis=0), accepted


def selfrej(rows, f, loss, params, step):
    losses = [loss(params - step * row) for row in rows]
    return rows[sorted(range(len(rows)), key=lambda i: losses[i])[: len(rows) - f]].mean(axis=0)


def avgrej(rows, f, loss, params, step):
    n = len(rows)
    whole = loss(params - step * rows.mean(axis=0))
    scores = [loss(params - step * np.mean([rows[j] for j in range(n) if j != i], axis=0)) - whole for i in range(n)]
    return rows[sorted(range(n), key=lambda i: -scores[i])[: n - f]].mean(axis=0)


def zeno(rows, f, loss, params, step, rho, mean=False):
    squares = [np.mean(row**2) if mean else np.sum(row**2) for row in rows]
    scores = [
        loss(params) - loss(params - step * row) - rho * square for row, square in zip(rows, squares, strict=True)
    ]
    return rows[sorted(range(len(rows)), key=lambda i: -scores[i])[: len(rows) - f]].mean(axis=0)


def bygars(rows, gradient, params, step, inner_steps, inner_lr, start, normalize):
    units = rows if normalize == "none" else np.array([row / np.linalg.norm(row) for row in rows])
    if normalize in ("cosine", "updates"):
        rows = units
    q = np.full(len(rows), start)
    for _ in range(inner_steps):
        slope = gradient(params - step * sum(q[i] * rows[i] for i in range(len(rows))))
        if normalize == "cosine":
            slope = slope / np.linalg.norm(slope)
        q = np.array([q[i] + inner_lr * float(units[i] @ slope) for i in range(len(rows))])
    return sum(q[i] * rows[i] for i in range(len(rows)))


def rage(rows, f, power):
    trust = np.ones(len(rows))
    for _ in range(f):
        mean = sum(c * row for c, row in zip(trust, rows, strict=True)) / trust.sum()
        centred = np.sqrt(trust / trust.sum())[:, None] * (rows - mean)
        direction = np.linalg.svd(centred, full_matrices=False)[2][0]
        deviations = [abs(float(direction @ (row - mean))) ** power for row in rows]
        worst = max(t for t, c in zip(deviations, trust, strict=True) if c > 0)
        trust = np.array([c * (1 - t / worst) if c > 0 else 0.0 for t, c in zip(deviations, trust, strict=True)])
    return sum(c * row for c, row in zip(trust, rows, strict=True)) / trust.sum()


def bucket_means(rows, order, size):
    return np.array([rows[order[s : s + size]].mean(axis=0) for s in range(0, len(rows), size)])


def raga(rows, masses, steps=20_000):
    """Weiszfeld's iteration in all d dimensions, from the weighted mean, for very long."""
    point = np.average(rows, axis=0, weights=masses)
    for _ in range(steps):
        pulls = [mass / max(float(np.linalg.norm(row - point)), 1e-12) for mass, row in zip(masses, rows, strict=True)]
        moved = sum(pull * row for pull, row in zip(pulls, rows, strict=True)) / sum(pulls)
        if np.linalg.norm(moved - point) < 1e-12:
            return moved
        point = moved
    return point


def unit(rows, masses):
    """The distance from the weighted medoid within which half of the mass lies."""
    dists = np.array([[np.linalg.norm(row - other) for other in rows] for row in rows])
    pairs = sorted(zip(dists[(dists @ masses).argmin()], masses, strict=True))
    return next(dist for i, (dist, _) in enumerate(pairs) if sum(mass for _, mass in pairs[: i + 1]) >= sum(masses) / 2)


def rfa(rows, masses, nu, steps):
    point, nu = np.average(rows, axis=0, weights=masses), nu * unit(rows, masses)
    for _ in range(steps):
        pulls = [mass / max(nu, float(np.linalg.norm(row - point))) for mass, row in zip(masses, rows, strict=True)]
        point = sum(pull * row for pull, row in zip(pulls, rows, strict=True)) / sum(pulls)
    return point


def mca(rows, sigma=None, eps=1e-5, steps=100):
    point, eps = rows.mean(axis=0), eps * unit(rows, np.ones(len(rows)))
    for _ in range(steps):
        squares = [float(np.sum((row - point) ** 2)) for row in rows]
        width = np.median(squares) if sigma is None else sigma**2
        kernel = [np.exp(-square / (2 * width)) for square in squares]
        moved = sum(value * row for value, row in zip(kernel, rows, strict=True)) / sum(kernel)
        if np.linalg.norm(moved - point) <= eps:
            return moved
        point = moved
    return point


def rsa(rows, penalty):
    return penalty * sum(np.sign(row) for row in rows)


def votes(rows):
    """Clients for a positive step in a coordinate, less those for a negative one."""
    return [sum(1 for value in column if value > 0) - sum(1 for value in column if value < 0) for column in rows.T]


def brace(rows, threshold, symmetric=False):
    result = []
    for total in votes(rows):
        undecided = symmetric and -threshold <= total <= threshold
        result.append(0.0 if undecided else 1.0 if total > threshold else -1.0)
    return np.array(result)


def signsgd(rows):
    return np.array([1.0 if total > 0 else -1.0 if total < 0 else 0.0 for total in votes(rows)])


def rlr(rows, threshold, mean=False):
    steps = rows.mean(axis=0) if mean else signsgd(rows)
    return np.array(
        [step if abs(total) >= threshold else -step for step, total in zip(steps, votes(rows), strict=True)]
    )
