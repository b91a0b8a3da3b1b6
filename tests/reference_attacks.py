"""Slow, obvious versions of the attacks, in float64, written from the papers with loops, for the tests."""

import math

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
