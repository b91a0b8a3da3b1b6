"""MLflow (https://mlflow.org): one MLflow run for each run, found by the tag ``run_id``."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from robustfl_bench.base.errors import check_package
from robustfl_bench.base.trees import flatten
from robustfl_bench.parts.trackers.base import Tracked, Tracker, Tracking

MOST = 100  # parameters that MLflow takes at once


@dataclass(frozen=True)
class MLflow(Tracker):
    """A run of the MLflow experiment ``experiment`` at ``uri``: a database (``sqlite:///mlflow.db``) or a server.

    None takes MLflow's own default, or MLFLOW_TRACKING_URI. A run that resumes continues the MLflow run with its id as
    a tag, adding the missing rounds; a run that starts again replaces it.
    """

    experiment: str = "robustfl-bench"
    """the MLflow experiment, created if missing"""
    uri: str | None = None
    """sqlite:///FILE or http://SERVER; null: MLFLOW_TRACKING_URI, else MLflow's default"""

    def check(self) -> None:
        """The package must be installed."""
        check_package("mlflow")

    def begin(self, run: Tracked) -> Tracking:
        return _Run(self.experiment, self.uri, run)


class _Run:
    def __init__(self, experiment: str, uri: str | None, run: Tracked) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._metric, self._client = Metric, MlflowClient(tracking_uri=uri)
        found = self._client.get_experiment_by_name(experiment)
        home = found.experiment_id if found is not None else self._client.create_experiment(experiment)
        earlier = [made.info.run_id for made in self._client.search_runs([home], f"tags.run_id = '{run.run_id}'")]
        if run.done and earlier:
            self._id = earlier[0]
            self._client.update_run(self._id, status="RUNNING")
            self._last = max((point.step for point in self._client.get_metric_history(self._id, "round")), default=0)
            return
        for old in earlier:
            self._client.delete_run(old)
        tags = {"run_id": run.run_id, "folder": str(run.folder)}
        self._id = self._client.create_run(home, tags=tags, run_name=run.name).info.run_id
        self._last = 0
        params = [Param(name, str(value)) for name, value in flatten(run.config)]
        for start in range(0, len(params), MOST):
            self._client.log_batch(self._id, params=params[start : start + MOST])

    def record(self, round: int, numbers: Mapping[str, float]) -> None:
        if round > self._last:
            now = int(1000 * time.time())
            points = [self._metric(name, value, now, round) for name, value in {**numbers, "round": round}.items()]
            self._client.log_batch(self._id, metrics=points)

    def end(self, summary: Mapping[str, Any] | None) -> None:
        for name in ("status", "error"):
            if summary is not None and summary[name] is not None:
                self._client.set_tag(self._id, name, summary[name])
        status = "KILLED" if summary is None else "FAILED" if summary["status"] == "failed" else "FINISHED"
        self._client.set_terminated(self._id, status)
