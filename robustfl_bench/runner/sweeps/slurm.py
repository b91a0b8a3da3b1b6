"""An array of Slurm jobs that share the cells of a sweep. submitit submits them and queues them again.

Slurm's accounting, which many clusters lack, is not used: finished cells are found in the run folders, and pending jobs
in ``squeue``, where all jobs of a sweep share one name. So the submitting command can be killed and repeated.
"""

import hashlib
import json
import math
import multiprocessing
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from robustfl_bench.base.children import terminable
from robustfl_bench.base.console import say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.sweeps.cells import Sweep
from robustfl_bench.runner.sweeps.ends import Outcome
from robustfl_bench.runner.sweeps.take import Taker
from robustfl_bench.runner.sweeps.watch import check_at_least_one, watch
from robustfl_bench.runner.sweeps.workers import work


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
            raise ConfigError(f"no job was submitted: {' '.join(str(error).split())}") from error


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


def take_with_jobs(sweep: Sweep, jobs: Jobs) -> Outcome:
    """Answer what is stored, submit jobs for the other cells, and follow them; raises ConfigError."""
    taker = Taker(sweep)
    taker.survey()
    left = taker.remaining()
    if left.cells:
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
    return taker.outcome_of_others()


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
