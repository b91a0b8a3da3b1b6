"""Runs of a sweep that are trained together: which ones, how many, and their common steps."""

import json
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from robustfl_bench.base.errors import DataError, Terminated
from robustfl_bench.runner.experiment import samples
from robustfl_bench.runner.experiment.machine import SMALL, choose_device, choose_threads, work_of_round
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.train.settings import DEFINING

if TYPE_CHECKING:  # importing torch takes over a second
    from robustfl_bench.parts.protocols.state import State
    from robustfl_bench.train.stack import Stackable

FREE = ("aggregator", "attack", "lr", "num_byzantine_declared", "pre_aggregation", "schedule", "server_data",
        "server_optimizer")  # fmt: skip
"""Settings in which runs that are trained together may differ: the gradients of their honest clients do not depend on
them."""

Ended = TypeVar("Ended")


@dataclass(frozen=True)
class Waiting:
    """A run before its next round."""

    federation: "Stackable"
    state: "State"


Steps = Generator[Waiting, float | None, Ended]
"""A run that stops before each round, and is sent the seconds that were spent on it meanwhile."""


def alike(request: Request) -> str:
    """What runs that are trained together have in common."""
    s = request.settings
    shared = {name: request.config.get(name) for name in DEFINING if name not in FREE}
    return json.dumps([shared, s.device, s.data_dir, s.num_threads], sort_keys=True)


def at_once(request: Request) -> int:
    """How many runs like this one are trained together, 1 if each is trained alone.

    Together are dense networks on a CPU whose clients send one gradient, if a round has at most ``SMALL`` samples times
    parameters: larger products gain nothing, see results/bench/README.md. Trackers follow one run at a time, and
    products in bfloat16 belong to one run.
    """
    from robustfl_bench.train import stack

    s, parts = request.settings, request.parts
    if not s.stack or s.processes > 1 or parts.tracker or s.precision == "medium":
        return 1
    if choose_device(s.device).type != "cpu" or not stack.can_be_stacked(parts):
        return 1
    try:
        data = samples.load(request, choose_device("cpu"))
    except DataError:  # each run reports it
        return 1
    number = len(data.train_y)
    if work_of_round(request, number) > SMALL or choose_threads(request, number) > 1:
        return 1
    updates = parts.course.updates_per_round(s.clients_per_round) * request.dim
    return stack.at_once(updates)


def alone(run: Steps[Ended]) -> Ended:
    """The result of a run that is trained alone."""
    return together([run])[0]


def together(runs: Sequence[Steps[Ended]]) -> list[Ended]:
    """The results of runs whose rounds go in step.

    If one is interrupted, so are all others: Terminated is raised where they wait. A run that was resumed from a later
    round waits for the others.
    """
    from robustfl_bench.train.stack import Stack

    stack, waiting, ended = Stack(), dict[int, Waiting](), dict[int, Ended]()

    def go_on(number: int, seconds: float | None = None) -> None:
        waiting.pop(number, None)  # which holds its data
        try:
            waiting[number] = runs[number].send(seconds)
        except StopIteration as end:
            ended[number] = end.value

    try:
        for number in range(len(runs)):
            go_on(number)
        while waiting:
            began, behind = time.monotonic(), min(run.state.round for run in waiting.values())
            numbers = [number for number, run in waiting.items() if run.state.round == behind]
            stack.prepare([(waiting[number].federation, waiting[number].state) for number in numbers])
            share = (time.monotonic() - began) / len(numbers)
            for number in numbers:
                go_on(number, share)
    except BaseException:
        for run in runs:  # a signal can come just before a run goes on, or just after it stopped
            with suppress(BaseException):
                run.throw(Terminated())
        raise
    return [ended[number] for number in range(len(runs))]
