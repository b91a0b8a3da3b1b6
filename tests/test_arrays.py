"""Rules and pre-aggregations as functions of NumPy arrays and torch tensors."""

import re
from typing import Any

import numpy as np
import pytest
import torch

from robustfl_bench.doors import testing
from robustfl_bench.interfaces import Aggregator, ConfigError, PreAggregation
from robustfl_bench.numerics.updates import Aggregate, Updates
from robustfl_bench.parts.aggregators.average import Average
from robustfl_bench.parts.aggregators.boba import Boba
from robustfl_bench.parts.aggregators.bygars import ByGars
from robustfl_bench.parts.aggregators.centered_clipping import CenteredClipping
from robustfl_bench.parts.aggregators.coomed import CooMed
from robustfl_bench.parts.aggregators.flame import Flame
from robustfl_bench.parts.aggregators.krum import Krum
from robustfl_bench.parts.pre_aggregations.bucketing import Bucketing
from robustfl_bench.parts.pre_aggregations.chain import Chain
from robustfl_bench.parts.pre_aggregations.nnm import Nnm
from robustfl_bench.runner.config import compose, options, targets

NEED_SERVER = (
    "avgrej", "boba", "boba_es", "boba_wo_stage1", "boba_wo_stage2", "bygars", "fltrust", "monna", "selfrej", "server",
    "server_mix", "zeno",
)  # fmt: skip
SAMPLES = "the server's samples: run it through robustfl_bench.run"
OTHERS = {"params": np.zeros(30), "losses": np.ones(12)}


