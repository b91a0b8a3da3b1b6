"""Pictures of runs on axes of the caller: accuracy against the round, heat maps, recall per class.

Each function takes the table of ``sweep`` or ``results``, draws on ``ax``, or on new axes, and returns the axes. Runs
that differ in more than the seed, and what is drawn, raise ConfigError; ``where`` narrows them: ``where="attack=ipm"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.late import pd
from robustfl_bench.read.pages import plots
from robustfl_bench.read.pages.pictures import curves
from robustfl_bench.read.pages.pictures import heat as heat_maps
from robustfl_bench.read.pages.pictures.canvas import Axes
from robustfl_bench.read.pages.pictures.curves import Curves
from robustfl_bench.read.runs.records import text
from robustfl_bench.read.runs.values import describe, of_column
from robustfl_bench.read.runs.where import where as meeting
from robustfl_bench.train.parts import GROUPS

if TYPE_CHECKING:
    from robustfl_bench.doors.api.result import Result

Conditions = str | Sequence[str]


def accuracy(
    runs: pd.DataFrame,
    ax: Axes | None = None,
    *,
    lines: str | Sequence[str] | None = None,
    value: str = "test_accuracy",
    band: str = "minmax",
    where: Conditions = (),
) -> Axes:
    """Test accuracy, or another column of metrics.csv, against the round: mean over seeds with a band.

    >>> rb.plot.accuracy(rb.sweep(aggregator=["krum", "average"], attack="ipm", seed=range(3)))

    ``lines`` are the settings with a line for each of their values, ``"aggregator,attack"`` or a list; by default the
    config groups that differ among the runs. The ``band`` is from lowest to highest (``minmax``), or a sample sd
    (``sd``) or a standard error (``se``) to each side.
    """
    if band not in plots.BANDS:
        raise ConfigError(f"band must be one of {', '.join(plots.BANDS)}, got {band!r}")
    _check(runs)
    lines = _axis(lines) or _differing(runs, where)
    chosen = plots.select(runs, lines, "", _listed(where))
    described = describe(value, chosen)
    axis = _axes(ax)
    curves.draw_on(
        axis,
        Curves(
            plots.curves_of_rounds(chosen, described, band), "Round", plots.labels_of([described], True), key=lines,
            dense=True, methods=plots.are_methods(lines), percent=plots.percents([described]),
        ),
    )  # fmt: skip
    return axis


def heat(
    runs: pd.DataFrame,
    ax: Axes | None = None,
    *,
    rows: str = "aggregator",
    columns: str = "attack",
    value: str = "final_accuracy",
    where: Conditions = (),
) -> Axes:
    """A value of finished runs by two settings, mean over seeds. Where the columns are attacks, the worst one of every
    row has a frame."""
    _check(runs)
    chosen = plots.select(runs, rows, "", _listed(where), columns)
    described = describe(value, runs)
    points = plots.curves_of_values(chosen, described, runs, "minmax")
    (panel,) = plots.matrices(points, described, columns)
    axis = _axes(ax)
    heat_maps.draw_on(axis, panel, plots.scale_of(points, described), columns, rows)
    return axis


def recall(
    runs: pd.DataFrame, ax: Axes | None = None, *, lines: str | Sequence[str] | None = None, where: Conditions = ()
) -> Axes:
    """Recall per class [%] after the last round, mean over seeds: one row per value of ``lines``, classes across."""
    _check(runs)
    lines = _axis(lines) or _differing(runs, where)
    chosen = plots.with_recall(plots.select(runs, lines, "", _listed(where)))
    (panel,) = plots.recalls(chosen)
    axis = _axes(ax)
    heat_maps.draw_on(axis, panel, plots.RECALL, "Class", lines)
    return axis


def of_result(result: Result, ax: Axes | None, value: str, **style: Any) -> Axes:
    """A column of a run's metrics against the round; see ``Result.plot``."""
    if value not in result.metrics:
        raise ConfigError(f"{result.name} has no {value}; it has {', '.join(result.metrics.columns)}")
    described, axis = of_column(value), _axes(ax)
    label = result.summary.get("choices", {}).get("aggregator", result.name)
    numbers = described.factor * result.metrics[value].astype(float)
    axis.plot(result.metrics["round"], numbers, **({"label": label} | style))
    axis.set_xlabel("Round")
    axis.set_ylabel(described.of_a_round)
    return axis


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _listed(where: Conditions) -> Sequence[str]:
    return [where] if isinstance(where, str) else where


def _axis(names: str | Sequence[str] | None) -> str:
    """The settings of an axis, joined with commas."""
    return names if isinstance(names, str) else ",".join(names or ())


def _check(runs: pd.DataFrame) -> None:
    """Raise ConfigError for what is no table of runs."""
    if not hasattr(runs, "columns"):
        raise ConfigError(f"this draws a table of runs, got a {type(runs).__name__}; a Result has a method plot")


def _differing(runs: pd.DataFrame, where: Conditions) -> str:
    """The config groups in which the runs differ, joined with commas; the rule if they differ in none."""
    chosen = meeting(runs, _listed(where))
    unlike = [group for group in GROUPS if group in chosen and chosen[group].map(text).nunique() > 1]
    return ",".join(sorted(unlike, key=lambda group: group != "aggregator")) or "aggregator"
