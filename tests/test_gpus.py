"""Which GPU each worker of a machine sees; no GPU is needed to know."""

from pathlib import Path

import pytest

from robustfl_bench.sweeps import gpus
from robustfl_bench.sweeps.cells import Sweep
from robustfl_bench.sweeps.gpus import gpus_for, seen_by


def _sweep(*device: str) -> Sweep:
    return Sweep(cells=(("seed=0", *device), ("seed=1",)))


@pytest.mark.parametrize(
    ("named", "installed", "expected"),
    [(None, 0, []), (None, 2, ["0", "1"]), ("2,5", 8, ["2", "5"]), ("GPU-8f0c", 8, ["GPU-8f0c"]), ("", 8, []),
     ("-1", 8, [])],
)  # fmt: skip
def test_the_gpus_are_those_that_the_process_may_use(
    named: str | None, installed: int, expected: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for number in range(installed):
        (tmp_path / f"0000:{number:02x}").mkdir()
    monkeypatch.setattr(gpus, "_DRIVER", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if named is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert gpus_for(_sweep()) == gpus_for(_sweep("device=cuda")) == expected
    assert gpus_for(_sweep("device=cuda:1")) == []


def test_workers_take_the_gpus_in_turn() -> None:
    seen = [seen_by(worker, ["2", "5"]) for worker in range(4)]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in seen] == ["2", "5", "2", "5"]
    assert seen_by(3, []) == {}
