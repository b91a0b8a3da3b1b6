"""The launchers of clusters: Slurm and Ray."""

import hashlib
import json
import logging
import math
import multiprocessing
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from robustfl_bench.base.children import terminable
from robustfl_bench.base.console import say
from robustfl_bench.base.errors import ConfigError, explain, one_line
from robustfl_bench.runner.sweeps.cells import End, Sweep
from robustfl_bench.runner.sweeps.take import Taker, take, take_with
from robustfl_bench.runner.sweeps.workers import check_at_least_one, watch, work

# An array of Slurm jobs that share the cells of a sweep. submitit submits them and queues them again.
#
# Slurm's accounting, which many clusters lack, is not used: finished cells are found in the run folders, and
# pending jobs in ``squeue``, where all jobs of a sweep share one name. So the submitting command can be killed and
# repeated.


@dataclass(frozen=True)
class Jobs:
    """What the jobs of a sweep are; ``conf/hydra/launcher/slurm.yaml`` explains the fields."""

    jobs: int
    runs_at_once: int
    gpus_per_node: int | None
    cpus_per_task: int
    mem_gb: float
    timeout_min: int
    partition: str | None
    account: str | None
    signal_delay_s: int
    max_num_timeout: int
    setup: Sequence[str] | None
    additional_parameters: Mapping[str, Any]
    submitit_folder: str
    watch_seconds: float

    def __post_init__(self) -> None:
        check_at_least_one(
            jobs=self.jobs,
            runs_at_once=self.runs_at_once,
            gpus_per_node=self.gpus_per_node,
            cpus_per_task=self.cpus_per_task,
            timeout_min=self.timeout_min,
        )

    @property
    def workers(self) -> int:
        """Processes of a job."""
        return self.runs_at_once * (self.gpus_per_node or 1)

    def submit(self, sweep: Sweep, name: str, number: int) -> None:
        """Submit ``number`` jobs called ``name``; raises ConfigError if Slurm refuses them."""
        try:
            import submitit
        except ModuleNotFoundError:
            raise ConfigError('hydra/launcher=slurm needs pip install "robustfl-bench[slurm]"') from None
        try:
            executor = submitit.SlurmExecutor(f"{self.submitit_folder}/%j", self.max_num_timeout)
            executor.update_parameters(
                job_name=name,
                time=self.timeout_min,
                mem=f"{math.ceil(1024 * self.mem_gb)}MB",
                cpus_per_task=self.cpus_per_task,
                gpus_per_node=self.gpus_per_node,
                partition=self.partition,
                account=self.account,
                signal_delay_s=self.signal_delay_s,
                setup=self.setup,
                additional_parameters=dict(self.additional_parameters),
            )
            with executor.batch():
                for _ in range(number):
                    executor.submit(Job(sweep, self.workers))
        except (RuntimeError, submitit.core.utils.FailedJobError) as error:
            raise ConfigError(f"no job was submitted: {one_line(error)}") from error


@dataclass(frozen=True)
class Job:
    """What a job does: it takes cells of ``sweep`` with ``workers`` processes until none is left."""

    sweep: Sweep
    workers: int

    def __call__(self) -> None:
        # Slurm sends the signal that time is nearly out to all processes of a job, but only this one shall hear it.
        unheard = {signal.SIGUSR1, signal.SIGUSR2}
        signal.pthread_sigmask(signal.SIG_BLOCK, unheard)
        forkserver.ensure_running()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, unheard)
        self.sweep.enter()
        work(self.sweep, self.workers)

    def checkpoint(self) -> Any:
        """Called by submitit shortly before the time limit or on preemption; returns the job to queue again."""
        from submitit.helpers import DelayedSubmission

        for process in multiprocessing.active_children():
            process.terminate()  # each writes its checkpoint
        for process in multiprocessing.active_children():
            process.join()
        return DelayedSubmission(self)


def take_with_jobs(sweep: Sweep, jobs: Jobs) -> list[End]:
    """Answer what is stored, submit jobs for the other cells, and follow them; raises ConfigError."""

    def place(taker: Taker, left: Sweep) -> None:
        name = name_of(sweep)
        queued = in_queue(name)
        if queued is None:
            raise ConfigError("squeue does not answer; start hydra/launcher=slurm where sbatch and squeue work")
        new = max(min(jobs.jobs, math.ceil(len(left.cells) / jobs.workers)) - len(queued), 0)
        if new:
            jobs.submit(left, name, new)
        say(f"slurm: {len(queued)} jobs of this sweep were in the queue, {new} were added: squeue --name={name}")
        try:
            with terminable():
                watch(taker, lambda: in_queue(name) != [], jobs.watch_seconds)
        except (KeyboardInterrupt, SystemExit):
            say(f"the jobs go on, and the same command follows them again; scancel --name={name} ends them")
            raise
        if taker.missing:
            say(f"no job of this sweep is left; logs: {jobs.submitit_folder}; the same command submits new ones")

    return take_with(sweep, place)


