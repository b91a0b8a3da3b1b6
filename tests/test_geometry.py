"""Principal components of the updates of a round, and the figures that show them."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from robustfl_bench.commands import bench
from robustfl_bench.commands.lab import probe as command
from robustfl_bench.lab.studies import probe
from robustfl_bench.numerics.spectra import principal_axes, principal_variances
from robustfl_bench.numerics.updates import Updates
from robustfl_bench.read.pages import figures as drawn
from robustfl_bench.read.pages.pictures.points import CLIENTS
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.tables.described import figures
from tests.conftest import run_cli

assert bench  # registers the typed settings with hydra


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


def probed(name: str, *overrides: str) -> list[probe.Point]:
    figure = figures()[f"boba/{name}"]
    return list(probe.KINDS[figure.draw](probe.runs(figure.preset, overrides)))


def test_spectra_of_local_updates_and_partitions() -> None:
    found = probed("fig13", "scale=quick", "dataset=digits", "num_clients=30")
    assert len(found) == 6 * 29
    total: dict[tuple[str, ...], float] = {}
    for point in found:
        kind = tuple(point["line"].split(", ")[:2])
        total[kind] = total.get(kind, 0) + point["mean"]
    for local_update in ("fedsgd", "fedavg", "fedprox"):
        assert total[local_update, "pathological"] > 3 * total[local_update, "iid"]
    variances = [point["mean"] for point in found if point["line"].startswith("fedsgd, iid")]
    (share,) = {point["line"].split(", ")[2] for point in found if point["line"].startswith("fedsgd, iid")}
    assert share == f"{sum(variances[:9]) / sum(variances):.1%}"


def test_plane_of_aggregates() -> None:
    found = probed("fig2", "scale=quick", "dataset=digits", "attack=none,ipm", "model.hidden=[20]")
    assert {(point["line"], point["panel"]) for point in found if point["line"] != CLIENTS} == {
        (rule, attack) for rule in ("geomed", "krum", "coomed", "boba") for attack in ("no attack", "under attack")
    }
    clients = np.array([(point["x"], point["mean"]) for point in found if point["line"] == CLIENTS])
    np.testing.assert_allclose(clients.mean(axis=0), 0, atol=1e-5)
    distance = {point["line"]: np.hypot(point["x"], point["mean"]) for point in found if point["panel"] == "no attack"}
    assert distance["boba"] < distance["krum"]


def test_boba_is_never_better_than_exhaustive_search() -> None:
    small = ("model=mlp", "model.hidden=[8]", "rounds=3", "server_data.samples_per_class=5", "num_clients=14")
    found = probed("fig5", "scale=quick", "dataset=digits", *small)
    ratios: dict[str, list[float]] = {}
    for point in found:
        ratios.setdefault(point["line"], []).append(point["mean"])
    assert [len(own) for own in ratios.values()] == [3] * 7
    assert min(map(min, ratios.values())) >= 1 - 1e-9
    assert max(ratios["none"]) > 1 + 1e-3
    assert ratios["gauss"] == pytest.approx([1] * 3)  # random directions are as easily found as left out


def test_the_command_keeps_points_that_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["scale=quick", "dataset=digits", "model.hidden=[8]"]
    kept = tmp_path / "fig1.csv"
    assert command.main(["boba/fig1", *words, "--output", str(kept)]) == 0
    assert capsys.readouterr().out.startswith(f"{kept}; to draw it: robustfl-results figure boba/fig1 --from {kept}")
    picture = tmp_path / "fig1.png"
    code, out, err = run_cli(capsys, "figure", "boba/fig1", *reversed(words), "--from", kept, "--output", picture)
    assert (code, out, err) == (0, f"{picture}\n", "") and picture.stat().st_size > 10_000
    code, _, err = run_cli(capsys, "figure", "boba/fig1", "scale=quick", "--from", kept, "--output", picture)
    assert code == 3 and "this measures it: robustfl-bench probe boba/fig1 scale=quick" in err
    for given, told in (
        (["boba/fig12"], "unknown figure 'boba/fig12'; did you mean boba/fig"),
        (["boba/fig1", "--output", "x.png"], "--output must end in .csv"),
        (
            ["boba/fig5", "scale=quick", "dataset=digits", "model=mlp", "aggregator=krum"],
            "this figure is of aggregator=boba, got Krum",
        ),
    ):
        assert command.main(given) == 2 and told in capsys.readouterr().err


def test_honest_gradients_on_mnist_span_nine_dimensions() -> None:
    """Fig. 1 of BOBA, at the paper's scale, as it is kept in ``results/``."""
    figure = figures()["boba/fig1"]
    kept = drawn.points(figure, records.nothing(), (), archive.kept_points()).table
    variances = kept["mean"].to_numpy()
    assert list(kept["x"]) == list(range(1, 100))
    assert variances[:9].sum() > 0.99 * variances.sum() > variances[:8].sum()
    assert variances[8] > 100 * variances[9]
    folder = os.environ.get("ROBUSTFL_DATA")
    if not folder or not (Path(folder) / "mnist").is_dir():
        pytest.skip("set ROBUSTFL_DATA to a data folder with mnist to test that they are measured so")
    found = [point["mean"] for point in probed("fig1", f"data_dir={folder}")]
    np.testing.assert_allclose(found, variances, rtol=1e-3)
