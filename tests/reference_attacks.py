"""Slow, obvious versions of the attacks, in float64, written from the papers with loops, for the tests."""

import math
import struct

import numpy as np


def mean_and_std(honest, ddof=1):
    """Per coordinate, one number at a time."""
    h, d = honest.shape
    mean = np.array([math.fsum(honest[:, k]) / h for k in range(d)])
    if h == 1:
        return mean, np.zeros(d)
    variance = [math.fsum((honest[i, k] - mean[k]) ** 2 for i in range(h)) / (h - ddof) for k in range(d)]
    return mean, np.sqrt(variance)


def ipm(honest, scale):
    mean, _ = mean_and_std(honest)
    return np.array([-scale * value for value in mean])


def normal_quantile(p):
    """Bisection on the normal distribution function."""
    low, high = -10.0, 10.0
    for _ in range(200):
        middle = (low + high) / 2
        if 0.5 * (1 + math.erf(middle / math.sqrt(2))) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def lie(honest, num_byzantine, sign=-1, ddof=1):
    n = len(honest) + num_byzantine
    supporters = math.floor(n / 2 + 1) - num_byzantine
    z = normal_quantile((n - num_byzantine - supporters) / (n - num_byzantine))
    mean, std = mean_and_std(honest, ddof)
    return mean + sign * z * std


def mimic(honest, label_counts):
    def distance_from_uniform(row):
        return math.sqrt(sum((count / sum(row) - 1 / len(row)) ** 2 for count in row))

    distances = [round(distance_from_uniform(list(row)), 12) for row in label_counts]
    return honest[distances.index(max(distances))]


def direction(honest, kind):
    mean, std = mean_and_std(honest)
    unit = -mean / math.sqrt(math.fsum(mean**2))
    return {"std": std, "inverse_std": -std, "unit": unit, "sign": -np.sign(mean)}[kind]


def sq_dist(a, b):
    return math.fsum((a - b) ** 2)


def search(allowed, gamma_init, tau):
    """The notebooks' loop, kept as they have it."""
    gamma, step, success = gamma_init, gamma_init, 0
    while abs(success - gamma) > tau:
        if allowed(gamma):
            success = gamma
            gamma = gamma + step / 2
        else:
            gamma = gamma - step / 2
        step = step / 2
    return success


def minmax_allows(honest, crafted):
    farthest = max(sq_dist(a, b) for a in honest for b in honest)
    return max(sq_dist(crafted, a) for a in honest) <= farthest


def minsum_allows(honest, crafted, reference=max):
    limit = reference(sum(sq_dist(a, b) for b in honest) for a in honest)
    return sum(sq_dist(crafted, a) for a in honest) <= limit


def moved_mean(honest, kind, allows, gamma_init=10.0, tau=1e-5):
    mean, p = mean_and_std(honest)[0], direction(honest, kind)
    gamma = search(lambda g: allows(honest, mean + g * p), gamma_init, tau)
    return mean + gamma * p, gamma


def trim_attack(honest, factor):
    """Full knowledge, in gradients: beyond the least value where the mean is positive, else beyond the largest."""
    result = []
    for column in honest.T:
        low, high = min(column), max(column)
        if math.fsum(column) > 0:
            result.append(low / factor if low > 0 else low * factor)
        else:
            result.append(high * factor if high > 0 else high / factor)
    return np.array(result)


def krum_attack(honest, num_byzantine, krum, least=1e-5):
    """Full knowledge: minus lambda times the sign of the honest-only choice, and whether Krum fell for it.

    Lambda is halved until it does, or given up at ``least`` times the first one.
    """
    (h, d), n = honest.shape, len(honest) + num_byzantine
    s = np.sign(honest[krum(honest, num_byzantine)])
    sums = [sum(sorted(math.sqrt(sq_dist(g, o)) for j, o in enumerate(honest) if j != i)[: n - num_byzantine - 2])
            for i, g in enumerate(honest)]  # fmt: skip
    scale = min(sums) / ((n - 2 * num_byzantine - 1) * math.sqrt(d))
    scale += max(math.sqrt(sq_dist(g, 0 * g)) for g in honest) / math.sqrt(d)
    last = least * scale
    while scale > last:
        if krum(np.vstack([honest, np.tile(-scale * s, (num_byzantine, 1))]), num_byzantine) >= h:
            return -scale * s, True
        scale /= 2
    return -scale * s, False


def adaptive(honest, threshold, factor):
    result = []
    for column in honest.T:
        lead = sum(1 if value > 0 else -1 if value < 0 else 0 for value in column)
        size = factor * math.fsum(abs(value) for value in column) / len(column)
        result.append(-size if lead > threshold else size)
    return np.array(result)


