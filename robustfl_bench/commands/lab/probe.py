"""The command ``robustfl-bench probe``: the points of a figure that looks inside a round, measured and kept."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.late import pd
from robustfl_bench.commands.verb import Argument, command, override
from robustfl_bench.read.pages import figures
from robustfl_bench.read.runs.where import check_name
from robustfl_bench.read.tables.described import PaperFigure
from robustfl_bench.read.tables.described import figures as described
from robustfl_bench.runner.experiment.machine import processor

_PROBED = {name: figure for name, figure in described().items() if figure.draw in figures.PROBED}


def probe(
    figure: Annotated[str, Argument(", ".join(_PROBED), "PAPER/FIGURE")],
    overrides: Annotated[Sequence[str], override("override of all runs of the figure, such as scale=quick")] = (),
    *,
    output: Annotated[str | None, Argument("file for the points of the figure (PAPER_FIGURE.csv)", "FILE.csv")] = None,
) -> None:
    """Measure the points of a figure that looks inside a round."""
    check_name(figure, _PROBED, "figure")
    path = Path(output or f"{figure.replace('/', '_')}.csv")
    if path.suffix != ".csv":
        raise ConfigError(f"--output must end in .csv, got {str(path)!r}")
    measure(_PROBED[figure], overrides, path)
    print(f"{path}; to draw it: robustfl-results figure {figure} --from {path} --output FILE")


main = command(probe, "robustfl-bench probe")


def measure(figure: PaperFigure, given: Sequence[str], path: Path) -> None:
    """Write the points of a figure with overrides of its own. Raises ConfigError and DataError."""
    from robustfl_bench.lab.studies import probe  # here, as it imports torch

    table = pd.DataFrame(probe.KINDS[figure.draw](probe.runs(figure.preset, (*figure.changes, *given))))
    if "low" not in table:
        table = table.assign(low=table["mean"], high=table["mean"])
    heading = "; ".join(filter(None, (" ".join(given), processor())))
    figures.write(figure, given, figures.Points(table, heading), path)
