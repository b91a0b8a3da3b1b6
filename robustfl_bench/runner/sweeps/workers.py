"""Processes on this machine that take the cells of a sweep. One that is killed is replaced, and costs one resume."""

import gc
import os
import sys
from dataclasses import replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Lock

from robustfl_bench.base.children import Children, by_signal, terminable
from robustfl_bench.base.console import say
from robustfl_bench.base.errors import TERMINATED, ConfigError, exit_code
from robustfl_bench.runner.experiment.explain import report
from robustfl_bench.runner.experiment.machine import cores
from robustfl_bench.runner.sweeps.cells import Sweep
from robustfl_bench.runner.sweeps.ends import Incomplete, Outcome
from robustfl_bench.runner.sweeps.gpus import gpus_for, seen_by
from robustfl_bench.runner.sweeps.take import require_data, take, take_with
from robustfl_bench.runner.sweeps.watch import check_at_least_one


def take_with_workers(sweep: Sweep, n_jobs: int, runs_at_once: int) -> Outcome:
    """Answer what is stored, and let ``n_jobs`` workers take the other cells.

    -1: one for each core, or ``runs_at_once`` for each GPU. Raises ConfigError or DataError.
    """
    if not isinstance(n_jobs, int) or n_jobs == 0 or n_jobs < -1:
        raise ConfigError(f"hydra.launcher.n_jobs must be >= 1, or -1: one for each core; got {n_jobs!r}")
    check_at_least_one(runs_at_once=runs_at_once)

    def place(left: Sweep) -> None:
        require_data(left)
        usual = runs_at_once * len(gpus_for(left)) or cores()
        work(left, min(n_jobs if n_jobs > 0 else usual, len(left.cells)))

    return take_with(sweep, place)


def work(sweep: Sweep, number: int) -> None:
    """Start ``number`` processes that take the cells of ``sweep``; returns when all have ended.

    They take the GPUs in turn. At SIGTERM and Ctrl-C all write a checkpoint and end. Raises Incomplete, with the exit
    code of the error, after a worker has printed an error that ends the sweep.
    """
    sweep = replace(sweep, takers=number)
    gpus = gpus_for(sweep)
    running: dict[BaseProcess, int] = {}
    deaths, most = 0, 3 * (len(sweep.cells) + number)  # a cell that kills its processes is recorded as failed
    preload = ("robustfl_bench.runner.sweeps.workers", "robustfl_bench.train.loop", "robustfl_bench.train.code_read")
    with terminable(), Children(*preload) as children:
        first = children.context.Lock()

        def start(worker: int) -> None:
            environment = {**os.environ, **seen_by(worker, gpus)}
            running[children.start("worker {pid}", _worker, sweep, environment, first)] = worker

        for worker in range(number):
            start(worker)
        while running:
            wait([process.sentinel for process in running])
            for process in [process for process in running if process.exitcode is not None]:
                worker = running.pop(process)
                code = process.exitcode or 0
                if code > 0 and code != TERMINATED:
                    raise Incomplete("an error of a worker ended the sweep", code)
                if code < 0:
                    deaths += 1
                    say(f"{by_signal(process)}; another takes its place")
                    if deaths <= most:
                        start(worker)


def _worker(sweep: Sweep, environment: dict[str, str], first: Lock) -> None:
    """Take cells until none is left. Of several workers, the one that takes the lock ``first`` prints its error."""
    gc.freeze()  # a collection would write to all that was imported, and so copy the pages that workers have in common
    os.environ.clear()
    os.environ.update(environment)
    try:
        sweep.enter()
        take(sweep)
    except Exception as error:
        if first.acquire(block=False):
            report(error)
        sys.exit(exit_code(error))
