"""How much of a result is rounding: the nudged model, and the tables of cells that were run twice."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from robustfl_bench.lab.arena.answers import rounding
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import Track
from robustfl_bench.parts.models import Mlp, NudgedMlp
from robustfl_bench.runner.store import evidence, kept
from tests.arenas import run

PAIRS = [("krum", "none", 0.9, 0.9), ("krum", "ipm", 0.5, 0.52), ("krum", "lie", 0.4, 0.404), ("caf", "ipm", 0.7, 0.7)]


def test_a_nudged_model_is_one_unit_in_the_last_place_away() -> None:
    def initial(model: Mlp) -> list[np.ndarray]:
        torch.manual_seed(0)
        return [values.detach().numpy() for values in model((3,), 2).parameters()]

    usual, nudged, same = (initial(model) for model in (Mlp((4,)), NudgedMlp((4,)), NudgedMlp((4,), ulps=0)))
    for before, after, unmoved in zip(usual, nudged, same, strict=True):
        assert np.array_equal(after, np.nextafter(before, np.float32(np.inf))) and np.array_equal(before, unmoved)
        assert (after > before).all()


def test_cells_are_compared_with_the_same_cells_of_a_nudged_model(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = [run(rule, attack, first) for rule, attack, first, _ in PAIRS]
    nudged = [run(rule, attack, second) for rule, attack, _, second in PAIRS] + [run("geomed", "ipm", 0.1)]
    table = pd.DataFrame(
        {"model._target_": [rounding.USUAL, *[rounding.NUDGED] * 3], "model.ulps": [None, "1", "0", "0"]}
    )
    by_length = {4: usual, 2: usual, 1: nudged}  # by the number of lines: all runs, those that are not moved, the moved
    monkeypatch.setattr(Track, "runs", lambda self, of: by_length[len(of)])
    arena = Arena(table, "digits")
    assert {(move.rule, move.attack): round(move.points, 6) for move in rounding.nudged(arena)} == {
        ("krum", "none"): 0, ("krum", "ipm"): 2, ("krum", "lie"): 0.4, ("caf", "ipm"): 0,
    }  # fmt: skip
    sheet, elsewhere = rounding.sheets(arena)
    assert elsewhere.above[1].startswith("of 4 cells, 100% stay equal and 0% move by more than a point; the largest")
    assert sheet.above[1] == (
        "of 4 cells, 50% stay equal and 25% move by more than a point, most often those of krum; the largest move is "
        "2.0 points (krum on iid under ipm)."
    )
    assert [[cell.text for cell in row] for row in sheet.rows] == [
        ["krum", "33%", "33%", "2.0", "ipm"],
        ["caf", "100%", "0%", "0.0", ""],
        ["all rules", "50%", "25%", "2.0", "ipm"],
    ]


def test_cells_with_other_kernels_tell_how_the_order_of_rules_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [("krum", "ipm", 0.5, 0.2), ("krum", "lie", 0.6, 0.9), ("caf", "ipm", 0.4, 0.41), ("caf", "lie", 0.9, 0.9),
             ("geomed", "ipm", 0.3, 0.3), ("geomed", "lie", 0.3, 0.25)]  # fmt: skip
    lines = [f"{rule},iid,5,{attack},0,{first},{second}" for rule, attack, first, second in cells]
    lines = [",".join(rounding.KERNELS), *lines, "krum,iid,0,none,0,0.1,0.1"]
    (tmp_path / "arena").mkdir()
    (tmp_path / "arena" / "digits_kernels.csv").write_text("\n".join(lines))
    monkeypatch.setattr(rounding, "FOLDER", tmp_path)
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    evidence.add(tmp_path, [tmp_path / "arena" / "digits_kernels.csv"])
    monkeypatch.setattr(Track, "runs", lambda self, of: [run("krum", "ipm", 0.5)])
    (sheet,) = rounding.sheets(Arena(pd.DataFrame(), "digits"))
    # worst cases: krum 50, caf 40 and geomed 30, then 20, 41 and 25
    assert sheet.above[0].endswith("AVX2 kernels")
    assert sheet.above[2] == "The rank correlation of the rules' worst cases in both: -0.50 over 3 rules in iid."
    assert [row[0].text for row in sheet.rows] == ["krum", "geomed", "caf", "all rules"]
