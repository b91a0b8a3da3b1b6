"""Measures of a model: accuracy, recall per class, BOBA's max recall drop; and of several: distance, recovery."""

import numpy as np
from numpy.typing import ArrayLike


def recall_per_class(confusion: ArrayLike) -> np.ndarray:
    """Share of each class's samples predicted right, (c,), from counts (c, c) with true classes in the rows.

    A class without samples has recall nan.
    """
    confusion = np.asarray(confusion, dtype=np.float64)
    totals = confusion.sum(axis=1)
    recall = np.full(len(totals), np.nan)
    np.divide(confusion.diagonal(), totals, out=recall, where=totals > 0)
    return recall


def max_recall_drop(reference: ArrayLike, recall: ArrayLike, absolute: bool = False) -> float:
    """Max recall drop (MRD; BOBA, Bao et al., AISTATS 2024, section 6): ``max_z (reference_z - recall_z)``.

    ``reference`` are the recalls (c,) under Average without Byzantine clients, same seed and setting, last round;
    ``recall`` those under the run. Fractions in, fraction out; papers print percentage points. "Drop" is signed by
    default, so a model better on every class has a negative MRD; ``absolute=True`` takes ``max_z |difference|``.
    Classes without test samples are left out.
    """
    drop = np.asarray(reference, dtype=np.float64) - np.asarray(recall, dtype=np.float64)
    return float(np.nanmax(np.abs(drop) if absolute else drop))


def matched_distance(estimates: ArrayLike, truth: ArrayLike) -> float:
    """Mean over the true parameters (K, d) of the Euclidean distance of the estimate (k, d) that stands for each.

    BRIFCA's dist (Tao et al., arXiv 2306.00638, section 6) under the one-to-one matching that makes it smallest. With
    fewer estimates than true parameters, one estimate may stand for several: each truth is compared with the nearest.
    """
    dists = _dists(estimates, truth)
    if len(dists) < dists.shape[1]:
        return float(dists.min(axis=0).mean())
    from scipy.optimize import linear_sum_assignment

    return float(dists[linear_sum_assignment(dists)].mean())


def nearest_distance(estimates: ArrayLike, truth: ArrayLike) -> float:
    """Mean over the estimates (k, d) of the distance to the nearest true parameter (K, d), whoever else is near it.

    What the code of BRIFCA's authors reports: a cluster that no estimate found goes unpunished.
    """
    return float(_dists(estimates, truth).min(axis=1).mean())


def cluster_recovery(counts: ArrayLike) -> float:
    """Share of the clients whose model is the one matched to their true cluster, from counts (K, k), clusters in rows.

    Clusters and models are matched one to one so that the share is largest.
    """
    from scipy.optimize import linear_sum_assignment

    counts = np.asarray(counts)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / counts.sum())


def _dists(estimates: ArrayLike, truth: ArrayLike) -> np.ndarray:
    estimates, truth = np.asarray(estimates, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    dists: np.ndarray = np.linalg.norm(estimates[:, None] - truth, axis=2)
    return dists
