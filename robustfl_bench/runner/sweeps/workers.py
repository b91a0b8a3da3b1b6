"""Processes that take the cells of a sweep, on this machine or started by a class of the user, as ``results/HOWTO.md``
describes; and how they are watched. On this machine one that is killed is replaced, and costs one resume."""

import gc
import io
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Lock
from pathlib import Path
from typing import Any

from robustfl_bench.base.children import Children, by_signal, terminable
from robustfl_bench.base.console import report, say
from robustfl_bench.base.errors import TERMINATED, ConfigError, exit_code
from robustfl_bench.runner.config import targets
from robustfl_bench.runner.experiment.machine import cores
from robustfl_bench.runner.sweeps.cells import End, Incomplete, Sweep
from robustfl_bench.runner.sweeps.progress import shown
from robustfl_bench.runner.sweeps.take import Taker, require_data, take, take_with

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


def watch(taker: Taker, is_alive: Callable[[], bool], seconds: float) -> None:
    """Print each result as it comes, until all cells have an end or, on two looks in a row, not ``is_alive()``.

    Looks every ``seconds``; the second look finds what a shared file system was late to show.
    """
    gone = 0
    while taker.missing and gone < 2:
        gone = 0 if is_alive() else gone + 1
        for cell in taker.missing:
            taker.look(cell, "result")
        if taker.missing:
            time.sleep(seconds)


def check_at_least_one(**options: int | None) -> None:
    """Raise ConfigError unless these options of a launcher are 1 or more, or null."""
    for name, value in options.items():
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ConfigError(f"hydra.launcher.{name} must be a whole number >= 1, got {value!r}")


def take_quietly(sweep: Sweep, n_jobs: int) -> list[End]:
    """Complete all cells in this process, or by ``n_jobs`` workers. Progress is shown, results are not printed."""
    with shown(sweep), redirect_stdout(io.StringIO()):
        return take(sweep) if n_jobs == 1 else take_with_workers(sweep, n_jobs, 1)


def take_with_workers(sweep: Sweep, n_jobs: int, runs_at_once: int) -> list[End]:
    """Answer what is stored, and let ``n_jobs`` workers take the other cells.

    -1: one for each core, or ``runs_at_once`` for each GPU. Raises ConfigError or DataError.
    """
    if not isinstance(n_jobs, int) or n_jobs == 0 or n_jobs < -1:
        raise ConfigError(f"hydra.launcher.n_jobs must be >= 1, or -1: one for each core; got {n_jobs!r}")
    check_at_least_one(runs_at_once=runs_at_once)

    def place(_: Taker, left: Sweep) -> None:
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


def take_with_class(sweep: Sweep, options: Any) -> list[End]:
    """Answer what is stored, and let an instance of ``options["class"]`` with the other options as its fields complete
    the other cells. Raises ConfigError."""
    name, fields = options.get("class"), {key: value for key, value in options.items() if key != "class"}
    if not isinstance(name, str) or "." not in name:
        raise ConfigError(f"hydra.launcher.class must be a dotted name such as my_module.MyLauncher, got {name!r}")
    launcher = targets.build({"_target_": name, **fields})
    if not callable(getattr(launcher, "place", None)):
        raise ConfigError(f"hydra.launcher.class: {name} needs a method place(sweep), see robustfl-bench docs howto")
    return take_with(sweep, lambda _, left: launcher.place(left))
