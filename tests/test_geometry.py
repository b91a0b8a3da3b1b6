"""Principal components of the updates of a round, and the figures that show them."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from robustfl_bench import cli
from robustfl_bench.numerics.principal import principal_axes, principal_variances
from robustfl_bench.updates import Updates

assert cli  # registers the typed settings with hydra
SCRIPT = Path(__file__).parents[1] / "scripts" / "boba_figures.py"


@pytest.fixture(scope="module")
def figures() -> Any:
    """The script, as a module."""
    plt.switch_backend("Agg")
    spec = importlib.util.spec_from_file_location("boba_figures", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def points(n: int = 9, d: int = 40, rank: int = 4) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, rank)) * 3.0 ** -np.arange(rank) @ rng.normal(size=(rank, d)) + 5 * rng.normal(size=d)


def test_components_are_those_of_the_singular_value_decomposition() -> None:
    matrix = points()
    centred = matrix - matrix.mean(axis=0)
    _, singular, directions = np.linalg.svd(centred, full_matrices=False)
    updates = Updates(torch.from_numpy(matrix).float())
    variances, axes = principal_variances(updates), principal_axes(updates, 6)
    assert variances.shape == (8,) and (np.diff(variances) <= 0).all()
    np.testing.assert_allclose(variances, singular[:8] ** 2 / 8, rtol=1e-4, atol=1e-5)
    assert variances.sum() == pytest.approx(matrix.var(axis=0, ddof=1).sum(), rel=1e-5)
    assert axes.shape == (6, 40)
    np.testing.assert_allclose(np.abs(axes[:4].numpy() @ directions[:4].T), np.eye(4), atol=1e-3)
    assert not axes[4:].any()  # the points span four dimensions


def test_equal_updates_have_no_components() -> None:
    updates = Updates(torch.ones(5, 3))
    assert principal_variances(updates).max() < 1e-12
    assert not principal_axes(updates, 2).any()


def drawn(figures: Any, name: str, *overrides: str) -> list[dict[str, Any]]:
    figure, axes = plt.subplots()
    rows: list[dict[str, Any]] = figures.FIGURES[name](name, ["scale=quick", "dataset=digits", *overrides], axes)
    axes.legend()
    figure.canvas.draw()
    plt.close(figure)
    return rows


def test_spectra_of_local_updates_and_partitions(figures: Any) -> None:
    rows = drawn(figures, "fig13", "num_clients=30")
    kinds = {(row["partition"], row["local_update"]) for row in rows}
    assert len(kinds) == 6 and len(rows) == 6 * 29
    total = {kind: sum(r["variance"] for r in rows if (r["partition"], r["local_update"]) == kind) for kind in kinds}
    for local_update in ("fedsgd", "fedavg", "fedprox"):
        assert total["pathological", local_update] > 3 * total["iid", local_update]
    last = [row["cumulative_share"] for row in rows if row["component"] == 29]
    assert last == pytest.approx([1] * 6)


def test_plane_of_aggregates(figures: Any) -> None:
    rows = drawn(figures, "fig2", "attack=none,ipm", "model.hidden=[20]")
    assert {(row["aggregator"], row["attack"]) for row in rows} == {
        (rule, attack) for rule in ("geomed", "krum", "coomed", "boba") for attack in ("none", "ipm")
    }
    distance = {row["aggregator"]: np.hypot(row["x"], row["y"]) for row in rows if row["attack"] == "none"}
    assert distance["boba"] < distance["krum"]


def test_boba_is_never_better_than_exhaustive_search(figures: Any) -> None:
    rows = drawn(
        figures,
        "fig5",
        "model=mlp",
        "model.hidden=[8]",
        "rounds=3",
        "server_data.samples_per_class=5",
        "num_clients=14",
    )
    ratios = {attack: [row["ratio"] for row in rows if row["attack"] == attack] for attack in figures.ATTACKS}
    assert [len(own) for own in ratios.values()] == [3] * 7
    assert min(map(min, ratios.values())) >= 1 - 1e-9
    assert max(ratios["none"]) > 1 + 1e-3
    assert ratios["gauss"] == pytest.approx([1] * 3)  # random directions are as easily found as left out


def test_honest_gradients_on_mnist_span_nine_dimensions(figures: Any) -> None:
    """Fig. 1 of BOBA, at the paper's scale."""
    folder = os.environ.get("ROBUSTFL_DATA")
    if not folder or not (Path(folder) / "mnist").is_dir():
        pytest.skip("set ROBUSTFL_DATA to a data folder with mnist to test on real gradients")
    _, axes = plt.subplots()
    rows = figures.spectrum("fig1", [f"data_dir={folder}"], axes)
    plt.close()
    assert [row["component"] for row in rows] == list(range(1, 100))
    assert rows[8]["cumulative_share"] > 0.99 > rows[7]["cumulative_share"]
    assert rows[8]["variance"] > 100 * rows[9]["variance"]
