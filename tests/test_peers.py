"""ByzFL 0.0.11 on the same matrices: equal results for equal definitions, and where the definitions differ.

ByzFL (González et al., arXiv 2505.24802) is installed with ``pip install --no-deps byzfl==0.0.11``.
"""

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from robustfl_bench.interfaces import Aggregator, PreAggregation
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.parts.aggregators.average import Average
from robustfl_bench.parts.aggregators.caf import Caf
from robustfl_bench.parts.aggregators.centered_clipping import CenteredClipping
from robustfl_bench.parts.aggregators.coomed import CooMed
from robustfl_bench.parts.aggregators.geomed import GeoMed
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.aggregators.mda import Mda
from robustfl_bench.parts.aggregators.meamed import MeaMed
from robustfl_bench.parts.aggregators.monna import Monna
from robustfl_bench.parts.aggregators.smea import Smea
from robustfl_bench.parts.aggregators.trmean import TrMean
from robustfl_bench.parts.pre_aggregations.arc import Arc
from robustfl_bench.parts.pre_aggregations.bucketing import Bucketing
from robustfl_bench.parts.pre_aggregations.clipping import Clipping
from robustfl_bench.parts.pre_aggregations.nnm import Nnm
from tests import reference_field as field
from tests.rounds import make_server

F = 2
SIZES = [(9, 30), (10, 30), (11, 4)]  # odd and even numbers of clients, and more clients than coordinates


@pytest.fixture(scope="module")
def byzfl() -> Iterator[ModuleType]:
    """The module of its rules. They draw from NumPy's global stream, which is left as it was found.

    The package itself imports torchvision; a package of the same name and folder without its content does not.
    """
    found, before = find_spec("byzfl"), set(sys.modules)
    package = ModuleType("byzfl")
    package.__path__ = [] if found is None else list(found.submodule_search_locations or [])
    stream = np.random.get_state()  # noqa: NPY002
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "byzfl", package)
        try:
            rules: ModuleType = pytest.importorskip("byzfl.aggregators", reason="needs pip install --no-deps byzfl")
            assert version("byzfl") == "0.0.11"
            np.random.seed(0)  # noqa: NPY002
            yield rules
        finally:
            np.random.set_state(stream)  # noqa: NPY002
            for name in set(sys.modules) - before:
                if name.startswith("byzfl."):
                    del sys.modules[name]


def matrices() -> Iterator[np.ndarray]:
    """Rounds (n, d) of float32 numbers as float64, the last rows from attackers near and far."""
    for seed, (n, d) in enumerate(SIZES):
        rng = np.random.default_rng(seed)
        for scale in (0.5, 4.0):
            rows = rng.normal(size=(n, d)) * rng.uniform(0.2, 2, size=d) + rng.normal(size=d)
            rows[-F:] = -scale * rows[:-F].mean(axis=0) + 0.1 * rng.normal(size=(F, d))
            yield rows.astype(np.float32).astype(np.float64)


def ours(rule: Aggregator, rows: np.ndarray, previous: np.ndarray | None = None) -> np.ndarray:
    server = make_server(torch.zeros(2, rows.shape[1]), clients=len(rows))
    server.previous = None if previous is None else torch.from_numpy(previous).float()
    return rule(Updates(torch.from_numpy(rows).float()), server).vector.double().numpy()


def mixed(step: PreAggregation, rows: np.ndarray, rng: Any = None) -> np.ndarray:
    return step(Updates(torch.from_numpy(rows).float()), rng).matrix.double().numpy()


Maker = Callable[[ModuleType], Callable[[np.ndarray], np.ndarray]]

SAME: dict[str, tuple[Aggregator, Maker]] = {
    "average": (Average(), lambda peer: peer.Average()),
    "median": (CooMed(), lambda peer: peer.Median()),
    "trmean": (TrMean(F), lambda peer: peer.TrMean(f=F)),
    "trmean of f = 0": (TrMean(0), lambda peer: peer.TrMean(f=0)),
    "centered_clipping": (CenteredClipping(1.5, 3), lambda peer: peer.CenteredClipping(L=3, tau=1.5)),
    "centered_clipping as ByzFL sets it": (CenteredClipping(100.0), lambda peer: peer.CenteredClipping()),
    "mda": (Mda(F), lambda peer: peer.MDA(f=F)),
    "monna": (Monna(F, trusted=0), lambda peer: peer.MoNNA(f=F)),
    "monna that trusts another": (Monna(F, trusted=3), lambda peer: peer.MoNNA(f=F, idx=3)),
    "meamed": (MeaMed(F), lambda peer: peer.Meamed(f=F)),
}


@pytest.mark.parametrize("name", SAME)
def test_rules_of_one_definition_agree(byzfl: ModuleType, name: str) -> None:
    rule, peer = SAME[name]
    for rows in matrices():
        np.testing.assert_allclose(ours(rule, rows), peer(byzfl)(rows.copy()), rtol=1e-5, atol=1e-5)


def test_centered_clipping_goes_on_from_the_last_aggregate_in_both(byzfl: ModuleType) -> None:
    peer, last = byzfl.CenteredClipping(L=2, tau=0.7), None
    for rows in list(matrices())[:2]:
        expected = peer(rows.copy())
        last = ours(CenteredClipping(0.7, 2), rows, last)
        np.testing.assert_allclose(last, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["median", "meamed"])
