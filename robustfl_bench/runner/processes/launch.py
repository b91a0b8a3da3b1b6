"""The processes of a ring, one per client, or of a run that several share: on this machine, or under ``torchrun``."""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Pipe, wait
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn

from robustfl_bench.base.abilities import overrides
from robustfl_bench.base.children import Children, by_signal, terminable
from robustfl_bench.base.console import report, say
from robustfl_bench.base.errors import GENERAL, INTERRUPTED, TERMINATED, ConfigError, Terminated, exit_code
from robustfl_bench.parts.protocols.state import State
from robustfl_bench.runner.config import request
from robustfl_bench.runner.config.request import Call
from robustfl_bench.runner.experiment.execute import Train, execute, take_part
from robustfl_bench.runner.experiment.plan import Request, plan
from robustfl_bench.runner.experiment.trained import Trackers
from robustfl_bench.runner.processes.columns import SpreadStep
from robustfl_bench.runner.processes.member import Client, Member, check, num_processes
from robustfl_bench.runner.processes.peers import GO_ON, INTERFACE, Link, RingBroken, arrival, joined
from robustfl_bench.runner.store.folders import RunFolder
from robustfl_bench.train.federation import Federation

GRACE = 8.0  # seconds for the other clients to notice that one has gone


def client(rank: int, size: int, meeting_point: str, timeout: float, interval: int, overrides: list[str]) -> NoReturn:
    """Run one client and exit; the first client writes the run folder."""

    def work() -> None:
        cfg, call = request.composed(overrides)
        planned = plan(cfg, call)
        check(planned, size)
        with joined(rank, size, meeting_point, timeout) as link:
            this = Client(link, interval)
            if rank == 0:
                execute(Request({**cfg, "wait": False, "use_kept": False}, call), this.train)  # the others wait for it
            else:
                take_part(planned, this.train)
            this.end()

    finish(rank, work)


def finish(rank: int, work: Callable[[], None]) -> NoReturn:
    """Do the work of a process and exit as it ends; its errors are printed."""
    try:
        work()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        if rank == 0 or not isinstance(error, ConfigError):  # which the first process reports for all
            report(error)
        sys.exit(exit_code(error))
    sys.exit(0)


def launch(timeout: float, interval: int, overrides: list[str]) -> int:
    """Run all clients on this machine; returns an exit code. When a client has gone, the others end by themselves."""
    try:
        planned = plan(request.composed(overrides)[0])
        size = num_processes(planned)
        check(planned, size)
    except Exception as error:
        return report(error)
    try:
        with terminable(), local() as clients:
            meeting_point = f"file://{clients.folder}/clients"
            for rank in range(size):
                arguments = rank, size, meeting_point, timeout, interval, overrides
                process = clients.start(f"client {rank}", client, *arguments)
                say(f"client {rank}: process {process.pid}")
            killed = clients.join(GRACE)
    except (KeyboardInterrupt, Terminated) as stop:
        say(f"interrupted; {GO_ON}")
        return INTERRUPTED if isinstance(stop, KeyboardInterrupt) else TERMINATED
    for process in clients.processes:
        if process in killed:
            say(f"error: {process.name} neither answered nor ended, and was killed; {GO_ON}")
        elif told := by_signal(process):
            say(f"error: {told}; {GO_ON}")
    codes = [process.exitcode or 0 for process in clients.processes]
    return next((code for code in codes if code > 0), GENERAL if any(codes) else 0)


def local() -> Children:
    """Processes that meet on this machine."""
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    os.environ.setdefault(INTERFACE, loopback)
    return Children(__name__, "robustfl_bench.train.loop", "robustfl_bench.train.code_read", patience=GRACE)


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


def check_spread(request: Request) -> None:
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
    check_spread(request)
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

    A RingBroken names the processes that a signal has ended, as all connections close within one moment.
    """
    with local() as others:
        meeting = f"file://{others.folder}/processes"
        for rank in range(1, size):
            process = others.start(f"process {rank}", _child, rank, size, meeting, request.composed, request.call)
            say(f"process {rank} of {size}: {process.pid}")
        gone: Sequence[BaseProcess] = ()
        try:
            while not all(arrival(meeting, rank).exists() for rank in range(1, size)):
                if not all(process.is_alive() for process in others.processes):
                    raise RingBroken("a process has gone")
                time.sleep(POLL)
            with _noticed(others.processes) as gone:
                yield meeting
            for process in others.processes:
                process.join(GRACE)
        except RingBroken as error:
            if killed := _killed(gone or others.processes):
                raise RingBroken(f"{killed}; {GO_ON}") from error
            raise


@contextmanager
def _noticed(started: Sequence[BaseProcess]) -> Iterator[list[BaseProcess]]:
    """A context that ends soon after one of its processes, even if this one waits for another that waits as well.

    Where it has not ended after ``GRACE`` seconds, the others are killed, so that all connections close; and where that
    does not end it either, this process ends as if it had been killed. Yields those that were gone when the others
    were killed: none where that was not needed.
    """
    gone, (is_over, here) = list[BaseProcess](), Pipe(duplex=False)

    def watch() -> None:
        ended = wait([is_over, *(process.sentinel for process in started)])
        if is_over.poll(GRACE):  # the context has closed its end
            return
        gone.extend(process for process in started if process.sentinel in ended)
        for process in started:
            if process not in gone:
                process.kill()
        if not is_over.poll(GRACE):
            say(f"error: {_killed(gone) or gone[0].name + ' has gone'}; {GO_ON}")
            os._exit(GENERAL)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield gone
    finally:
        here.close()
        watcher.join()
        is_over.close()


def _killed(started: Sequence[BaseProcess]) -> str:
    deadline = time.monotonic() + NOTICED
    for process in started:
        process.join(max(deadline - time.monotonic(), 0))
    return ", ".join(filter(None, map(by_signal, started)))
