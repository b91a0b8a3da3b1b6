"""Inner products of updates: exact ones, of equal rows once, and the bounds that half the cost buys."""

from typing import Any

import numpy as np
import pytest
import torch

from robustfl_bench.base.parallel import workers
from robustfl_bench.numerics import selection
from robustfl_bench.numerics.inner_products import (
    LEAST_BOUNDED,
    distance_bounds,
    distinct,
    gram_matrix,
    row_squares,
    sq_dists_from,
)
from robustfl_bench.numerics.selection import lowest, nearest_shares, nearest_sums
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.pre_aggregations.bucketing import Bucketing


@pytest.mark.parametrize("d", [1, 40, 5000, 70_001])
def test_equal_rows_are_taken_once_and_inner_products_are_exact(d: int) -> None:
    rng = np.random.default_rng(d)
    rows = rng.normal(size=(9, d)).astype(np.float32) * 10.0 ** rng.integers(-9, 9, size=(9, 1)).astype(np.float32)
    rows[[3, 5, 8]] = rows[1]
    rows[6] = rows[4]
    firsts, which = distinct(torch.from_numpy(rows))
    assert np.array_equal(rows[firsts][which], rows) and len(firsts) == 5
    exact = rows.astype(np.float64) @ rows.astype(np.float64).T
    lengths = np.sqrt(exact.diagonal())
    with workers(2):
        whole, halves = gram_matrix(torch.from_numpy(rows)), gram_matrix(*torch.from_numpy(rows).split((6, 3)))
    for found in (whole.numpy(), halves.numpy()):
        assert (np.abs(found - exact) <= 1e-13 * lengths * lengths[:, None]).all()
    assert (Updates(torch.from_numpy(rows)).sq_dists[[1, 3, 5]][:, [1, 3, 5]] == 0).all()


def test_rows_that_differ_where_nobody_looks_are_not_equal() -> None:
    rows = torch.zeros(4, 1000)
    rows[1, 7], rows[3, 7] = 1, 1
    firsts, which = distinct(rows)
    assert torch.equal(rows[firsts][which], rows)
    assert torch.equal(gram_matrix(rows), rows.double() @ rows.double().T)


