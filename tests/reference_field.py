"""Slow, obvious versions of the field's rules: loops over vectors in float64, written from the papers' formulas.

Updates are rows of a float64 NumPy array (n, d). Clusters come from scikit-learn, minimisers from SciPy.
"""

import math
from itertools import combinations

import numpy as np
from scipy.optimize import brentq, minimize
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, MeanShift, estimate_bandwidth

from tests import reference


def clipped(vector, radius):
    length = float(np.linalg.norm(vector))
    return vector * min(1.0, radius / length) if length > 0 else vector


def centered_clipping(rows, start, radius, steps=1):
    point = start
    for _ in range(steps):
        point = point + sum(clipped(row - point, radius) for row in rows) / len(rows)
    return point


def sequential_clipping(rows, start, radius, bucket_size, rng, mean_first=False, passes=1):
    point = np.zeros(rows.shape[1]) if start is None else start
    for _ in range(passes):
        if start is None:
            order = rng.permutation(len(rows)).tolist()
        else:
            order = sorted(range(len(rows)), key=lambda i: cosine(rows[i], start))
        point = clipped_in_groups(rows, order, point, radius, bucket_size, rng, mean_first)
    return point


def clipped_in_groups(rows, order, point, radius, bucket_size, rng, mean_first):
    size, larger = divmod(len(order), bucket_size)
    parts = []
    for k in range(bucket_size):
        length = size + (k < larger)
        parts.append(rng.permutation(order[:length]))
        order = order[length:]
    for i in range(len(parts[0])):
        group = [rows[part[i]] for part in parts if i < len(part)]
        if mean_first:
            point = point + clipped(sum(group) / len(group) - point, radius)
        else:
            point = point + sum(clipped(row - point, radius) for row in group) / len(group)
    return point


def clipped_trmean(rows, start, radius, f):
    point = centered_clipping(rows, start, radius)
    return reference.trmean(np.array([point + clipped(row - point, radius) for row in rows]), f)


def cosine(a, b):
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b) / lengths if lengths > 0 else 0.0


def dnc(rows, rejected, draws):
    good = set(range(len(rows)))
    for drawn in draws:
        part = rows[:, drawn]
        centred = part - part.mean(axis=0)
        direction = np.linalg.svd(centred, full_matrices=False)[2][0]
        scores = [float(row @ direction) ** 2 for row in centred]
        good &= set(sorted(range(len(rows)), key=lambda i: scores[i])[: len(rows) - rejected])
    return rows[sorted(good)].mean(axis=0)


