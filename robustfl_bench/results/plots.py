"""Figures of runs: metrics and the clients' weights against the round, any value against a setting, recall per class.

matplotlib is imported when one is drawn.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustfl_bench.errors import ConfigError
from robustfl_bench.results import records
from robustfl_bench.results.records import NoRuns, text
from robustfl_bench.results.styles import GREY, RED, Style, styles
from robustfl_bench.results.values import describe, measure
from robustfl_bench.results.where import check_name, keys, natural, order, require_comparable, where

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".pdf", ".svg")
BANDS = {"minmax": "the band spans lowest to highest", "sd": "the band is one sample sd to each side"}
_PANEL, _SINGLE_PANEL = (3.4, 2.6), (5.0, 3.4)  # inches
_MAX_ACROSS = 4
_MANY = 6  # lines: with more, their bands are drawn fainter
_ANNOTATED = 20  # classes: with more, numbers would not be legible


def rounds(
    runs: pd.DataFrame,
    value: str = "test_accuracy",
    lines: str = "aggregator",
    panels: str = "attack",
    conditions: Sequence[str] = (),
    band: str = "minmax",
) -> Figure:
    """A column of ``metrics.csv`` against the round: one line per value of ``lines``, its mean over seeds with a band.

    Draws the finished runs of ``records.load`` that meet the conditions and have the column. Raises ConfigError when
    they differ in anything else, NoRuns when there are none.
    """
    chosen = _select(runs, lines, panels, conditions)
    shown = describe(value, chosen)
    tables = records.all_metrics(chosen)
    curves = {
        folder: shown.factor * table.set_index("round")[value] for folder, table in tables.items() if value in table
    }
    chosen = chosen[chosen["folder"].isin(curves)]
    if not len(chosen):
        raise NoRuns(f"none of these runs has a readable metrics.csv{f' with {value}' if tables else ''}")
    panel_names, line_names = _labels(chosen)
    drawn = styles(line_names)
    size = _PANEL if len(panel_names) > 1 else _SINGLE_PANEL
    figure, axes = _panels(panel_names, *size, x_label="Round", legend=line_names)
    shade = 0.18 if len(line_names) <= _MANY else 0.08
    for axis, panel in zip(axes, panel_names, strict=True):
        here = chosen[chosen["panel"] == panel]
        for number, name in enumerate(line_names):
            group = here[here["line"] == name]
            if len(group):
                curve = _curve(curves[folder] for folder in group["folder"])
                _draw_curve(axis, name, curve, band, shade, drawn[name], number)
        axis.set_title(_title(panels, panel))
        if shown.unit == "%":
            axis.set_ylim(0, 100)
        axis.grid(color="#dddddd", linewidth=0.6)
    figure.supylabel("\n".join(textwrap.wrap(shown.of_a_round, 40)), fontsize=10)
    _heading(figure, _over_seeds(chosen, BANDS[band]) + _diverged(runs, lines, panels, conditions))
    _legend(figure, axes, title=lines)
    return figure


def sweep(
    runs: pd.DataFrame,
    x: str,
    value: str = "final_accuracy",
    lines: str = "aggregator",
    panels: str = "attack",
    conditions: Sequence[str] = (),
) -> Figure:
    """A value of finished runs against the setting ``x``: one line per value of ``lines``, mean over seeds.

    Whiskers span lowest to highest over seeds. ``x`` is to scale where all its values are numbers, else one step each.
    ``value`` is one that ``values.describe`` knows. Raises as ``rounds`` does.
    """
    described = describe(value, runs)
    chosen = _select(runs[runs[x].notna()] if x in runs else runs, lines, panels, conditions, x)
    measured = measure(described, chosen, runs)
    numbers = chosen["folder"].map(lambda folder: measured[folder].number)
    chosen = chosen.assign(at=chosen[x].map(text), number=numbers)
    if not chosen["number"].notna().any():
        reasons = {one.reason for one in measured.values() if one.reason}
        raise NoRuns(f"none of these runs has a {value}: {'; '.join(sorted(reasons)) or 'all diverged'}")
    ticks = sorted(set(chosen["at"]), key=natural)
    places = _places_on_axis(ticks)
    panel_names, line_names = _labels(chosen)
    drawn = styles(line_names)
    size = _PANEL if len(panel_names) > 1 else _SINGLE_PANEL
    figure, axes = _panels(panel_names, *size, x_label=x, legend=line_names)
    for axis, panel in zip(axes, panel_names, strict=True):
        for name in line_names:
            here = chosen[(chosen["panel"] == panel) & (chosen["line"] == name)]
            if not len(here):
                continue
            spread = here.groupby("at")["number"].agg(["mean", "min", "max"])
            spread = spread.loc[[tick for tick in ticks if tick in spread.index]]
            colour, marker, line = drawn[name]
            axis.errorbar(
                [places[tick] for tick in spread.index], spread["mean"],
                [spread["mean"] - spread["min"], spread["max"] - spread["mean"]],
                color=colour, marker=marker, linestyle=line, label=name, linewidth=1.4, markersize=5, capsize=2,
            )  # fmt: skip
        if not _to_scale(ticks):
            axis.set_xticks(range(len(ticks)), ticks)
        if described.unit == "%":
            axis.set_ylim(0, 100)
        axis.set_title(_title(panels, panel))
        axis.grid(color="#dddddd", linewidth=0.6)
    figure.supylabel("\n".join(textwrap.wrap(f"{described.title} {described.heading}", 40)), fontsize=9)
    spread_told = _over_seeds(chosen, "whiskers span lowest to highest")
    _heading(figure, spread_told + _diverged(runs, lines, panels, conditions))
    _legend(figure, axes, title=lines)
    return figure


def _to_scale(ticks: Sequence[str]) -> bool:
    """Whether values of a setting, as text, are all finite numbers."""
    try:
        return all(math.isfinite(float(tick)) for tick in ticks)
    except ValueError:
        return False


def _places_on_axis(ticks: Sequence[str]) -> dict[str, float]:
    """Where on the axis each value of a setting is drawn."""
    return {tick: float(tick) if _to_scale(ticks) else float(number) for number, tick in enumerate(ticks)}


def recall(
    runs: pd.DataFrame, lines: str = "aggregator", panels: str = "attack", conditions: Sequence[str] = ()
) -> Figure:
    """Recall per class [%] after the last round, mean over seeds: one row per value of ``lines``, classes across.

    Grey: the class has no test sample. Raises as ``rounds`` does.
    """
    import numpy as np

    chosen = _select(runs, lines, panels, conditions)
    chosen = chosen[chosen["recall"].map(lambda values: isinstance(values, list))]
    if not len(chosen):
        raise NoRuns("none of these runs records a recall per class")
    panel_names, line_names = _labels(chosen)
    classes = max(map(len, chosen["recall"]))
    width, height = 1.6 + 0.3 * min(classes, _ANNOTATED), 0.9 + 0.24 * len(line_names)
    figure, axes = _panels(panel_names, width, height, x_label="Class")
    for axis, panel in zip(axes, panel_names, strict=True):
        here = chosen[chosen["panel"] == panel]
        shares = np.full((len(line_names), classes), np.nan)
        for row, name in enumerate(line_names):
            values = here.loc[here["line"] == name, "recall"]
            if len(values):
                shares[row] = 100 * np.mean(np.asarray(list(values), dtype=float), axis=0)
        image = _draw_shares(axis, shares)
        axis.set_yticks(range(len(line_names)), line_names)
        axis.set_title(_title(panels, panel))
    figure.supylabel(lines, fontsize=10)
    _heading(figure, _over_seeds(chosen) + _diverged(runs, lines, panels, conditions))
    figure.colorbar(image, ax=axes, label="Recall [%]", aspect=30, pad=0.01)
    return figure


def weights(runs: pd.DataFrame, panels: str = "aggregator", conditions: Sequence[str] = ()) -> Figure:
    """What every client counted for against the round, Byzantine ones dashed: one run in each panel.

    Clients are named while there are few. Raises as ``accuracy`` does, and ConfigError for several runs in a panel.
    """
    from matplotlib import colormaps

    chosen = _finished(runs, conditions, panels)
    chosen = chosen.assign(panel=chosen[panels].map(text), line="")
    panel_names, _ = _labels(chosen)
    tables = {}
    for panel in panel_names:
        folders = list(chosen.loc[chosen["panel"] == panel, "folder"])
        if len(folders) > 1:
            raise ConfigError(f"{_title(panels, panel)} has {len(folders)} runs; choose one, as by --where seed=0")
        try:
            tables[panel] = records.weights(folders[0])
        except records.Damaged as error:
            raise NoRuns(f"{Path(folders[0]).name} has no weights of clients: {error}") from error
    clients = [list(table.columns[1:]) for table in tables.values()]
    few = max(map(len, clients)) <= _ANNOTATED
    legend = sorted({name for names in clients for name in names}, key=_by_number) if few else ["honest", "Byzantine"]
    size = _PANEL if len(panel_names) > 1 else _SINGLE_PANEL
    figure, axes = _panels(panel_names, *size, x_label="Round", legend=legend)
    for axis, (panel, table) in zip(axes, tables.items(), strict=True):
        for number, name in enumerate(table.columns[1:]):
            seen, byzantine = table[["round", name]].dropna(), name.startswith("byzantine")
            colour = RED if byzantine else colormaps["viridis"](0.85 * number / len(table.columns)) if few else GREY
            label = name if few else "Byzantine" if byzantine else "honest"
            axis.plot(seen["round"], seen[name], color=colour, linestyle="--" if byzantine else "-", label=label,
                      linewidth=1.2 if few else 0.5)  # fmt: skip
        axis.set_title(_title(panels, panel))
        axis.grid(color="#dddddd", linewidth=0.6)
    axes[0].set_ylim(bottom=0)
    figure.supylabel("Weight of a client", fontsize=10)
    _heading(figure, _over_seeds(chosen))
    _legend(figure, axes, title="clients", key=_by_number if few else order)
    return figure


def _by_number(name: str) -> int:
    return int(name.rsplit("_", 1)[-1])


def save(figure: Figure, output: str | Path, option: str = "--output") -> Path:
    """Write the figure in the format of the name's suffix. Raises ConfigError when that cannot be done; ``option`` is
    what gave the name."""
    path = Path(output)
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"{option} must end in {', '.join(SUFFIXES)}, got {str(output)!r}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=200)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _select(runs: pd.DataFrame, lines: str, panels: str, conditions: Sequence[str], *x: str) -> pd.DataFrame:
    """The finished runs, comparable but for the setting ``x``, with their ``line`` and ``panel`` labels."""
    chosen = _finished(runs, conditions, lines, panels, *x)
    require_comparable(chosen, (lines, panels, *x))
    return chosen.assign(line=chosen[lines].map(text), panel=chosen[panels].map(text))


def _finished(runs: pd.DataFrame, conditions: Sequence[str], *settings: str) -> pd.DataFrame:
    """The finished runs that meet the conditions; the settings must be known."""
    for name in settings:
        check_name(name, keys(runs), "key")
    chosen = where(runs, conditions)
    chosen = chosen[chosen["state"] == "finished"]
    if not len(chosen):
        raise NoRuns("none of these runs is finished; robustfl-results status shows how far they are")
    return chosen


def _diverged(runs: pd.DataFrame, lines: str, panels: str, conditions: Sequence[str]) -> str:
    """Which of the runs are not drawn as their models diverged, for the heading."""
    chosen = where(runs, conditions)
    gone = chosen[chosen["state"] == "diverged"]
    names = (gone[lines].map(text) + " / " + gone[panels].map(text)).value_counts().sort_index()
    return f"; diverged: {', '.join(f'{name} ({count})' for name, count in names.items())}" if len(gone) else ""


def _labels(chosen: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Panels and lines, in order."""
    return sorted(set(chosen["panel"]), key=order), sorted(set(chosen["line"]), key=order)


