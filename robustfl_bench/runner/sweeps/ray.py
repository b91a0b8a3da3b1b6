"""Tasks of a Ray cluster that share the cells of a sweep. Ray places them, and restarts those whose process died."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from robustfl_bench.base.children import terminable
from robustfl_bench.base.console import say
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.experiment.explain import explain
from robustfl_bench.runner.sweeps.cells import Sweep
from robustfl_bench.runner.sweeps.ends import Outcome
from robustfl_bench.runner.sweeps.take import Taker, take
from robustfl_bench.runner.sweeps.watch import check_at_least_one, watch

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
            raise ConfigError(f"no Ray at {self.address}: {' '.join(str(error).split())}") from error
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


def take_with_tasks(sweep: Sweep, tasks: Tasks) -> Outcome:
    """Answer what is stored, start tasks for the other cells, and follow them; raises ConfigError."""
    taker = Taker(sweep)
    taker.survey()
    left = taker.remaining()
    if left.cells:
        with tasks.cluster() as ray, terminable():  # Ray sets a handler of its own
            started, head = tasks.start(ray, left), ray.get_runtime_context().gcs_address
            try:
                watch(taker, lambda: _answers(head) and bool(_pending(ray, started)), tasks.watch_seconds)
            finally:
                if _answers(head):
                    _end(ray, started)
                else:
                    say(f"the head of the Ray cluster at {head} is gone; the same command goes on from what is left")
    return taker.outcome_of_others()


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
            say(f"a task was lost: {' '.join(str(error).split())}")
