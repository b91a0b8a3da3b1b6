"""The script of BRIFCA's figure 1: what it says of runs whose distances are known."""

import importlib.util
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests import presets
from tests.conftest import Bench

spec = importlib.util.spec_from_file_location("brifca_figure1", Path(__file__).parents[1] / "scripts/brifca_figure1.py")
assert spec is not None and spec.loader is not None
figure1: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(figure1)


def runs(gap: float = -0.1, trials: int = 50) -> pd.DataFrame:
    """Every cell: Algorithm 1 and IFCA at 0.3 + k / 100 and a little more, Three-Stage ``gap`` from that."""
    extra = {figure1.MEDIAN: 0.0, figure1.TRIMMED: 0.01, figure1.IFCA: 0.02, figure1.THREE: gap}
    rows = []
    for k in figure1.CLUSTERS:
        for d in figure1.DIMS:
            for method, more in extra.items():
                for seed in range(trials):
                    noise = 0.001 * (seed % 5)
                    row = {"k": k, "d": d, "seed": seed, "method": method, "seconds": 1.0, "cluster_recovery": 1.0}
                    rows.append(row | dict.fromkeys(figure1.VARIANTS.values(), 0.3 + k / 100 + more + noise))
    return pd.DataFrame(rows)


def test_claims_are_judged_by_paired_differences() -> None:
    others = (figure1.MEDIAN, figure1.TRIMMED, figure1.IFCA)
    ((place, *gaps, verdict),) = figure1.comparison(runs(), figure1.THREE, others, [(5, 20)], "distance", -1)
    assert (place, verdict) == ("k = 5, d = 20", "yes")
    assert [gap.split()[0] for gap in gaps] == ["-0.100", "-0.110", "-0.120"]
    ((*_, verdict),) = figure1.comparison(runs(), figure1.THREE, others, [(5, 20)], "distance", +1)
    assert verdict == "no"
    ((*_, verdict),) = figure1.comparison(runs(0.015), figure1.THREE, others, [(5, 20)], "distance", +1)
    assert verdict == "no"  # worse than two of three
    ((*_, verdict),) = figure1.comparison(runs(trials=9), figure1.THREE, others, [(5, 20)], "distance", -1)
    assert verdict == "yes (9 trials)"
    part = runs()
    part = part[(part["method"] != figure1.IFCA) | (part["k"] != 5)]
    ((*_, verdict),) = figure1.comparison(part, figure1.THREE, others, [(5, 20)], "distance", -1)
    assert verdict == "not run yet"


def test_growth_needs_every_number_of_clusters() -> None:
    assert figure1.growth(runs(), figure1.MEDIAN, "distance")[-1] == "yes"
    falling = runs()
    falling["distance"] = -falling["distance"]
    assert figure1.growth(falling, figure1.MEDIAN, "distance")[-1] == "no"
    part = runs()
    assert figure1.growth(part[part["k"] != 10], figure1.MEDIAN, "distance")[-3:] == [
        "",
        "0.452 (0.000)",
        "not run yet",
    ]


def test_the_report_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure1, "load", lambda folder: runs(trials=2))
    figure1.report(tmp_path, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"README.md", "figure1.csv", "ablation.csv"}
    assert len(pd.read_csv(tmp_path / "out/figure1.csv")) == 2 * 4 * 5 * 4
    text = (tmp_path / "out/README.md").read_text()
    assert text.count("| k = 15, d = 500 |") == 2 and "### published" in text
    assert "What decides the figure" in text and "| changed | method | k = 2 | k = 5 | k = 10 | k = 15 |" in text


def test_the_ablation_varies_everything_at_5_clusters_and_what_decides_growth_at_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(figure1, "sweep", lambda *overrides: calls.append(overrides))
    figure1.run_ablation(tmp_path, 3)
    methods = sum(len(methods) for methods, *_ in figure1.ABLATIONS.values())
    assert len(calls) == len(set(calls)) == 3 * methods + 3 * 4
    assert sum("dataset.num_clusters=5" in call for call in calls) == 3 * methods
    for call in calls:
        if "dataset.num_clusters=5" not in call:
            assert "dataset.dim=500" in call and {"clustering.init=warm", "clustering.kmeans_init=oracle"} & {*call}


def test_a_cell_of_the_ablation_is_one_of_the_figure() -> None:
    cell = ("dataset.dim=20", "+method=brifca/median", "seed=3")
    rows = [("+experiment=brifca/fig1b", *cell), ("+setting=brifca/linear_mixture", "dataset.num_clusters=10", *cell)]
    figure, setting = (presets.planned(*row).run_id for row in rows)
    assert figure == setting


def test_it_reads_what_the_command_writes(bench: Bench, tmp_path: Path) -> None:
    small = ("+experiment=brifca/fig1a", "dataset.dim=20", "rounds=2", "seed=4", "num_threads=1")
    assert bench("-m", *small, "results_dir=fair").code == 0
    found = figure1.load(tmp_path / "fair")
    assert sorted(found["method"]) == sorted(figure1.NAMES)
    assert set(zip(found["k"], found["d"], found["seed"], strict=True)) == {(5, 20, 4)}
    assert (found["distance"] >= found["distance_nearest"]).all() and found["cluster_recovery"].between(0, 1).all()
    assert figure1.load(tmp_path / "absent").empty


@pytest.mark.parametrize("change", figure1.ABLATIONS)
def test_every_row_of_the_ablation_is_a_configuration_of_its_own(change: str) -> None:
    methods, *overrides = figure1.ABLATIONS[change]
    for method in methods:
        rows = [["+experiment=brifca/fig1a", f"+method=brifca/{method}", *more] for more in (overrides, [])]
        changed, plain = (presets.planned(*row).run_id for row in rows)
        assert (changed == plain) == (not overrides)