def matrix(n: int = 12, d: int = 30, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + np.linspace(-1, 1, d)


def made(name: str) -> Any:
    config = compose.resolve([f"aggregator={name}", "num_byzantine=2", "num_clients=10"]).config["aggregator"]
    return targets.build(config)


def others(name: str) -> dict[str, Any]:
    """What a rule needs besides the matrix and cannot do without, as it says itself."""
    needed: dict[str, Any] = {}
    while True:
        try:
            made(name)(matrix(), **needed)
        except ConfigError as error:
            if SAMPLES in str(error):
                pytest.skip("it needs the server's samples")
            (key,) = re.findall(r"pass (\w+)=", str(error))
            assert key not in needed
            needed[key] = OTHERS[key]
        else:
            return needed


@pytest.mark.parametrize("name", [name for name in options.names("aggregator") if name not in NEED_SERVER])
def test_a_rule_is_a_function_of_a_matrix(name: str) -> None:
    given = others(name)
    found, same = made(name)(matrix(), **given), made(name)(torch.from_numpy(matrix()), **given)
    assert isinstance(found, np.ndarray) and found.shape == (30,) and found.dtype == np.float64
    assert isinstance(same, torch.Tensor) and same.dtype == torch.float64
    np.testing.assert_array_equal(same.numpy(), found)
    for needed in given:
        with pytest.raises(ConfigError, match=f"pass {needed}="):
            made(name)(matrix(), **{other: value for other, value in given.items() if other != needed})


def test_a_rule_names_all_that_it_needs_besides_the_matrix() -> None:
    assert others("arfl").keys() == {"params", "losses"} and others("flame").keys() == {"params"}
    assert not others("krum")


@pytest.mark.parametrize("name", NEED_SERVER)
def test_a_rule_that_needs_the_servers_samples_says_so(name: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(SAMPLES)):
        made(name)(matrix(), params=np.zeros(30), losses=np.ones(12))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_result_is_that_of_the_run_in_the_callers_dtype(dtype: torch.dtype) -> None:
    rows = torch.from_numpy(matrix()).to(dtype).requires_grad_()
    before = rows.detach().clone()
    in_a_run = Krum(num_byzantine=2)(Updates(rows.detach().float()), testing.example_server(torch.zeros(1, 30)))
    found = Krum(num_byzantine=2)(rows)
    assert isinstance(in_a_run, Aggregate) and found.dtype == dtype and torch.equal(rows, before)
    assert torch.equal(found, in_a_run.vector.to(dtype))


def test_arrays_of_any_layout_are_read_and_left_as_they_are() -> None:
    rows = matrix().astype(np.float32)
    for view in (rows, np.asfortranarray(rows), np.repeat(rows, 2, axis=0)[::2], rows[:, ::-1][:, ::-1]):
        before = view.copy()
        np.testing.assert_allclose(CooMed()(view), np.median(rows, axis=0), rtol=1e-6)
        np.testing.assert_array_equal(view, before)
    rows.flags.writeable = False
    assert Average()(rows).dtype == np.float32


def test_what_a_server_knows_can_be_given() -> None:
    rows, start = matrix(), np.full(30, 5.0)
    clip = CenteredClipping(radius=0.01)
    np.testing.assert_allclose(clip(rows, previous=start), start, atol=0.02)
    assert abs(clip(rows)).max() < 0.02, "from zero without a last aggregate"
    counts = np.zeros(12)
    counts[3] = 7
    np.testing.assert_allclose(Average(weighted=True)(rows, counts=counts), rows[3], rtol=1e-6)
    steps = Bucketing(bucket_size=3)
    np.testing.assert_array_equal(steps(rows, rng=1), steps(rows, rng=np.random.default_rng(1)))
    assert not np.array_equal(steps(rows, rng=1), steps(rows, rng=2))


def test_pre_aggregations_map_a_matrix_to_a_matrix() -> None:
    rows = matrix().astype(np.float32)
    mixed = Nnm(num_byzantine=2)(rows)
    assert mixed.shape == rows.shape and mixed.dtype == np.float32
    np.testing.assert_allclose(Nnm(num_byzantine=0)(rows), np.tile(rows.mean(axis=0), (12, 1)), atol=1e-6)
    halved = Chain((Nnm(num_byzantine=2), Bucketing(bucket_size=2)))(torch.from_numpy(rows))
    assert isinstance(halved, torch.Tensor) and halved.shape == (6, 30)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Krum(num_byzantine=2)(matrix(6)), "Krum needs n > 2f + 2, got n=6, f=2"),
        (lambda: Nnm(num_byzantine=6)(matrix(6)), "NNM"),
        (lambda: Boba(num_byzantine=2)(matrix()), "Boba needs the server's samples: run it through robustfl_bench.run"),
        (lambda: ByGars()(matrix()), "ByGars needs the"),
        (lambda: Flame()(matrix()), "Flame needs the model: pass params="),
        (lambda: CooMed()([[1.0, 2.0]]), "must be a NumPy array or a torch tensor (n, d), got a list"),
        (lambda: CooMed()(np.ones((3, 2), dtype=int)), "must be floating-point numbers (n, d), got int64"),
        (lambda: CooMed()(np.ones(3)), "must be floating-point numbers (n, d), got float64 of shape (3,)"),
        (lambda: CooMed()(np.empty((0, 3))), "got float64 of shape (0, 3)"),
        (lambda: CooMed()(np.empty((3, 0))), "got float64 of shape (3, 0)"),
        (lambda: CooMed()(np.array([[1.0], [np.nan], [1e300]])), "those of clients 1, 2 are not"),
        (lambda: CooMed()(matrix(), previous=np.ones(3)), "previous must have shape (30,), got (3,)"),
        (lambda: Average()(matrix(), counts=np.ones(3)), "counts must have shape (12,), got (3,)"),
    ],
)
def test_what_a_matrix_alone_cannot_give_is_one_line(call: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        call()
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_rule_of_a_users_own_is_a_function_of_a_matrix() -> None:
    class First(Aggregator):
        def aggregate(self, updates: Updates, server: Any) -> Aggregate:
            return Aggregate(updates.matrix[0])

    rows = matrix()
    np.testing.assert_allclose(First()(rows), rows[0], rtol=1e-6)
    Pair = type("Pair", (Aggregator,), {"aggregate": lambda self, updates, server: (updates.mean, None)})
    with pytest.raises(TypeError, match="aggregator Pair returned a tuple, no Aggregate"):
        Pair()(rows)
    with pytest.raises(TypeError, match=r"Second must define aggregate, which Aggregator.__call__ calls, not __call__"):
        type("Second", (Aggregator,), {"__call__": lambda self, updates, server: None})
    with pytest.raises(TypeError, match=r"Third must define prepare, which PreAggregation.__call__ calls"):
        type("Third", (PreAggregation,), {"__call__": lambda self, updates, rng: None})