def near_median(rows, count, even="mean"):
    result = []
    for column in rows.T:
        values = sorted(column)
        lower, upper = values[(len(values) - 1) // 2], values[len(values) // 2]
        middle = lower if even == "lower" else (lower + upper) / 2
        result.append(np.mean(sorted(values, key=lambda value: abs(value - middle))[:count]))
    return np.array(result)


def bulyan(rows, f, repeated=True):
    left, chosen = list(range(len(rows))), []
    if not repeated:
        scores = reference.krum_scores(rows, f)
        chosen = sorted(left, key=lambda i: scores[i])[: len(rows) - 2 * f]
    while len(chosen) < len(rows) - 2 * f:

        def score(i):
            dists = sorted(float(np.sum((rows[i] - rows[j]) ** 2)) for j in left if j != i)
            return sum(dists[: max(len(left) - f - 2, 1)]), dists

        chosen.append(min(left, key=score))
        left.remove(chosen[-1])
    return near_median(rows[chosen], len(rows) - 4 * f)


def mda(rows, f):
    """The mean, and the diameter, of the best of all sets; of equals the one of least total squared distance."""

    def size(members):
        squares = [float(np.sum((rows[i] - rows[j]) ** 2)) for i, j in combinations(members, 2)]
        return round(max(squares), 9), sum(squares)

    best = min(combinations(range(len(rows)), len(rows) - f), key=size)
    return rows[list(best)].mean(axis=0)


def smea(rows, f):
    def largest(members):
        part = rows[list(members)]
        return np.linalg.norm(part - part.mean(axis=0), ord=2)

    return rows[list(min(combinations(range(len(rows)), len(rows) - f), key=largest))].mean(axis=0)


def caf(rows, f, everyone=False):
    """``everyone``: the largest deviation is over all clients, also those whose trust is gone."""
    trust, least, best = np.ones(len(rows)), math.inf, rows.mean(axis=0)
    while trust.sum() > len(rows) - 2 * f:
        mean = np.average(rows, axis=0, weights=trust)
        scaled = np.sqrt(trust / trust.sum())[:, None] * (rows - mean)
        values, directions = np.linalg.svd(scaled, full_matrices=False)[1:]
        if values[0] ** 2 < least:
            least, best = values[0] ** 2, mean
        deviations = [float((row - mean) @ directions[0]) ** 2 for row in rows]
        worst = max(t for t, c in zip(deviations, trust, strict=True) if c > 1e-9 or everyone)
        trust = np.array([max(c * (1 - t / worst), 0) for t, c in zip(deviations, trust, strict=True)])
    return best


def monna(rows, f, trusted):
    nearest = sorted(range(len(rows)), key=lambda i: float(np.linalg.norm(rows[i] - trusted)))
    return rows[nearest[: len(rows) - f]].mean(axis=0)


def farthest_first(rows, weights):
    return sorted(zip((float(np.linalg.norm(row)) for row in rows), weights, strict=True), reverse=True)


def cs_plus_radius(rows, weights, delta):
    """Walk from the farthest inwards until what has been passed weighs 2 delta."""
    passed = 0.0
    for distance, weight in farthest_first(rows, weights):
        if passed >= 2 * delta - 1e-12:
            return distance
        passed += weight
    return 0.0


def clipped_gossip_radius(rows, weights, delta):
    """The root of the mean square, over delta, of those that are left when weights of delta are cut off outside."""
    left = sum(weights) - delta + 1e-12
    total, inside = 0.0, 0.0
    for distance, weight in reversed(farthest_first(rows, weights)):
        inside += weight
        if inside > left:
            break
        total += weight * distance**2
    return np.sqrt(total / delta) if delta > 0 else np.inf


def clipped_sum(rows, weights, radius):
    return sum(weight * clipped(row, radius) for row, weight in zip(rows, weights, strict=True))


def signguard(rows, drawn, lower=0.1, upper=3.0, similarity=None, bins=False):
    norms = [float(np.linalg.norm(row)) for row in rows]
    middle = float(np.median(norms))
    shares = np.array([[np.mean(np.sign(row[drawn]) == sign) for sign in (1, 0, -1)] for row in rows])
    features = [shares / np.maximum(shares.max(axis=0), 1e-300)]
    if similarity is not None:
        features.append(np.array(similarity)[:, None] / max(similarity))
    points = np.hstack(features)
    bandwidth = estimate_bandwidth(points, quantile=0.5) * (1 + 1e-9)  # as far as the bandwidth is within it
    shift = MeanShift(bandwidth=bandwidth, bin_seeding=bins, cluster_all=False).fit(points)
    sizes = [int(np.sum(shift.labels_ == label)) for label in range(shift.labels_.max() + 1)]
    clustered = shift.labels_ == int(np.argmax(sizes))
    passed = [i for i in range(len(rows)) if clustered[i] and lower * middle <= norms[i] <= upper * middle]
    passed = passed or np.flatnonzero(clustered).tolist()
    return np.mean([clipped(rows[i], middle) for i in passed], axis=0)


def foolsgold_weights(histories, confidence=1.0):
    n = len(histories)
    similar = [[cosine(histories[i], histories[j]) if i != j else -math.inf for j in range(n)] for i in range(n)]
    largest = [max(0.0, *row) for row in similar]
    for i in range(n):
        for j in range(n):
            if i != j and largest[j] > largest[i] and largest[j] > 0:
                similar[i][j] *= largest[i] / largest[j]
    weights = [min(max(1 - max(row), 0.0), 1.0) for row in similar]
    result = []
    for weight in weights:
        share = weight / max(weights)
        if share in (0.0, 1.0):
            result.append(share)
        else:
            result.append(min(max(confidence * (math.log(share / (1 - share)) + 0.5), 0.0), 1.0))
    return np.array(result)


def flame(rows, models):
    """Without its noise."""
    dists = np.array([[max(0.0, 1 - cosine(a, b)) for b in models] for a in models])
    np.fill_diagonal(dists, 0)
    labels = HDBSCAN(
        metric="precomputed", min_cluster_size=len(rows) // 2 + 1, min_samples=1, allow_single_cluster=True, copy=True
    ).fit(dists)
    bound = float(np.median([np.linalg.norm(row) for row in rows]))
    return np.mean([clipped(row, bound) for row, label in zip(rows, labels.labels_, strict=True) if label == 0], axis=0)


def huber(rows, masses, threshold):
    def loss(point):
        total = 0.0
        for row, mass in zip(rows, masses, strict=True):
            length = float(np.linalg.norm(row - point))
            total += mass * (length**2 / 2 if length <= threshold else threshold * length - threshold**2 / 2)
        return total / sum(masses)

    def slope(point):
        return -sum(m * clipped(row - point, threshold) for row, m in zip(rows, masses, strict=True)) / sum(masses)

    return minimize(loss, rows.mean(axis=0), jac=slope, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}).x