def test_the_median_of_an_even_number_is_between_the_two_middle_values_also_of_tensors(
    byzfl: ModuleType, name: str
) -> None:
    """Ours can also take the lower one, as ``torch.median`` does."""
    rule, peer = SAME[name]
    lower = {"median": CooMed("lower"), "meamed": MeaMed(F, "lower")}[name]
    for rows in matrices():
        expected = peer(byzfl)(torch.from_numpy(rows)).double().numpy()
        np.testing.assert_allclose(ours(rule, rows), expected, rtol=1e-5, atol=1e-5)
        assert np.allclose(ours(lower, rows), expected, atol=1e-4) == (len(rows) % 2 == 1)


@pytest.mark.parametrize("name", ["Krum", "MultiKrum"])
def test_krum_compares_with_one_neighbour_less_than_byzfl(byzfl: ModuleType, name: str) -> None:
    """The paper's n - f - 2 here, n - f - 1 in ByzFL: what ours has for f - 1. Both Multi-Krums select n - f."""
    for rows in matrices():
        selected = 1 if name == "Krum" else len(rows) - F
        expected = getattr(byzfl, name)(f=F)(rows.copy())
        np.testing.assert_allclose(ours(Krum(F - 1, num_selected=selected), rows), expected, rtol=1e-5, atol=1e-5)


def test_the_geometric_median_is_where_byzfl_s_steps_lead(byzfl: ModuleType) -> None:
    """ByzFL makes 3 steps, from zero, with distances of at least 0.1; ours goes on until it is there."""
    for rows in matrices():
        exact = ours(GeoMed(), rows)
        np.testing.assert_allclose(exact, byzfl.GeometricMedian(nu=1e-9, T=3000)(rows.copy()), rtol=1e-4, atol=1e-4)
        assert np.linalg.norm(exact - byzfl.GeometricMedian()(rows.copy())) > 1e-3


def line(seed: int) -> np.ndarray:
    """Updates (10, 1): with one coordinate a step of the power method is exact."""
    rows = np.random.default_rng(seed).normal(size=(10, 1))
    rows[-F:] += 6
    return rows.astype(np.float32).astype(np.float64)


def test_smea_agrees_where_one_step_of_the_power_method_is_enough(byzfl: ModuleType) -> None:
    """ByzFL estimates an eigenvalue by one step from a random vector; elsewhere it chooses sets of more variance."""

    def largest(rows: np.ndarray, mean: np.ndarray) -> float:
        """The least largest eigenvalue among the sets with this mean."""
        sets = list(field.combinations(range(len(rows)), len(rows) - F))
        (chosen,) = [rows[list(part)] for part in sets if np.allclose(rows[list(part)].mean(axis=0), mean, atol=1e-5)]
        return float(np.linalg.norm(chosen - chosen.mean(axis=0), ord=2))

    for seed in range(4):
        rows = line(seed)
        np.testing.assert_allclose(ours(Smea(F), rows), byzfl.SMEA(f=F)(rows.copy()), rtol=1e-4, atol=1e-4)
    for rows in list(matrices())[:4]:
        assert largest(rows, ours(Smea(F), rows)) <= largest(rows, byzfl.SMEA(f=F)(rows.copy())) * (1 + 1e-6)


def test_caf_differs_by_the_power_method_and_by_whom_the_largest_deviation_is_of(byzfl: ModuleType) -> None:
    """Of one coordinate, ByzFL's is our slow version with the largest deviation over all, also those without trust."""
    differ = 0
    for seed in range(6):
        rows = line(seed)
        expected = byzfl.CAF(f=F)(rows.copy())
        np.testing.assert_allclose(field.caf(rows, F, everyone=True), expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(ours(Caf(F), rows), field.caf(rows, F), rtol=1e-4, atol=1e-4)
        differ += not np.allclose(expected, field.caf(rows, F), atol=1e-4)
    assert differ


STEPS: dict[str, tuple[PreAggregation, Maker]] = {
    "nnm": (Nnm(F), lambda peer: peer.NNM(f=F)),
    "nnm of f = 0": (Nnm(0), lambda peer: peer.NNM(f=0)),
    "clipping": (Clipping(), lambda peer: peer.Clipping()),
    "clipping to 4": (Clipping(4.0), lambda peer: peer.Clipping(c=4.0)),
    "arc": (Arc(F), lambda peer: peer.ARC(f=F)),
    "arc of f = 1": (Arc(1), lambda peer: peer.ARC(f=1)),
}


@pytest.mark.parametrize("name", STEPS)
def test_pre_aggregations_agree(byzfl: ModuleType, name: str) -> None:
    step, peer = STEPS[name]
    for rows in matrices():
        np.testing.assert_allclose(mixed(step, rows), peer(byzfl)(rows.copy()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_bucketing_agrees_on_one_order_of_the_clients(byzfl: ModuleType, size: int) -> None:
    for seed, rows in enumerate(matrices()):
        np.random.seed(seed)  # noqa: NPY002
        expected = byzfl.Bucketing(s=size)(rows.copy())
        made = mixed(Bucketing(size), rows, np.random.RandomState(seed))
        np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-5)
