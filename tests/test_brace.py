"""BRACE and the sign rules of its comparison: the paper's worked example, slow versions, what a client can move."""

import numpy as np
import pytest
import torch

from robustfl_bench.interfaces import Aggregator, ConfigError
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.brace import Brace
from robustfl_bench.parts.aggregators.rlr import Rlr
from robustfl_bench.parts.aggregators.signsgd import SignSgd
from tests import reference
from tests.rounds import build, skewed_round

THREE = [[5.0, 2.0, -10.0], [8.0, -4.0, 7.0], [9.0, 3.0, 8.0]]  # section 2.2 and Fig. 1 of the paper
SERVER = skewed_round(0)[1]


def apply(rule: Aggregator, rows: object) -> list[float]:
    vector: list[float] = rule(Updates(torch.as_tensor(rows, dtype=torch.float32)), SERVER).vector.tolist()
    return vector


def test_the_paper_s_example() -> None:
    """Three clients: the sums of the ring, what one poisoned client does to them, and the consensus at lambda 2."""
    poisoned = [[5.0, 2.0, -200.0], *THREE[1:]]
    mean = build("aggregator", "rar")
    assert apply(mean, THREE) == pytest.approx([22 / 3, 1 / 3, 5 / 3])
    assert apply(mean, poisoned) == pytest.approx([22 / 3, 1 / 3, -185 / 3])
    assert Updates(torch.tensor(THREE)).votes.tolist() == [3, 1, 1]
    for rows in (THREE, poisoned):  # one bit: the poison does nothing
        assert apply(Brace(threshold=2), rows) == [1, -1, -1]
        assert apply(Brace(threshold=0), rows) == [1, 1, 1]
        assert apply(Brace(threshold=2, symmetric=True), rows) == [1, 0, 0]
        assert apply(SignSgd(), rows) == [1, 1, 1]
        assert apply(Rlr(threshold=2), rows) == [1, -1, -1]
        assert apply(Rlr(threshold=0), rows) == [1, 1, 1]


def rounds() -> list[np.ndarray]:
    """Updates with zeros and ties, of even and odd numbers of clients."""
    rng = np.random.default_rng(0)
    return [rng.integers(-2, 3, size=(n, 200)) * rng.exponential(size=(n, 200)) for n in (1, 2, 7, 12, 12)]


@pytest.mark.parametrize("threshold", [0, 1, 2, 5, 2.5])
def test_the_rules_are_their_slow_versions(threshold: float) -> None:
    for rows in rounds():
        assert apply(Brace(threshold), rows) == reference.brace(rows, threshold).tolist()
        assert apply(Brace(threshold, symmetric=True), rows) == reference.brace(rows, threshold, True).tolist()
        assert apply(SignSgd(), rows) == reference.signsgd(rows).tolist()
        assert apply(Rlr(threshold), rows) == reference.rlr(rows, threshold).tolist()
        by_mean = apply(Rlr(threshold, "mean"), rows)
        np.testing.assert_allclose(by_mean, reference.rlr(rows, threshold, mean=True), rtol=1e-5, atol=1e-6)


def test_a_sum_equal_to_the_threshold_is_minus_one_and_zeros_abstain() -> None:
    rows = np.array([[1.0] * 4, [1.0, 1.0, 1.0, 0.0], [1.0, 0.0, -1.0, 0.0]])
    assert apply(Brace(2), rows) == [1, -1, -1, -1]
    assert apply(Brace(0), np.zeros((3, 1))) == [-1]
    assert apply(Brace(0, symmetric=True), np.zeros((3, 1))) == apply(SignSgd(), np.zeros((3, 1))) == [0]


def test_length_is_no_power() -> None:
    """Only signs count: values of 1e30 and of 1e-30 are one vote each, and b clients move a sum by at most 2 b."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(20, 300))
    for rule in (Brace(), Brace(symmetric=True), SignSgd(), Rlr()):
        assert apply(rule, rows) == apply(rule, rows * rng.choice([1e30, 1.0, 1e-30], size=(20, 1)))
    attacked = rows.copy()
    attacked[:3] = 1e30
    before, after = (np.array(reference.votes(part)) for part in (rows, attacked))
    clear = np.abs(before - 5) > 6
    assert np.abs(after - before).max() <= 6
    assert (np.array(apply(Brace(), rows)) == np.array(apply(Brace(), attacked)))[clear].all()


def test_signs_turn_with_the_updates_unless_brace_is_as_printed() -> None:
    rows = np.random.default_rng(2).normal(size=(11, 500))
    for rule in (Brace(symmetric=True), SignSgd(), Rlr(), Rlr(5, "mean")):
        assert apply(rule, -rows) == [-value for value in apply(rule, rows)]
    assert apply(Brace(0), -rows) == [-value for value in apply(Brace(0), rows)]  # an odd number: no ties
    assert np.mean(apply(Brace(), rows)) < np.mean(apply(Brace(), -rows)) + 0.1 < -0.5  # undecided: -1 both ways
    assert apply(Brace(0, symmetric=True), rows) == apply(SignSgd(), rows)


def test_too_few_clients_for_the_threshold() -> None:
    with pytest.raises(ConfigError, match="BRACE needs n > threshold, got n=5, threshold=5"):
        Brace().check(5)
    with pytest.raises(ConfigError, match="RLR needs n >= threshold, got n=4, threshold=5"):
        Rlr().check(4)
    Brace().check(6)
    Rlr().check(5)
    for make in (lambda: Brace(-1), lambda: Rlr(-1), lambda: Rlr(5, "median"), lambda: Brace(symmetric="no")):  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="must be"):
            make()
