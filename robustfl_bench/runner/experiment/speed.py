"""How fast a device trains: measured once, by some 10 seconds of it, and kept with the machine; else as stated."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from robustfl_bench import __version__
from robustfl_bench.base import remembered
from robustfl_bench.runner.config import compose
from robustfl_bench.runner.experiment.machine import choose_device, facts, libraries, processor, threads
from robustfl_bench.runner.experiment.plan import plan

_SHARE = 0.3
"""Of the operations of large products, what the gradients of a network reach."""

_SECONDS = 5.0
"""Of each of the two measurements."""

_SIZE = 2048
_DRIVER = Path("/proc/driver/nvidia")
_STEPS = ("model.hidden=[32]", "num_clients=25", "num_byzantine=5", "batch_size=32", "aggregator=coomed", "attack=ipm",
          "rounds=100000", "eval_every=100000", "byzantine_placement=replace")  # fmt: skip
"""The run on the digits whose rounds are timed: a step of all clients, an attack and a rule, hardly any operations."""


@dataclass(frozen=True)
class Speed:
    """The operations a second of large float32 products, the seconds of a step of all clients in which hardly any
    operations are computed, and whose numbers these are, in words."""

    operations: float
    step: float
    source: str
    is_gpu: bool = False

    def among(self, processes: int) -> "Speed":
        """That of so many processes together: those on a GPU share its operations, and wait for the host apart."""
        return replace(self, step=self.step / processes) if self.is_gpu else self

    def seconds(self, steps: float, operations: float) -> float:
        """The time of so many steps with so many operations in all."""
        return steps * self.step + operations / (_SHARE * self.operations)


STATED = {
    "cpu": Speed(5e10, 2e-3, "not measured here: a core of 50 GFLOP/s and 2 ms a step are assumed"),
    "cuda": Speed(6e13, 1.5e-2, "not measured here: an H100's peak of 60 TFLOP/s and 15 ms a step are assumed", True),
}
"""What is assumed of a kind of device before it is measured."""


def known(device: str, may_measure: bool) -> Speed:
    """The speed of ``auto``, ``cpu``, ``cuda`` or ``cuda:N`` on this machine: as it was measured, which is done now if
    it ``may_measure``; else STATED, also of a GPU that is not there. Raises ConfigError if that is to be measured."""
    if not may_measure and not _DRIVER.exists():  # torch, which can tell, takes seconds to import
        device = device if device.startswith("cuda") else "cpu"
        name = device if device != "cpu" else processor()
    else:
        device = str(choose_device(device))
        name = str(facts(device)["processor"])
    subject = f"speed of {name}, {__version__}, {libraries()}".encode()
    if (content := remembered.recall(subject)) is not None:
        return Speed(**json.loads(bytes(content)))
    if not may_measure:
        return STATED[device.partition(":")[0]]
    with threads(1):
        speed = Speed(_products(device), _seconds_of_step(device), f"measured on {name}", device != "cpu")
    remembered.remember(subject, json.dumps(asdict(speed)).encode())
    return speed


def _products(device: str) -> float:
    """Operations a second of products of large float32 matrices."""
    import torch

    matrix = torch.ones(_SIZE, _SIZE, device=device)
    return 2 * _SIZE**3 / _median_seconds(device, lambda: matrix @ matrix)


def _seconds_of_step(device: str) -> float:
    """The seconds of a round of a run with hardly any operations."""
    from robustfl_bench.parts import datasets
    from robustfl_bench.train import loop
    from robustfl_bench.train.federation import federation_of
    from robustfl_bench.train.rounds import initial_state

    request = plan(compose.resolve(_STEPS).config)
    data = datasets.load(request.parts.dataset, None, choose_device(device))
    federation = federation_of(request.settings, request.parts, data)
    rounds = loop.run(federation, initial_state(federation))
    return _median_seconds(device, lambda: next(rounds))


def _median_seconds(device: str, work: Callable[[], object]) -> float:
    """The median time of some work, repeated for _SECONDS; what the first one prepares does not count."""
    import torch

    taken = list[float]()
    end = time.monotonic() + _SECONDS
    while len(taken) < 4 or time.monotonic() < end:
        began = time.monotonic()
        work()
        if device != "cpu":
            torch.cuda.synchronize(device)
        taken.append(time.monotonic() - began)
    return median(taken[1:])
