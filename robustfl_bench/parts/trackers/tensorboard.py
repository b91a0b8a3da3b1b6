"""TensorBoard (https://www.tensorflow.org/tensorboard): one event file in the run folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from robustfl_bench.base.errors import check_package
from robustfl_bench.parts.trackers.base import Tracked, Tracker, Tracking


@dataclass(frozen=True)
class TensorBoard(Tracker):
    """Scalars under ``tensorboard`` in the run folder, so that ``tensorboard --logdir results/runs`` shows all runs.

    A run that resumes tells TensorBoard to drop the later rounds that an interrupted attempt wrote.
    """

    def check(self) -> None:
        """TensorBoard must be installed; the writer itself comes with PyTorch."""
        check_package("tensorboard")

    def begin(self, run: Tracked) -> Tracking:
        return _Events(run)


class _Events:
    def __init__(self, run: Tracked) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(run.folder / "tensorboard"), purge_step=run.done + 1)
        self._round = run.done
        if not run.done:
            self._say("config", run.config)

    def record(self, round: int, numbers: Mapping[str, float]) -> None:
        self._round = round
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, round)

    def end(self, summary: Mapping[str, Any] | None) -> None:
        if summary is not None:
            self._say("summary", summary)
        self._writer.close()

    def _say(self, tag: str, content: Mapping[str, Any]) -> None:
        self._writer.add_text(tag, f"```\n{json.dumps(content, indent=1)}\n```", self._round)