def medoid_distance(rows, masses):
    """The distance from the medoid within which half of the mass lies."""
    totals = [sum(m * np.linalg.norm(a - b) for b, m in zip(rows, masses, strict=True)) for a in rows]
    medoid = rows[int(np.argmin(totals))]
    reached = 0.0
    for length, mass in sorted(
        (float(np.linalg.norm(row - medoid)), mass) for row, mass in zip(rows, masses, strict=True)
    ):
        reached += mass
        if reached >= sum(masses) / 2:
            return length
    raise AssertionError("unreachable")


def autogm(rows, regularization, turns=100):
    masses = np.full(len(rows), 1 / len(rows))
    point = reference.raga(rows, masses)
    for _ in range(turns):
        dists = np.array([float(np.linalg.norm(row - point)) for row in rows])

        def excess(level, dists=dists):
            return np.maximum(level - dists, 0).sum() / regularization - 1

        level = brentq(excess, dists.min(), dists.max() + regularization, xtol=1e-13)
        previous, masses = masses, np.maximum(level - dists, 0) / regularization
        point = reference.raga(rows[masses > 0], masses[masses > 0])
        if np.abs(masses - previous).max() < 1e-9:
            return point
    return point


def cge(rows, f):
    return rows[sorted(range(len(rows)), key=lambda i: float(np.linalg.norm(rows[i])))[: len(rows) - f]].mean(axis=0)


def clipped_clustering(rows, norms, linkage="average", max_radius=math.inf):
    """``norms`` are those of all rounds."""
    radius = min(float(np.median(norms)), max_radius)
    dists = np.array([[0.0 if a is b else 1 - cosine(a, b) for b in rows] for a in rows])
    labels = AgglomerativeClustering(metric="precomputed", linkage=linkage, n_clusters=2).fit(dists).labels_
    larger = int(2 * labels.sum() > len(rows))
    return np.mean([clipped(row, radius) for row, label in zip(rows, labels, strict=True) if label == larger], axis=0)


def lasa(rows, layers, sparsity=0.3, length_limit=1.0, sign_limit=1.0, boundary=None):
    middle, d = float(np.median([np.linalg.norm(row) for row in rows])), rows.shape[1]
    sparse = []
    for row in rows:
        kept = sorted(range(d), key=lambda k: -abs(row[k]))[: math.floor((1 - sparsity) * d + 1e-9)]
        if boundary == "dropped" and len(kept) < d:
            kept = kept[:-1]
        pruned = np.zeros(d)
        pruned[kept] = row[kept] * min(1.0, middle / float(np.linalg.norm(row)))
        sparse.append(pruned)
    result, start = [], 0
    for size in layers:
        parts = [row[start : start + size] for row in sparse]
        norms = np.array([np.linalg.norm(part) for part in parts])
        purities = []
        for part in parts:
            balance = np.sum(np.sign(part)) / np.sum(np.abs(np.sign(part)))
            purities.append(0.5 * (1 + balance * (1 - sparsity)))
        chosen = []
        for i in range(len(parts)):
            by_norm = abs(norms[i] - np.median(norms)) / np.std(norms) < length_limit
            by_sign = abs(purities[i] - np.median(purities)) / np.std(purities) < sign_limit
            if by_norm and by_sign:
                chosen.append(i)
        result.append(np.mean([parts[i] for i in chosen or range(len(parts))], axis=0))
        start += size
    return np.concatenate(result)


def winsorized_mean(rows, f):
    result = []
    for column in rows.T:
        values = sorted(column)
        low, high = values[f], values[len(values) - f - 1]
        result.append(np.mean([min(max(value, low), high) for value in values]))
    return np.array(result)


def magnitude_trmean(rows, f):
    return np.array([np.mean(sorted(column, key=abs)[f : len(column) - f]) for column in rows.T])


def history_trmean(rows, f, previous):
    result = []
    for column, last in zip(rows.T, previous, strict=True):
        result.append(np.mean([*sorted(column)[f : len(column) - f], *[last] * (2 * f)]))
    return np.array(result)


def chebyshev_mean(rows, deviations):
    result = []
    for column in rows.T:
        mean, reach = np.mean(column), deviations * np.std(column, ddof=1)
        result.append(np.mean([min(max(value, mean - reach), mean + reach) for value in column]))
    return np.array(result)


def nnm(rows, f):
    return np.array([monna(rows, f, row) for row in rows])


def arc(rows, f):
    norms = sorted((float(np.linalg.norm(row)) for row in rows), reverse=True)
    count = math.floor(2 * f / len(rows) * (len(rows) - f) + 1e-9)
    return np.array([clipped(row, norms[count]) for row in rows])
