"""The example of CONTRIBUTING.md works as printed, also from a package and a config folder of a user's own."""

import re
from pathlib import Path

import pytest

from tests.conftest import Bench

GUIDE = (Path(__file__).resolve().parent.parent / "CONTRIBUTING.md").read_text()


def test_the_example_rule_runs(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.S)
    (option,) = re.findall(r"```yaml\n(.*?)```", GUIDE, flags=re.S)
    (target,) = re.findall(r"_target_: (\S+)\.NormMedian", option)
    (tmp_path / "own_rules.py").write_text(code)
    (tmp_path / "own_conf" / "aggregator").mkdir(parents=True)
    (tmp_path / "own_conf" / "aggregator" / "norm_median.yaml").write_text(option.replace(target, "own_rules"))
    monkeypatch.syspath_prepend(tmp_path)
    own = ("--config-dir", str(tmp_path / "own_conf"), "aggregator=norm_median")
    outcome = bench(*own, "attack=ipm", "rounds=3", "model.hidden=[8]")
    assert outcome.code == 0, outcome.err
    assert "-norm_median-" in outcome.out
    wrong = bench(*own, "aggregator.stretch=-1")
    assert wrong.code == 2
    assert "aggregator: stretch must be >= 0, got -1" in wrong.err
