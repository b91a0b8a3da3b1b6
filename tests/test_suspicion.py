"""The weights of a run's clients as a detector of attackers."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from robustfl_bench.read.runs import values
from robustfl_bench.read.runs.records import Damaged


def written(folder: Path, weights: dict[str, list[float]]) -> Path:
    pd.DataFrame({"round": range(1, 1 + len(next(iter(weights.values()))))} | weights).to_csv(
        folder / "weights.csv", index=False
    )
    return folder


def test_suspicion_is_the_mean_share_that_a_client_lacks(tmp_path: Path) -> None:
    nan = float("nan")
    weights = {"client_0": [0.5, 1.0], "client_1": [0.5, nan], "client_3": [nan, nan], "byzantine_2": [0.0, 0.0]}
    found = values.suspicion(written(tmp_path, weights))
    assert found.to_dict() == {"client_0": -(1.5 + 2.0) / 2, "client_1": -1.5, "byzantine_2": 0.0}
    assert values.suspicion_area(found) == 1
    assert values.suspicion_curve(found, [0, 0.5, 1]).tolist() == [1, 1, 1]


@pytest.mark.parametrize("kinds", [3, 1000])
def test_the_curve_and_its_area_are_those_of_scikit_learn(kinds: int) -> None:
    rng = np.random.default_rng(0)
    for attackers in (1, 7, 20):
        names = [f"{'byzantine' if i < attackers else 'client'}_{i}" for i in range(30)]
        found = pd.Series(rng.integers(0, kinds, 30) / 4, index=names)
        truth = found.index.str.startswith("byzantine")
        assert values.suspicion_area(found) == pytest.approx(roc_auc_score(truth, found))
        false, true, _ = roc_curve(truth, found, drop_intermediate=False)
        places = np.linspace(0, 1, 101)
        assert values.suspicion_curve(found, list(places)).to_numpy() == pytest.approx(np.interp(places, false, true))
        tops = [true[false == place].max() for place in sorted(set(false))]
        assert values.suspicion_curve(found, sorted(set(false))).to_numpy() == pytest.approx(tops)


def test_without_attackers_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="no ROC without attackers"):
        values.suspicion(written(tmp_path, {"client_0": [1.0]}))