@pytest.mark.parametrize("scale", [1e-30, 1, 1e6, 1e30])
@pytest.mark.parametrize("d", [1, 5000, 70_001])
def test_lengths_and_distances_from_a_vector(scale: float, d: int) -> None:
    """The distances come from differences: what agrees to 1e-6 drowns nothing, and huge rows spoil only their own."""
    rng = np.random.default_rng(d)
    start = (scale * rng.normal(size=d)).astype(np.float32)
    rows = (start * (1 + 1e-6 * rng.normal(size=(7, 1)))).astype(np.float32)
    rows[4] = 3e37
    wide = rows.astype(np.float64)
    with workers(2):
        squares, sq_dists = row_squares(torch.from_numpy(rows)), sq_dists_from(*map(torch.from_numpy, (rows, start)))
        of_updates = Updates(torch.from_numpy(rows)).sq_dists_from(torch.from_numpy(start))
    np.testing.assert_allclose(squares, np.square(wide).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(sq_dists, np.square(wide - start).sum(axis=1), rtol=1e-12)
    assert torch.equal(sq_dists, of_updates)


@pytest.mark.parametrize("size", [2, 3, 7])
def test_the_gram_matrix_of_buckets_is_that_of_their_means(size: int) -> None:
    matrix = torch.randn(20, 300, generator=torch.Generator().manual_seed(0))
    mixed = Bucketing(size)(Updates(matrix), np.random.default_rng(1))
    _, mixing = mixed._source or (None, torch.empty(0))
    means = (mixing @ matrix.double()).float()
    torch.testing.assert_close(mixed.gram, means.double() @ means.double().T, rtol=1e-5, atol=1e-5)
    weights = torch.linspace(0, 1, mixed.n, dtype=torch.float64)
    aggregate = mixed.combine(weights)
    torch.testing.assert_close(aggregate.vector.double(), weights @ mixing @ matrix.double(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(aggregate.weights, weights @ mixing)


# --- bounds ----------------------------------------------------------------------------------------------------------


def exact_sq_dists(rows: np.ndarray) -> np.ndarray:
    """Without any cancellation: of the differences, in float64."""
    wide = rows.astype(np.float64)
    return np.stack([np.square(wide - row).sum(axis=1) for row in wide])


def hostile(kind: str, n: int, f: int, d: int) -> np.ndarray:
    """Rows (n, d) in float32 of which the last f are what attackers would send."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d)) + 3 * rng.normal(size=d)
    away = rng.normal(size=d)
    match kind:
        case "equal":
            rows[-f:] = -rows[:-f].mean(axis=0)
        case "near duplicates":
            rows[-f:] = rows[0] * (1 + 1e-6 * rng.normal(size=(f, 1)))
        case "all near duplicates":
            rows = rows[0] * (1 + 1e-6 * rng.normal(size=(n, 1)))
        case "one sign":
            rows = 1 + 1e-3 * np.abs(rng.normal(size=(n, d)))
        case "tiny":
            rows *= 1e-30
        case "opposite":
            rows[-f:] = np.outer((-1.0) ** np.arange(f), 1e6 * away)
        case _:
            rows[-f:] = float(kind) * (away + 1e-3 * rng.normal(size=(f, d)))
    return rows.astype(np.float32)


KINDS = [
    "equal", "near duplicates", "all near duplicates", "one sign", "tiny", "opposite", "1", "1e6", "1e12", "1e18",
    "1e20", "1e30", "1e37",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "f"), [(13, 5), (30, 3), (LEAST_BOUNDED + 1, (LEAST_BOUNDED - 2) // 2)])
def test_bounds_hold_and_the_selection_is_that_of_exact_distances(kind: str, n: int, f: int) -> None:
    """n = 2 f + 3 is the least that Krum takes. Of few clients the distances are exact at once."""
    rows = torch.from_numpy(hostile(kind, n, f, 6_000))
    lower, upper = distance_bounds(rows)
    exact = exact_sq_dists(rows.numpy())
    assert (lower.numpy() <= exact).all() and (exact <= upper.numpy()).all()
    updates = Updates(rows)
    scores = nearest_sums(torch.from_numpy(exact), n - f - 2).numpy()
    for count in (1, n - f, n):
        chosen = lowest(updates, lambda dists: nearest_sums(dists, n - f - 2), count).numpy()
        best = np.sort(scores)[:count]
        assert len(set(chosen)) == count and np.allclose(np.sort(scores[chosen]), best, rtol=1e-9)
        sq_dists = Updates(rows).sq_dists
        exactly = nearest_sums(sq_dists, n - f - 2).argsort(stable=True)[:count]
        assert set(chosen.tolist()) == set(exactly.tolist())


@pytest.mark.parametrize("kind", ["equal", "1", "1e6", "1e12"])
def test_bounds_are_close_and_decide(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Honest updates are known to some 1e-4 beside any outlier, and no exact distance is asked for."""
    n, f = LEAST_BOUNDED, 3
    rows = torch.from_numpy(hostile(kind, n, f, 6_000) * np.linspace(1, 2, n, dtype=np.float32)[:, None])
    lower, upper = (bound[:-f, :-f] for bound in distance_bounds(rows))
    assert ((upper - lower) <= 6e-4 * upper).all()

    def refuse(_: Any) -> None:
        raise AssertionError("exact distances")

    monkeypatch.setattr(Updates, "sq_dists", property(refuse))
    assert Krum(f).aggregate(Updates(rows), None).vector.shape == (6_000,)  # type: ignore[arg-type]


@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("block", [1, 50, 1 << 18])
def test_scores_are_sums_over_fully_sorted_rows_to_the_last_bit(
    monkeypatch: pytest.MonkeyPatch, block: int, squared: bool
) -> None:
    monkeypatch.setattr(selection, "SORTED", block)
    sq_dists = torch.from_numpy(exact_sq_dists(hostile("1e6", 23, 4, 300)))
    dists = sq_dists if squared else sq_dists.sqrt()
    for others in (0, 1, 17, 22):
        expected = dists.clone().fill_diagonal_(torch.inf).sort(dim=1).values[:, :others].sum(dim=1)
        with workers(2):
            assert torch.equal(nearest_sums(sq_dists, others, squared), expected)


@pytest.mark.parametrize("block", [1, 50, 1 << 18])
@pytest.mark.parametrize("kind", ["equal", "1e6"])
def test_shares_of_the_nearest_updates(monkeypatch: pytest.MonkeyPatch, kind: str, block: int) -> None:
    monkeypatch.setattr(selection, "SORTED", block)
    sq_dists = exact_sq_dists(hostile(kind, 23, 4, 300))
    for count in (1, 19, 20, 23):
        expected = np.zeros((23, 23))
        for shares, own in zip(expected, sq_dists, strict=True):
            last = sorted(own)[count - 1]
            tied = own == last
            shares[own < last] = 1 / count
            shares[tied] = (count - (own < last).sum()) / tied.sum() / count
        with workers(2):
            found = nearest_shares(torch.from_numpy(sq_dists), count)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-15)
