"""Measures of a model: accuracy, recall per class, and BOBA's max recall drop."""

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