def name_of(sweep: Sweep) -> str:
    """The name of the jobs of a sweep: the same for the same cells and results folder."""
    content = json.dumps([sweep.cells, str(Path(sweep.folder, sweep.results_dir))])
    return f"robustfl-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def in_queue(name: str) -> list[str] | None:
    """The jobs of this name that wait or run; None if Slurm does not answer."""
    command = ["squeue", "--me", f"--name={name}", "--array", "--noheader", "--format=%i"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return None


CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""At 0, Ray listens on 127.0.0.1 alone, on every system. Otherwise its own cluster would obey whoever reaches this
host."""

CONNECTING = 5
"""Seconds in which the head of the cluster has to answer."""

PATIENCE = 60
"""Seconds that a task has to write its checkpoint when the sweep is interrupted."""


@dataclass(frozen=True)
class Tasks:
    """Where the tasks of a sweep run, and how many; ``conf/hydra/launcher/ray.yaml`` explains the fields."""

    address: str | None
    workers: int | None
    cpus_per_worker: float
    runs_at_once: int
    watch_seconds: float

    def __post_init__(self) -> None:
        check_at_least_one(workers=self.workers, runs_at_once=self.runs_at_once)

    @contextmanager
    def cluster(self) -> Iterator[Any]:
        """The module ``ray``, connected to the cluster, or to one of its own; raises ConfigError."""
        if not self.address:
            os.environ.setdefault(CLUSTERS, "0")  # read when ray is imported
        try:
            import ray
        except ModuleNotFoundError:
            raise ConfigError('hydra/launcher=ray needs pip install "robustfl-bench[ray]"') from None
        own: dict[str, Any] = {} if self.address else {"include_dashboard": False}
        try:
            ray.init(self.address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
        except (ConnectionError, ValueError) as error:
            raise ConfigError(f"no Ray at {self.address}: {one_line(error)}") from error
        try:
            yield ray
        finally:
            ray.shutdown()

    def start(self, ray: Any, sweep: Sweep) -> list[Any]:
        """Start the tasks."""
        room = ray.cluster_resources()
        gpus = int(room.get("GPU", 0))
        number = self.workers or (gpus * self.runs_at_once if gpus else int(room["CPU"] // self.cpus_per_worker))
        options = {"num_cpus": self.cpus_per_worker, "num_gpus": 1 / self.runs_at_once if gpus else 0}
        # A cell that kills its processes is recorded as failed after a few, so the retries end.
        task = ray.remote(max_retries=-1, max_calls=1, **options)(_take)
        sweep = replace(sweep, takers=min(max(number, 1), len(sweep.cells)))
        return [task.remote(sweep) for _ in range(sweep.takers)]


def _take(sweep: Sweep) -> None:
    sweep.enter()
    take(sweep)


def take_with_tasks(sweep: Sweep, tasks: Tasks) -> list[End]:
    """Answer what is stored, start tasks for the other cells, and follow them; raises ConfigError."""

    def place(taker: Taker, left: Sweep) -> None:
        with tasks.cluster() as ray, terminable():  # Ray sets a handler of its own
            started, head = tasks.start(ray, left), ray.get_runtime_context().gcs_address
            try:
                watch(taker, lambda: _answers(head) and bool(_pending(ray, started)), tasks.watch_seconds)
            finally:
                if _answers(head):
                    _end(ray, started)
                else:
                    say(f"the head of the Ray cluster at {head} is gone; the same command goes on from what is left")

    return take_with(sweep, place)


def _answers(address: str) -> bool:
    """Whether a process listens at an address. Ray itself waits for a lost head for a minute, and then ends the
    process that waits."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECTING).close()
    except OSError:
        return False
    return True


def _pending(ray: Any, started: list[Any], patience: float = 0) -> list[Any]:
    """The tasks that have not ended, after at most so many seconds in which they may."""
    pending: list[Any] = ray.wait(started, num_returns=len(started), timeout=patience)[1]
    return pending


def _end(ray: Any, started: list[Any]) -> None:
    """Let tasks that still run write their checkpoints, and say why others have failed."""
    for task in _pending(ray, started):
        ray.cancel(task)
    still = _pending(ray, started, PATIENCE)
    for task in [task for task in started if task not in still]:
        try:
            ray.get(task)
        except ray.exceptions.TaskCancelledError:
            continue
        except ray.exceptions.RayTaskError as error:
            say(f"a task has failed: {explain(error.cause)}")
        except ray.exceptions.RayError as error:
            say(f"a task was lost: {one_line(error)}")
