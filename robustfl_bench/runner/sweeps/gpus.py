"""The GPUs of a machine, shared by the workers on it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from robustfl_bench.runner.sweeps.cells import Sweep

VISIBLE = "CUDA_VISIBLE_DEVICES"
_DRIVER = Path("/proc/driver/nvidia/gpus")


def gpus_for(sweep: Sweep) -> list[str]:
    """The GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them; none where a cell names its own."""
    if any(word.startswith("device=cuda:") for cell in sweep.cells for word in cell):
        return []
    named = os.environ.get(VISIBLE)
    if named is None:
        return [str(number) for number, _ in enumerate(_DRIVER.glob("*"))]
    return [name for name in named.split(",") if name not in ("", "-1")]


def seen_by(worker: int, gpus: Sequence[str]) -> Mapping[str, str]:
    """The environment variables for a worker that assign the GPUs to workers in turn."""
    return {VISIBLE: gpus[worker % len(gpus)]} if gpus else {}
