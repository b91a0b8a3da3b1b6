"""Metrics of one model: recall per class, BOBA's max recall drop; and of several: distance, recovery."""

import numpy as np
from numpy.typing import ArrayLike


def recall_per_class(confusion: ArrayLike) -> np.ndarray:
    """Share of correctly predicted samples per class, (c,), from counts (c, c) with true classes in the rows.

    A class without samples has recall nan.
    """
    confusion = np.asarray(confusion, dtype=np.float64)
    totals = confusion.sum(axis=1)
    recall = np.full(len(totals), np.nan)
    np.divide(confusion.diagonal(), totals, out=recall, where=totals > 0)
    return recall


def max_recall_drop(reference: ArrayLike, recall: ArrayLike, absolute: bool = False) -> float:
    """Max recall drop (MRD; BOBA, Bao et al., AISTATS 2024, section 6): ``max_z (reference_z - recall_z)``.

    ``reference`` are the recalls (c,) in the last round under Average without Byzantine clients, with the same seed and
    setting; ``recall`` are those of the run. Both and the result are fractions; papers print percentage points. The
    drop is signed by default, so a model that is better on every class has a negative MRD; ``absolute=True`` returns
    ``max_z |difference|``. Classes without test samples are ignored.
    """
    drop = np.asarray(reference, dtype=np.float64) - np.asarray(recall, dtype=np.float64)
    return float(np.nanmax(np.abs(drop) if absolute else drop))


def matched_distance(estimates: ArrayLike, truth: ArrayLike) -> float:
    """Mean Euclidean distance of the true parameters (K, d) from their matched estimates (k, d).

    BRIFCA's dist (Tao et al., arXiv 2306.00638, section 6) under the one-to-one matching that minimises it. With fewer
    estimates than true parameters, each true parameter is compared with its nearest estimate.
    """
    dists = _dists(estimates, truth)
    if len(dists) < dists.shape[1]:
        return float(dists.min(axis=0).mean())
    from scipy.optimize import linear_sum_assignment

    return float(dists[linear_sum_assignment(dists)].mean())


def nearest_distance(estimates: ArrayLike, truth: ArrayLike) -> float:
    """Mean distance of the estimates (k, d) from their nearest true parameters (K, d), without matching.

    The code of BRIFCA's authors reports this distance. A cluster that no estimate is near to does not increase it.
    """
    return float(_dists(estimates, truth).min(axis=1).mean())


def cluster_recovery(counts: ArrayLike) -> float:
    """Share of the clients that have the model matched to their true cluster, from counts (K, k), clusters in rows.

    The one-to-one matching of clusters and models maximises the share.
    """
    from scipy.optimize import linear_sum_assignment

    counts = np.asarray(counts)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / counts.sum())


def _dists(estimates: ArrayLike, truth: ArrayLike) -> np.ndarray:
    estimates, truth = np.asarray(estimates, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    dists: np.ndarray = np.linalg.norm(estimates[:, None] - truth, axis=2)
    return dists
