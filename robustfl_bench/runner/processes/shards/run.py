"""A run over several processes of this machine, or of several machines under ``torchrun``."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn

from robustfl_bench.base.abilities import overrides
from robustfl_bench.base.children import by_signal
from robustfl_bench.base.console import say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.parts.protocols.state import State
from robustfl_bench.runner.config.request import Call
from robustfl_bench.runner.experiment.execute import Train, take_part
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.experiment.rows import Trackers
from robustfl_bench.runner.processes.ring.client import Member
from robustfl_bench.runner.processes.ring.launch import GRACE, finish, local
from robustfl_bench.runner.processes.ring.step import GO_ON, Link, RingBroken, arrival, joined
from robustfl_bench.runner.processes.shards.context import SpreadStep
from robustfl_bench.runner.store.folders import RunFolder
from robustfl_bench.train.federation import Federation

SILENCE = 600.0
"""Seconds that a process may be silent, for example while the first one tests the model."""

POLL = 0.02  # seconds between two looks at the processes that start
NOTICED = 1.0  # seconds until the system has told that a process is no more

TORCHRUN = ("RANK", "WORLD_SIZE")
"""The variables by which ``torchrun``, or a job of Slurm, tells a process its place."""


class SpreadMember(Member):
    """Process ``link.rank`` of a run. The first decides when checkpoints are written, by ``seconds`` between them."""

    def __init__(self, link: Link, seconds: float) -> None:
        super().__init__(link, partial(SpreadStep, timeout=SILENCE))
        self._seconds, self._last = seconds, time.monotonic()

    def is_due(self, state: State) -> bool:
        due = bool(self.link.gather([time.monotonic() >= self._last + self._seconds])[0, 0])
        if due:
            self._last = time.monotonic()
        return due


def check(request: Request) -> None:
    """Raise ConfigError unless the run can be carried out by several processes."""
    s, parts = request.settings, request.parts
    how = f"processes={s.processes}"
    if s.device not in ("cpu", "auto"):
        raise ConfigError(f"{how} trains on the CPU, got device={s.device}")
    if parts.clustering is not None:
        raise ConfigError(f"{how} trains one model, and a clustering has several: set clustering=none or processes=1")
    if overrides(parts.course, "step") or parts.course.aggregates or parts.course.clients_compute_alone:
        raise ConfigError(f"{how} needs rounds with a server: set protocol=synchronous or star, or processes=1")
    if s.num_byzantine and (parts.attack.plans or (parts.attack.crafts and not parts.attack.by_columns)):
        raise ConfigError(
            f"attack {type(parts.attack).__name__} needs whole updates, and {how} cuts them into columns: take another "
            "attack or processes=1"
        )
    if s.num_byzantine and s.knowledge != "all":
        raise ConfigError(f"{how} needs knowledge=all, got {s.knowledge}")


@contextmanager
def several(request: Request) -> Iterator[Train]:
    """As ``members``, for more than one process."""
    size = request.settings.processes
    check(request)
    with ExitStack() as stack:
        found: list[SpreadMember] = []

        def join(link: Link) -> SpreadMember:
            found.append(SpreadMember(link, request.settings.checkpoint_seconds))
            return found[0]

        if place := _place(size):
            member = join(stack.enter_context(joined(*place, "env://", SILENCE, "process")))
            yield member.train
        else:

            def train(request: Request, federation: Federation, folder: RunFolder, trackers: Trackers | None) -> Any:
                meeting = stack.enter_context(_others(request, size))
                link = stack.enter_context(joined(0, size, meeting, SILENCE, "process"))
                return join(link).train(request, federation, folder, trackers)

            yield train
        if found:
            found[0].end()


def served(request: Request) -> bool:
    """Train for another process, which writes the results, if ``torchrun`` started this one for that; whether it did.

    Raises ConfigError, DataError or RingBroken.
    """
    place = _place(request.settings.processes)
    if place is None or place[0] == 0:
        return False
    _serve(*place, "env://", request)
    return True


def _serve(rank: int, size: int, meeting: str, request: Request) -> None:
    with joined(rank, size, meeting, SILENCE, "process") as link:
        member = SpreadMember(link, request.settings.checkpoint_seconds)
        take_part(request, member.train)
        member.end()


def _place(size: int) -> tuple[int, int] | None:
    """The rank of this process and the number of processes under ``torchrun``; None without it."""
    if not all(name in os.environ for name in TORCHRUN):
        return None
    rank, started = (int(os.environ[name]) for name in TORCHRUN)
    if started != size:
        raise ConfigError(f"processes={size}, but {started} processes were started: set processes={started}")
    return rank, size


def _child(rank: int, size: int, meeting: str, config: Mapping[str, Any], call: Call) -> NoReturn:
    finish(rank, lambda: _serve(rank, size, meeting, Request(config, call)))


@contextmanager
def _others(request: Request, size: int) -> Iterator[str]:
    """The other processes of a run on this machine, within the context; yields where all meet.

    A RingBroken names the process that a signal has ended, as all connections close within one moment.
    """
    with local() as others:
        meeting = f"file://{others.folder}/processes"
        for rank in range(1, size):
            process = others.start(f"process {rank}", _child, rank, size, meeting, request.composed, request.call)
            say(f"process {rank} of {size}: {process.pid}")
        try:
            while not all(arrival(meeting, rank).exists() for rank in range(1, size)):
                if not all(process.is_alive() for process in others.processes):
                    raise RingBroken("a process has gone")
                time.sleep(POLL)
            yield meeting
            for process in others.processes:
                process.join(GRACE)
        except RingBroken as error:
            if killed := _killed(others.processes):
                raise RingBroken(f"{killed}; {GO_ON}") from error
            raise


def _killed(started: Sequence[BaseProcess]) -> str:
    deadline = time.monotonic() + NOTICED
    for process in started:
        process.join(max(deadline - time.monotonic(), 0))
    return ", ".join(filter(None, map(by_signal, started)))
