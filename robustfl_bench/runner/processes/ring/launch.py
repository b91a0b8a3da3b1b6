"""The processes of a ring, one per client, on this machine or under ``torchrun``."""

import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import NoReturn

from robustfl_bench.base.console import say
from robustfl_bench.base.errors import GENERAL, INTERRUPTED, TERMINATED, ConfigError, exit_code
from robustfl_bench.runner.config import request
from robustfl_bench.runner.experiment import explain
from robustfl_bench.runner.experiment.execute import execute, take_part
from robustfl_bench.runner.experiment.machine import forkserver
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.runner.processes.ring.client import Client, check, num_processes
from robustfl_bench.runner.processes.ring.link import INTERFACE, joined
from robustfl_bench.runner.processes.ring.step import GO_ON

GRACE = 8.0  # seconds for the other clients to notice that one has gone


def client(rank: int, size: int, meeting_point: str, timeout: float, interval: int, overrides: list[str]) -> NoReturn:
    """Run one client and exit; the first client writes the run folder."""

    def work() -> None:
        cfg, call = request.composed(overrides)
        check(plan(cfg), size)
        with joined(rank, size, meeting_point, timeout) as link:
            this = Client(link, interval)
            if rank == 0:
                execute({**cfg, "wait": False}, call, this.train, kept=False)  # the others wait for this one
            else:
                take_part(cfg, call, this.train)
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
            explain.report(error)
        sys.exit(exit_code(error))
    sys.exit(0)


def launch(timeout: float, interval: int, overrides: list[str]) -> int:
    """Run all clients on this machine; returns an exit code. When a client has gone, the others end by themselves."""
    try:
        planned = plan(request.composed(overrides)[0])
        size = num_processes(planned)
        check(planned, size)
    except Exception as error:
        return explain.report(error)
    with tempfile.TemporaryDirectory(prefix="robustfl-ring-") as folder:
        meeting_point = f"file://{folder}/clients"
        processes: list[BaseProcess] = [
            context().Process(target=client, args=(rank, size, meeting_point, timeout, interval, overrides))
            for rank in range(size)
        ]
        for rank, process in enumerate(processes):
            process.start()
            say(f"client {rank}: process {process.pid}")
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
        try:
            return _wait(processes)
        except (KeyboardInterrupt, SystemExit) as stop:
            for process in processes:
                process.terminate()
            for process in processes:
                process.join(GRACE)
                process.kill()
            say(f"interrupted; {GO_ON}")
            return INTERRUPTED if isinstance(stop, KeyboardInterrupt) else TERMINATED
        finally:
            signal.signal(signal.SIGTERM, before)


def context() -> ForkServerContext:
    """A context whose processes start with all imports done, once for all of them."""
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    os.environ.setdefault(INTERFACE, loopback)  # all clients are on this machine
    return forkserver(__name__, "robustfl_bench.train.loop")


def _wait(processes: Sequence[BaseProcess]) -> int:
    """Wait for all clients, killing those that do not notice that others have gone; returns the ring's exit code."""
    killed: set[BaseProcess] = set()
    deadline = None
    while alive := [process for process in processes if process.is_alive()]:
        wait([process.sentinel for process in alive], None if deadline is None else max(deadline - time.monotonic(), 0))
        if deadline is None and any(process.exitcode for process in processes):
            deadline = time.monotonic() + GRACE
        elif deadline is not None and time.monotonic() > deadline:
            killed |= {process for process in alive if process.is_alive()}
            for process in killed:
                process.kill()
                process.join()
    for rank, process in enumerate(processes):
        if process in killed:
            say(f"error: client {rank} neither answered nor ended, and was killed; {GO_ON}")
        elif told := by_signal("client", rank, process):
            say(f"error: {told}; {GO_ON}")
    codes = [process.exitcode or 0 for process in processes]
    return next((code for code in codes if code > 0), GENERAL if any(codes) else 0)


def by_signal(member: str, rank: int, process: BaseProcess) -> str:
    """What ended a process, if it was a signal; else empty."""
    code = process.exitcode or 0
    return f"{member} {rank} was ended by signal {-code}" if code < 0 else ""
