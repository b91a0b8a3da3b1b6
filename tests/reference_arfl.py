"""Slow, obvious versions of what ARFL (Li et al., arXiv 2101.05880) and its code compute, in float64 NumPy."""

from itertools import combinations

import numpy as np


def objective(a, losses, counts, lam):
    """Equation 6 with the model fixed."""
    return float(a @ losses + lam / 2 * np.sum(a**2 / counts))


def solve_qp(losses, counts, lam):
    """Least objective over the simplex by trying every set of clients: a linear system each, from the KKT conditions.

    Knows nothing of the solution's form; for few clients only.
    """
    n, best, solution = len(losses), np.inf, None
    for size in range(1, n + 1):
        for support in combinations(range(n), size):
            chosen = list(support)
            kkt = np.zeros((size + 1, size + 1))
            kkt[:size, :size] = np.diag(lam / counts[chosen])
            kkt[:size, size] = kkt[size, :size] = 1
            inner = np.linalg.solve(kkt, np.append(-losses[chosen], 1.0))[:size]
            if inner.min() < 0:
                continue
            a = np.zeros(n)
            a[chosen] = inner
            if objective(a, losses, counts, lam) < best:
                best, solution = objective(a, losses, counts, lam), a
    return solution


def theorem(losses, counts, lam):
    """Theorem 4.3 as printed: p is the largest k with 1 + M_k (Lbar_k - L_k) / lambda > 0."""
    order = sorted(range(len(losses)), key=lambda i: losses[i])
    for k in range(len(order), 0, -1):
        best = order[:k]
        total = sum(counts[i] for i in best)
        mean = sum(counts[i] * losses[i] for i in best) / total
        if 1 + total * (mean - losses[order[k - 1]]) / lam > 0:
            break
    return np.array([counts[i] / total * max(0.0, 1 + total * (mean - losses[i]) / lam) for i in range(len(losses))])


def cfl(rows, counts, threshold=0.02):
    """Merge the two groups with the most similar pair of members until two are left; the larger one's weighted mean."""
    unit = [row / np.linalg.norm(row) for row in rows]
    groups = [[i] for i in range(len(rows))]

    def similarity(a, b):
        return max(float(unit[i] @ unit[j]) for i in a for j in b)

    while len(groups) > 2:
        a, b = max(combinations(range(len(groups)), 2), key=lambda pair: similarity(groups[pair[0]], groups[pair[1]]))
        groups[a] += groups.pop(b)
    if similarity(*groups) >= threshold:
        groups = [groups[0] + groups[1]]
    kept = max(groups, key=len)
    return np.average(rows[kept], axis=0, weights=counts[kept]), sorted(kept)


def mkrum(rows, counts):
    """Multi-Krum as in the code: half are suspects, plain distances, the zero to oneself counts."""
    n = len(rows)
    scores = []
    for i in range(n):
        distances = sorted(float(np.linalg.norm(rows[i] - rows[j])) for j in range(n))
        scores.append(sum(distances[: n - n // 2 - 2]))
    kept = sorted(range(n), key=lambda i: scores[i])[: n // 2]
    return np.average(rows[kept], axis=0, weights=counts[kept])
