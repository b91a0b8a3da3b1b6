"""A picture of a graph of gossip, one column wide: the honest nodes and their links, attackers outside.

matplotlib is imported when it is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from robustfl_bench.read.pages.pictures.canvas import WIDTHS, drawable, for_print, sheet
from robustfl_bench.read.pages.pictures.styles import BLUE, ORANGE
from robustfl_bench.runner.config.names import in_words
from robustfl_bench.runner.experiment.neighbours import Neighbours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STEPS = 300  # of the layout
_OUTSIDE, _EDGE = 1.35, 1.5  # distances of attackers and of the frame from the middle; honest nodes are within 1
_NAMED = 40  # nodes of which each has its number


@for_print
def draw(graphs: Sequence[Neighbours]) -> Figure:
    """A panel for each graph: honest nodes with dark links, attackers as triangles with light ones."""
    side = WIDTHS["column"] if len(graphs) == 1 else WIDTHS["page"] / len(graphs)
    figure = sheet(side * len(graphs), side + 0.5)
    for axis, graph in zip(figure.subplots(1, len(graphs), squeeze=False)[0], graphs, strict=True):
        _panel(axis, graph)
    _legend(figure, any(graph.byzantine for graph in graphs))
    return figure


def _panel(axis: Axes, neighbours: Neighbours) -> None:
    from matplotlib.collections import LineCollection

    graph, honest = neighbours.graph, layout(neighbours.graph.honest)
    turns = 2 * np.pi * (np.arange(len(neighbours.byzantine)) + 0.5) / max(1, len(neighbours.byzantine))
    byzantine = _OUTSIDE * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    outer, inner = np.argwhere(graph.byzantine), np.argwhere(np.triu(graph.honest))
    light = np.stack([honest[outer[:, 0]], byzantine[outer[:, 1]]], axis=1)
    axis.add_collection(LineCollection(list(light), colors=ORANGE, linewidths=0.3, alpha=0.6, zorder=1))
    axis.add_collection(LineCollection(list(honest[inner]), colors="#555555", linewidths=0.7, zorder=2))
    axis.scatter(honest[:, 0], honest[:, 1], s=40, color=BLUE, linewidths=0, zorder=3)
    axis.scatter(byzantine[:, 0], byzantine[:, 1], s=40, color=ORANGE, marker="v", linewidths=0, zorder=3)
    numbers = [*neighbours.honest, *neighbours.byzantine]
    if len(numbers) <= _NAMED:
        for (x, y), number in zip([*honest, *byzantine], numbers, strict=True):
            colour = "black" if number in neighbours.byzantine else "white"
            axis.text(x, y, str(number), color=colour, fontsize=4.5, ha="center", va="center", zorder=4)
    axis.set_title(drawable(in_words(neighbours.title)))
    axis.set(xlim=(-_EDGE, _EDGE), ylim=(-_EDGE, _EDGE), aspect="equal")
    axis.axis("off")


def _legend(figure: Figure, attacked: bool) -> None:
    from matplotlib.lines import Line2D

    entries = [Line2D([], [], color="#555555", marker="o", markerfacecolor=BLUE, markeredgewidth=0, label="honest")]
    if attacked:
        entries.append(Line2D([], [], color=ORANGE, linewidth=0.5, marker="v", markeredgewidth=0, label="Byzantine"))
    figure.legend(handles=entries, loc="outside lower center", ncols=2, frameon=False)


def layout(links: np.ndarray) -> np.ndarray:
    """Places (n, 2) within the unit circle for the nodes of a graph (n, n) bool, neighbours close to each other.

    Nodes start on a circle, linked ones attract and all repel each other (Fruchterman and Reingold, 1991), in steps
    that shrink; nothing is random.
    """
    nodes = len(links)
    turns = 2 * np.pi * np.arange(nodes) / nodes
    places, apart = np.stack([np.cos(turns), np.sin(turns)], axis=1), 1 / np.sqrt(nodes)
    for step in np.linspace(0.1, 0.001, _STEPS):
        between = places[:, None] - places
        distances = np.sqrt((between**2).sum(axis=2)).clip(min=1e-3)
        force = apart**2 / distances**2 - links * distances / apart
        pushed = (between * force[:, :, None]).sum(axis=1)
        lengths = np.sqrt((pushed**2).sum(axis=1, keepdims=True)).clip(min=1e-9)
        places += pushed / lengths * np.minimum(lengths, step)
    places -= places.mean(axis=0)
    spread: np.ndarray = places / max(float(np.sqrt((places**2).sum(axis=1)).max()), 1e-9)
    return spread
