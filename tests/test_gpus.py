"""Which GPU each worker of a machine sees, and what a full one says; no GPU is needed to know."""

from pathlib import Path
from typing import Any

import pytest
import torch

from robustfl_bench.runner.experiment import memory
from robustfl_bench.runner.sweeps import workers
from robustfl_bench.runner.sweeps.cells import Sweep
from robustfl_bench.runner.sweeps.workers import gpus_for, seen_by
from robustfl_bench.train import loop
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
    monkeypatch.setattr(workers, "_DRIVER", tmp_path)
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


def test_a_run_that_finds_the_gpu_full_waits_for_others_and_has_the_same_result(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its GPU is a CPU here, which two of four rounds find full."""
    words = ("rounds=4", "num_clients=4", "partition=iid", "model.hidden=[4]", "checkpoint_seconds=0")
    assert bench(*words, f"results_dir={tmp_path / 'undisturbed'}").code == 0
    full, free, train = [2, 3], [0, 3, 5, 0, 1, 6], loop.run

    def fill(federation: Any, state: Any, *more: Any) -> Any:
        for done in train(federation, state, *more):
            yield done
            if full and done[0].round == full[0]:
                full.pop(0)
                raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(loop, "run", fill)
    monkeypatch.setattr(memory, "others_on", lambda device: device.type == "cpu")
    monkeypatch.setattr(memory, "folder_of_user", lambda name: tmp_path / name)
    monkeypatch.setattr(memory, "_gpu", lambda _: ("uuid", free.pop(0), 8))
    monkeypatch.setattr(memory, "_most_held", lambda _: 2)
    monkeypatch.setattr(memory.Reservations, "are_others", True)
    monkeypatch.setattr(memory, "POLL", 0.01)
    outcome = bench(*words)
    assert outcome.code == 0 and not full and not free, outcome.err
    assert outcome.err.count("cpu is full: this run waits for others on it to end, or for 4 ") == 2
    (expected,), (found,) = ([*(tmp_path / name).glob("runs/*/metrics.csv")] for name in ("undisturbed", "results"))
    assert found.read_bytes() == expected.read_bytes()
