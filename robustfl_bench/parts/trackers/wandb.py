"""Weights & Biases (https://docs.wandb.ai): one W&B run for each run, of the same id."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from robustfl_bench.base.errors import check_package
from robustfl_bench.parts.trackers.base import Tracked, Tracker, Tracking


@dataclass(frozen=True)
class WandB(Tracker):
    """A run of the W&B project ``project``. Other settings come from the environment: WANDB_ENTITY, WANDB_MODE=offline,
    ...

    Files lie under ``wandb`` in the run folder. A run that resumes continues the W&B run of its id, where W&B ignores
    rounds that it already has; a run that starts again replaces it.
    """

    project: str = "robustfl-bench"
    """the W&B project; the account is WANDB_ENTITY, or the default of the login"""

    def check(self) -> None:
        """The package must be installed."""
        check_package("wandb")

    def begin(self, run: Tracked) -> Tracking:
        return _Run(self.project, run)


class _Run:
    def __init__(self, project: str, run: Tracked) -> None:
        import wandb

        self._run = wandb.init(
            project=project,
            id=run.run_id,
            name=run.name,
            config=dict(run.config),
            dir=str(run.folder),
            resume="allow" if run.done else None,
            reinit="create_new",  # other W&B runs of the process are left alone
            settings=wandb.Settings(console="off"),
        )

    def record(self, round: int, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=round)

    def end(self, summary: Mapping[str, Any] | None) -> None:
        self._run.summary.update(dict(summary or {}))
        self._run.finish(exit_code=0 if summary is not None and summary["error"] is None else 1)