def triggered(pixels, size, margin):
    """One image (C, H, W) with a white square."""
    result = pixels.copy()
    for channel in result:
        for i in range(size):
            for j in range(size):
                channel[len(channel) - 1 - margin - i][len(channel[0]) - 1 - margin - j] = 1.0
    return result


def rop(honest, previous, z, angle, relocation, mixing):
    """One number at a time; ``previous`` is the last aggregate or None."""
    mean, _ = mean_and_std(honest)
    first = previous is None
    before = np.zeros_like(mean) if first else previous
    reference = mean if first else np.array([mixing * b + (1 - mixing) * m for b, m in zip(before, mean, strict=True)])
    square = math.fsum(value**2 for value in reference)
    across = np.array([1 - math.fsum(reference) / square * value for value in reference])
    across = across / math.sqrt(math.fsum(across**2))
    along = reference / math.sqrt(square)
    sine, cosine = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    place = np.array([relocation * b + (1 - relocation) * m for b, m in zip(before, mean, strict=True)])
    return place + z * (sine * across + cosine * along)


def flipped(value, bits):
    """A float32 number with some of its bits turned around, counted from 1 at the least one."""
    (whole,) = struct.unpack("<I", struct.pack("<f", value))
    text = list(f"{whole:032b}"[::-1])
    for bit in bits:
        text[bit - 1] = "1" if text[bit - 1] == "0" else "0"
    return struct.unpack("<f", struct.pack("<I", int("".join(text)[::-1], 2)))[0]


def mimicked(rounds, start, warmup):
    """The client copied in each of ``rounds`` of honest updates (h, d), from the random direction ``start``."""
    copied, mu, z = [], None, start
    for t, honest in enumerate(rounds):
        if t < warmup:
            mean = mean_and_std(honest)[0]
            mu = mean if mu is None else t / (t + 1) * mu + mean / (t + 1)
            total = np.zeros_like(mu)
            for update in honest:
                total += math.fsum((update - mu) * z) * (update - mu)
            total /= math.sqrt(math.fsum(total**2))
            z = total if t == 0 else t / (t + 1) * z + total / (t + 1)
            z = z / math.sqrt(math.fsum(z**2))
            along = [math.fsum(update * z) for update in honest]
            client = along.index(max(along))
        copied.append(client)
    return copied


def on_a_grid(value, evaluations, step):
    """The numbers that the search on a grid tries, in order, and the best of them."""
    size = max(1, evaluations // 2 - 1)
    tried = [0.0] + [step / 2 * 2.0**k for k in range(-(size // 2), size - size // 2)]
    tried = tried[:evaluations]
    while len(tried) < evaluations:
        best = max(sorted(tried), key=value)
        below = max((x for x in tried if x < best), default=0)
        above = min((x for x in tried if x > best), default=math.inf)
        if best == 0:
            tried.append(above / 2)
            continue
        wide_below = best / below if below > 0 else 4.0
        wide_above = above / best if above < math.inf else 4.0
        if wide_above > wide_below or math.isclose(wide_above, wide_below):
            tried.append(best * math.sqrt(wide_above))
        else:
            tried.append(best / math.sqrt(wide_below))
    return tried, max(sorted(tried), key=value)


def farthest(value, evaluations, step, ratio):
    """The numbers that the line search tries, in order, and the best of them."""
    tried, best = [0.0], 0.0
    while len(tried) < evaluations:
        tried.append(best + step)
        if value(tried[-1]) <= value(best):
            break
        best, step = tried[-1], 2 * step
    while len(tried) < evaluations:
        step, last = ratio * step, tried[-1]
        tried.append(last + step if last < best else max(last - step, last / 2))
        best = tried[-1] if value(tried[-1]) > value(best) else best
    return tried, best


def rarest(x, y, target, share):
    """Positions of the samples of other classes that are farthest from the mean of their class."""
    distances = []
    for i in range(len(y)):
        own = [x[j].ravel() for j in range(len(y)) if y[j] == y[i]]
        mean = [math.fsum(column) / len(own) for column in np.transpose(own)]
        distances.append(math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(x[i].ravel(), mean, strict=True))))
    others = [i for i in range(len(y)) if y[i] != target]
    return sorted(others, key=lambda i: -distances[i])[: math.ceil(share * len(others))]


def bars(pixels, length, gap, margin, which):
    """One image (C, H, W) with some of the four white bars, by row and column."""
    result = pixels.copy()
    for bar in which:
        for k in range(length):
            down, right = (0, 0, 1, 1)[bar], (0, 1, 0, 1)[bar]
            for channel in result:
                channel[margin + down * (gap + 1)][margin + right * (length + gap) + k] = 1.0
    return result
