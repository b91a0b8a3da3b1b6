"""Pictures of the clients of a run: of a split, a bar for every client and class; of gossip, a graph for each run.

matplotlib is imported when it is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robustfl_bench.read.pages.pictures.canvas import WIDTHS, Axes, Figure, drawable, for_print, sheet
from robustfl_bench.read.pages.pictures.styles import BLUE, ORANGE
from robustfl_bench.runner.config.names import in_words
from robustfl_bench.runner.experiment.split import Neighbours, Split, shortened

_ROW, _LOWEST, _TALLEST = 0.17, 0.5, 4.6  # inches of a class, and of all classes together
_SLANTED = 0.4  # inches of clients' names
_NAMED = 10  # classes or clients at most whose names have room
_FULL, _WIDE = 0.9, 0.9  # height of the largest count and width of a bar, where the next class and client are 1 away


@for_print
def draw_split(split: Split) -> Figure:
    """The clients' sizes on top; below, a row for each class with a bar for each client, all to one scale.

    Byzantine clients have another colour, lighter in grey, and a triangle above it.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    classes = split.counts.shape[1]
    height = max(_LOWEST, min(_ROW * classes, _TALLEST)) if classes else 0
    named = 0 < len(split.clients) <= _NAMED
    figure = Figure(figsize=(WIDTHS["column"], 1.35 + height + _SLANTED * named), layout="constrained")
    if classes:
        top, below = figure.subplots(2, 1, sharex=True, height_ratios=[0.6, height])
        _rows(below, split)
        below.yaxis.set_major_locator(MaxNLocator(min(classes, 10), integer=True))
        if split.classes and classes <= _NAMED:
            below.set_yticks(range(classes), [drawable(shortened(name)) for name in split.classes])
    else:
        top = below = figure.subplots()
    byzantine = _byzantine(split)
    top.bar(np.arange(len(split.sizes)), split.sizes, width=_WIDE, color=_colours(byzantine), linewidth=0)
    top.set_ylabel("samples")
    top.yaxis.set_major_locator(MaxNLocator(2, integer=True))
    if byzantine.any():
        where = np.flatnonzero(byzantine)
        top.plot(where, np.full(len(where), 1.17 * split.sizes.max()), "v", color="black", markersize=2.5)
    top.set_ylim(0, 1.25 * split.sizes.max())
    top.set_title(drawable(in_words(split.title)))
    below.set_xlabel(f"client (a full row of a class: {split.counts.max()} samples)" if classes else "client")
    below.set_xlim(-0.5, len(split.sizes) - 0.5)
    below.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    if named:
        names = [drawable(shortened(name)) for name in split.clients]
        below.set_xticks(range(len(names)), names, rotation=30, ha="right")
    for axis in {top, below}:
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    figure.align_ylabels()
    _legend(figure, split, byzantine)
    return figure


def _rows(axis: Axes, split: Split) -> None:
    """The bars of every client and class, each class on a line of its own."""
    from matplotlib.collections import PolyCollection

    clients, classes = np.nonzero(split.counts)
    heights = _FULL * split.counts[clients, classes] / split.counts.max()
    left, right, foot = clients - _WIDE / 2, clients + _WIDE / 2, classes - 0.5
    corners = [(left, foot), (right, foot), (right, foot + heights), (left, foot + heights)]
    bars = np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)
    axis.add_collection(PolyCollection(list(bars), facecolors=_colours(_byzantine(split))[clients], linewidths=0))
    if split.counts.shape[1] <= 30:
        axis.hlines(np.arange(split.counts.shape[1]) - 0.5, -0.5, len(split.sizes) - 0.5, "#bbbbbb", linewidth=0.4)
    axis.set_ylim(-0.5, split.counts.shape[1] - 0.5)
    axis.set_ylabel("class")


def _legend(figure: Figure, split: Split, byzantine: np.ndarray) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[Line2D | Patch] = [Patch(color=BLUE, label="honest")]
    if byzantine.any():
        entries.append(Line2D([], [], color=ORANGE, linewidth=6, marker="v", markersize=3, label="Byzantine",
                              markerfacecolor="black", markeredgecolor="black"))  # fmt: skip
    if split.added:
        entries.append(Line2D([], [], linestyle="none", label=f"{split.added} Byzantine, without samples"))
    figure.legend(handles=entries, loc="outside lower center", ncols=3, frameon=False)


def _byzantine(split: Split) -> np.ndarray:
    """Which clients are Byzantine, (n,) bool."""
    return np.isin(np.arange(len(split.sizes)), sorted(split.byzantine))


def _colours(byzantine: np.ndarray) -> np.ndarray:
    """The colour of every client, (n,)."""
    return np.where(byzantine, ORANGE, BLUE)


# A picture of a graph of gossip, one column wide: the honest nodes and their links, attackers outside.


_STEPS = 300  # of the layout
_OUTSIDE, _EDGE = 1.35, 1.5  # distances of attackers and of the frame from the middle; honest nodes are within 1
_MOST_NAMES = 40  # nodes of which each has its number


@for_print
def draw_graphs(graphs: Sequence[Neighbours]) -> Figure:
    """A panel for each graph: honest nodes with dark links, attackers as triangles with light ones."""
    side = WIDTHS["column"] if len(graphs) == 1 else WIDTHS["page"] / len(graphs)
    figure = sheet(side * len(graphs), side + 0.5)
    for axis, graph in zip(figure.subplots(1, len(graphs), squeeze=False)[0], graphs, strict=True):
        _panel(axis, graph)
    _legend_of_nodes(figure, any(graph.byzantine for graph in graphs))
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
    if len(numbers) <= _MOST_NAMES:
        for (x, y), number in zip([*honest, *byzantine], numbers, strict=True):
            colour = "black" if number in neighbours.byzantine else "white"
            axis.text(x, y, str(number), color=colour, fontsize=4.5, ha="center", va="center", zorder=4)
    axis.set_title(drawable(in_words(neighbours.title)))
    axis.set(xlim=(-_EDGE, _EDGE), ylim=(-_EDGE, _EDGE), aspect="equal")
    axis.axis("off")


def _legend_of_nodes(figure: Figure, attacked: bool) -> None:
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
