"""Sorted columns: the network, inserted values, and the mean in NumPy's order of summation."""

import numpy as np
import pytest
import torch

from robustfl_bench.numerics.sorting import NETWORK, inserted, mean_of_rows, sorted_rows, transposed
from robustfl_bench.parts.aggregators.coomed import CooMed


def columns(n: int, k: int = 999, seed: int = 0) -> np.ndarray:
    """Numbers (n, k) of all sizes, a third of which are ties."""
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(n, k)) * np.exp(3 * rng.normal(size=(n, k)))).astype(np.float32)
    rows[rng.random(rows.shape) < 0.3] = 1
    return rows


@pytest.mark.parametrize("n", range(1, NETWORK + 3))
def test_rows_are_sorted_by_column(n: int) -> None:
    rows = columns(n)
    before = rows.copy()
    assert np.array_equal(np.stack(list(sorted_rows(rows))), np.sort(rows, axis=0)) and np.array_equal(rows, before)
    rows[:, ::2] = np.where(rows[:, ::2] > 0, np.float32(np.inf), -rows[:, ::2])
    assert np.array_equal(np.stack(list(sorted_rows(rows))), np.sort(rows, axis=0))


def test_nan_comes_last_and_stays_in_its_column() -> None:
    rows = columns(5)
    rows[1, 7] = np.nan
    assert np.array_equal(np.stack(list(sorted_rows(rows))), np.sort(rows, axis=0), equal_nan=True)


def test_zeros_of_both_signs_stay_zeros() -> None:
    rows = np.array([[0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0], [1.0, -1.0]], dtype=np.float32)
    assert np.array_equal(np.stack(list(sorted_rows(rows))), np.sort(rows, axis=0))
    for matrix in (rows, -rows):
        assert torch.equal(CooMed()(torch.from_numpy(matrix)), torch.zeros(2))


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 15, 16, 17, 25, 64, 128, 129, 136, 300])
def test_the_mean_of_rows_has_the_bytes_of_numpys(n: int) -> None:
    rows = columns(n)
    wanted = np.ascontiguousarray(rows.T).mean(1)
    for layout in (list(rows), rows, transposed(rows).T):
        assert mean_of_rows(layout).tobytes() == wanted.tobytes()
    zeros = [np.full(3, -0.0, dtype=np.float32)] * n
    assert mean_of_rows(zeros).tobytes() == np.stack(zeros, axis=1).mean(1).tobytes()


@pytest.mark.parametrize("times", [1, 2, 5, 20])
def test_inserted_values_are_in_order(times: int) -> None:
    rows = columns(6)
    values = columns(3, seed=1)
    for value in values:
        whole = np.sort(np.vstack([rows, np.tile(value, (times, 1))]), axis=0)
        ordered = sorted_rows(rows)
        assert np.array_equal(np.stack(inserted(ordered, value, times)), whole)
        assert np.array_equal(np.stack(inserted(ordered, value, times, 2, 5)), whole[2:5])
    together = np.stack(inserted(sorted_rows(rows), values, times))
    assert together.shape == (6 + times, 3, 999)
