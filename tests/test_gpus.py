"""Which GPU each worker of a machine sees, and what a full one says; no GPU is needed to know."""

from pathlib import Path

import pytest
import torch

from robustfl_bench.engine import loop
from robustfl_bench.sweeps import gpus
from robustfl_bench.sweeps.cells import Sweep
from robustfl_bench.sweeps.gpus import gpus_for, seen_by
from tests.conftest import Bench


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


def test_a_run_without_memory_on_the_gpu_says_so_in_one_line(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch lists all processes of the GPU."""

    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 276.00 MiB. GPU 0 has a total capacity of 79.18 GiB of which 156.19 "
            "MiB is free. Process 905 has 66.00 MiB memory in use. Process 1317 has 1.61 GiB memory in use."
        )

    monkeypatch.setattr(loop, "run", fail)
    outcome = bench("rounds=1", "num_clients=4", "partition=iid", "model.hidden=[4]")
    assert outcome.code == 1
    assert "which 156.19 MiB is free; make fewer runs at once on it (hydra.launcher." in outcome.err
    assert "Process" not in outcome.err and "OutOfMemoryError" not in outcome.err