def _curve(columns: Iterable[pd.Series[float]]) -> pd.DataFrame:
    """Mean, lowest, highest and sd over runs, by round."""
    import pandas as pd

    return pd.concat(list(columns)).groupby(level=0).agg(["mean", "min", "max", "std"])


def _draw_curve(axis: Axes, name: str, curve: pd.DataFrame, band: str, shade: float, style: Style, number: int) -> None:
    colour, marker, line = style
    every = max(1, len(curve) // 6)
    axis.plot(
        curve.index, curve["mean"], color=colour, marker=marker, linestyle=line, label=name, linewidth=1.4,
        markersize=5, markevery=(number % every, every),  # shifted, so that lines that agree still show all markers
    )  # fmt: skip
    if curve["std"].notna().any():
        spread = curve["std"].fillna(0)
        low = curve["min"] if band == "minmax" else curve["mean"] - spread
        high = curve["max"] if band == "minmax" else curve["mean"] + spread
        axis.fill_between(curve.index, low, high, color=colour, alpha=shade, linewidth=0)


def _draw_shares(axis: Axes, shares: Any) -> Any:
    """A heat map of percents with its numbers; in cividis lightness grows with the value, in colour as in grey."""
    from matplotlib import colormaps

    image = axis.imshow(shares, cmap=colormaps["cividis"].with_extremes(bad="#bbbbbb"), vmin=0, vmax=100, aspect="auto")
    classes = shares.shape[1]
    if classes <= _ANNOTATED:
        axis.set_xticks(range(classes))
        for (row, column), share in ((place, shares[place]) for place in _places(shares)):
            if not math.isnan(share):
                ink = "black" if share > 55 else "white"
                axis.text(column, row, f"{share:.0f}", ha="center", va="center", fontsize=7, color=ink)
    return image


def _places(shares: Any) -> Iterable[tuple[int, int]]:
    return ((row, column) for row in range(shares.shape[0]) for column in range(shares.shape[1]))


def _panels(
    names: Sequence[str], width: float, height: float, x_label: str, legend: Sequence[str] = ()
) -> tuple[Figure, list[Axes]]:
    """A figure with one panel per name, up to four across, with room for a legend below; sizes in inches."""
    from matplotlib.figure import Figure

    across = min(_MAX_ACROSS, len(names))
    down = math.ceil(len(names) / across)
    legend_rows = math.ceil(len(legend) / _legend_columns(width * across)) + 1 if legend else 0
    figure = Figure(figsize=(width * across + 0.4, height * down + 0.6 + 0.2 * legend_rows), layout="constrained")
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for number, axis in enumerate(grid):
        if number >= len(names):
            axis.remove()
        elif number + across >= len(names):  # nothing below it
            axis.set_xlabel(x_label)
            axis.tick_params(labelbottom=True)
    return figure, list(grid[: len(names)])


def _heading(figure: Figure, words: str) -> None:
    """A heading broken into lines that fit the figure."""
    letters = int(13 * figure.get_size_inches()[0])
    figure.suptitle("\n".join(textwrap.wrap(words, letters)), fontsize=9)


def _legend_columns(width: float) -> int:
    return max(2, int(width / 1.4))


def _legend(figure: Figure, axes: Sequence[Axes], title: str, key: Callable[[str], Any] = order) -> None:
    """One legend for all panels, outside of them, so that nothing is covered or cut off."""
    entries: dict[str, Any] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        entries |= {label: handle for label, handle in zip(labels, handles, strict=True) if label not in entries}
    names = sorted(entries, key=key)
    columns = _legend_columns(float(figure.get_size_inches()[0]) - 0.4)
    figure.legend(
        [entries[name] for name in names], names, loc="outside lower center", ncols=columns, title=title,
        frameon=False, fontsize=8, title_fontsize=8,
    )  # fmt: skip


def _title(key: str, label: str) -> str:
    return f"{key}: {label}"


def _over_seeds(chosen: pd.DataFrame, spread: str = "") -> str:
    """What is drawn over how many seeds, and of which data."""
    counts = sorted(set(chosen.groupby(["panel", "line"])["seed"].nunique()))
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    seeds = f"{number} seed{'s' * (counts[-1] > 1)}"
    data = [f"{key}={text(chosen[key].iloc[0])}" for key in ("dataset", "scale") if _constant(chosen, key)]
    mean = f"mean over {seeds}" + (f", {spread}" if spread else "") if counts[-1] > 1 else seeds
    return "; ".join([*data, mean])


def _constant(chosen: pd.DataFrame, key: str) -> bool:
    return key in chosen and bool(chosen[key].notna().all()) and chosen[key].map(text).nunique() == 1
