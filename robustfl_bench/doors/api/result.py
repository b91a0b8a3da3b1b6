"""The result of a run, as a notebook shows it."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.late import pd
from robustfl_bench.runner.experiment.summary import words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch import nn

_WIDTH, _HEIGHT, _EDGE = 220, 60, 3  # pixels of the curve in a notebook


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run: ``metrics``, with a row for each evaluated round; ``summary``, as in summary.json; its
    folder.

    ``summary["status"]`` is ``finished`` or ``diverged``. A model that diverged in its first round has no metrics.

        >>> import robustfl_bench as rb
        >>> result = rb.run(aggregator="krum", rounds=2)
        >>> result.name.startswith("digits-pathological-none-krum-s0-"), result.summary["status"]
        (True, 'finished')
        >>> bool(result.accuracy == result.metrics["test_accuracy"].iloc[-1])
        True
    """

    metrics: "pd.DataFrame"
    summary: Mapping[str, Any]
    path: Path

    @property
    def accuracy(self) -> float:
        """The test accuracy after the last round, from 0 to 1; nan if the model diverged or predicts no classes."""
        value = self.summary.get("final", {}).get("test_accuracy")
        return nan if value is None else float(value)

    @property
    def name(self) -> str:
        """The name of the run: data set, partition, attack, rule, seed and id."""
        return self.path.name

    @property
    def own_metrics(self) -> "pd.DataFrame":
        """The numbers of the metrics that were given as ``metrics``, one row for each evaluated round. Raises
        ConfigError if there were none."""
        from robustfl_bench.read.runs import records

        return records.own_metrics(self.path)

    @property
    def model(self) -> "nn.Module":
        """The trained network, of a run with ``save_weights=True``; of several models the first. Raises ConfigError if
        the run kept no weights, DataError if they were changed."""
        from robustfl_bench.runner.experiment import trained

        return trained.model(self.path)

    def save(self, path: str | Path) -> Path:
        """Write the trained weights to a file of safetensors, which ``init`` takes; returns its path. Raises as
        ``model`` does, and ConfigError where it cannot be written."""
        from robustfl_bench.runner.experiment import trained
        from robustfl_bench.runner.store.writing import write_output

        place = Path(path).expanduser()
        if place.suffix != ".safetensors":
            raise ConfigError(f"the weights are written as safetensors: name a .safetensors file, got {str(path)!r}")
        write_output(place, trained.weights(self.path))
        return place

    def plot(self, ax: "Axes | None" = None, value: str = "test_accuracy", **style: Any) -> "Axes":
        """Draw a column of ``metrics`` against the round, on given axes or new ones; returns the axes.

        Accuracies and recalls are drawn in percent. ``style`` is passed on to ``Axes.plot``; ``label`` is the rule.
        """
        from robustfl_bench.doors.api import plot

        return plot.of_result(self, ax, value, **style)

    def __repr__(self) -> str:
        return f"<Result {self.name}: {words(self.summary)}>"

    def _repr_html_(self) -> str:
        """The result, its curve of test accuracy, and the command and folder of the run."""
        chosen = self.summary.get("choices", {})
        about = [chosen.get(name, "none") for name in ("dataset", "partition", "attack", "aggregator")]
        rows = {
            "result": words(self.summary),
            "run": f"{', '.join(about)}; {self.summary.get('seconds', 0):.1f} s",
            "command": self.summary.get("command", ""),
            "folder": str(self.path),
        }
        lines = "".join(f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in rows.items())
        return f"<div><b>{escape(self.name)}</b>{self._curve()}<table>{lines}</table></div>"

    def _curve(self) -> str:
        """Test accuracy against the round as a small SVG from 0 to 100%; empty with fewer than two rounds."""
        if "test_accuracy" not in self.metrics or len(self.metrics) < 2:
            return ""
        rounds, values = (self.metrics[name].astype(float) for name in ("round", "test_accuracy"))
        x = _EDGE + (_WIDTH - 2 * _EDGE) * (rounds - rounds.iloc[0]) / (rounds.iloc[-1] - rounds.iloc[0])
        y = _EDGE + (_HEIGHT - 2 * _EDGE) * (1 - values)
        points = " ".join(f"{across:.1f},{down:.1f}" for across, down in zip(x, y, strict=True))
        return (
            f'<svg role="img" aria-label="test accuracy against the round" width="{_WIDTH}" height="{_HEIGHT}">'
            f'<rect width="100%" height="100%" fill="none" stroke="#999"/>'
            f'<polyline points="{points}" fill="none" stroke="#0072B2" stroke-width="1.5"/></svg>'
        )
