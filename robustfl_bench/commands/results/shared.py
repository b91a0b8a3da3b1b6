"""Arguments that several verbs of ``robustfl-results`` take: which runs are read, and the format of a picture."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from robustfl_bench.base.console import Parser, completed
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.read.pages.pictures.canvas import WIDTHS, Frame
from robustfl_bench.read.runs import archive, records
from robustfl_bench.runner.config import options
from robustfl_bench.runner.config.completion import overrides

if TYPE_CHECKING:
    import pandas as pd

RESULTS = "results"
"""The usual results folder."""


def add_folder(parser: Parser) -> None:
    """The argument ``--results-dir``."""
    parser.add_argument("--results-dir", metavar="DIR", help=f"the results folder, which contains runs/ ({RESULTS})")


def add_runs(parser: Parser) -> None:
    """The arguments ``--from`` and ``--results-dir``."""
    parser.add_argument(
        "--from", action="append", default=[], metavar="FILE.csv", dest="archives",
        help="read runs from a file of export --summary, repeatable; --results-dir adds the runs of a folder",
    )  # fmt: skip
    parser.add_argument(
        "--unsealed",
        action="store_true",
        help="read also files without seals, or with older ones that leave the names of columns open",
    )
    add_folder(parser)


def add_conditions(parser: Parser) -> None:
    """The argument ``--where``."""
    condition = parser.add_argument(
        "--where", action="append", default=[], metavar="KEY=VALUE",
        help="use only these runs, repeatable: dataset=mnist, aggregator.num_selected=3, attack=none,ipm",
    )  # fmt: skip
    completed(condition, overrides)


def add_labels(parser: Parser) -> None:
    """The argument of ``labels``."""
    parser.add_argument(
        "--labels", action="append", default=[], metavar="NAME=WORDS",
        help='other words for a name in Markdown, HTML, LaTeX and pictures, repeatable: boba=Ours, "x=Share of '
        'attackers", "y=Accuracy [%%]"; or a YAML file with NAME: WORDS',
    )  # fmt: skip


def labels(arguments: Namespace) -> dict[str, str]:
    """The words for names, of which a later one replaces an earlier one. Raises ConfigError."""
    words: dict[str, str] = {}
    for label in arguments.labels:
        name, equals, named = label.partition("=")
        if equals:
            words[name] = named
        elif label.endswith((".yaml", ".yml")):
            content = options.read(Path(label), f"--labels: no file {label}")
            if not isinstance(content, dict):
                raise ConfigError(f"{label} must hold NAME: WORDS, got {content!r}")
            words |= {str(key): str(value) for key, value in content.items()}
        else:
            raise ConfigError(f"--labels takes NAME=WORDS or a YAML file, got {label!r}")
    return words


def add_look(parser: Parser) -> None:
    """The arguments of ``frame`` that all pictures take."""
    parser.add_argument(
        "--width", choices=WIDTHS, default="", help="width in a paper: 3.3 or 6.9 inches (depends on the panels)"
    )
    parser.add_argument("--title", metavar="WORDS", help="title of the picture")
    parser.add_argument("--bare", action="store_true", help="no title: a paper has its caption")
    add_labels(parser)


def add_frame(parser: Parser) -> None:
    """The arguments of ``frame``."""
    add_look(parser)
    parser.add_argument("--ylim", metavar="LOW,HIGH", help="limits of the vertical axis")


def frame(arguments: Namespace) -> Frame:
    """The format of a picture. Raises ConfigError."""
    limits = None
    if getattr(arguments, "ylim", None) is not None:
        try:
            low, high = map(float, arguments.ylim.split(","))
        except ValueError:
            low, high = math.nan, math.nan
        if not -math.inf < low < high < math.inf:
            raise ConfigError(f"--ylim takes two numbers, LOW,HIGH, got {arguments.ylim!r}")
        limits = low, high
    title = "" if arguments.bare else arguments.title
    return Frame(arguments.width, title, labels(arguments), limits)


def load(arguments: Namespace) -> pd.DataFrame:
    """The runs of the named folder and files, by default those of the usual folder."""
    kept = [archive.read(path, arguments.unsealed) for path in getattr(arguments, "archives", [])]
    if kept and arguments.results_dir is None:
        return archive.join(kept)
    folder = records.load(folder_of(arguments))
    return archive.join([folder, *kept]) if kept else folder


def load_any(arguments: Namespace, of_arena: bool = False, folders: Collection[str] = ()) -> pd.DataFrame:
    """As ``load``; by default the runs of the usual folder, if there is one, and the runs that come with the package:
    those of papers, or those of the arena; see ``archive.with_kept``.
    """
    if arguments.results_dir is not None or arguments.archives:
        return load(arguments)
    return archive.with_kept(RESULTS, of_arena, folders)


def folder_of(arguments: Namespace) -> str:
    """The results folder."""
    return arguments.results_dir or RESULTS
