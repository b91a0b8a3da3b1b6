"""The processes of a ring, one per client, on this machine or under ``torchrun``."""

import os
import socket
import sys
from collections.abc import Callable
from typing import NoReturn

from robustfl_bench.base.children import Children, by_signal, terminable
from robustfl_bench.base.console import report, say
from robustfl_bench.base.errors import GENERAL, INTERRUPTED, TERMINATED, ConfigError, Terminated, exit_code
from robustfl_bench.runner.config import request
from robustfl_bench.runner.experiment.execute import execute, take_part
from robustfl_bench.runner.experiment.plan import Request, plan
from robustfl_bench.runner.processes.ring.client import Client, check, num_processes
from robustfl_bench.runner.processes.ring.step import GO_ON, INTERFACE, joined

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
                execute(Request({**cfg, "wait": False}, call), this.train, kept=False)  # the others wait for this one
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
