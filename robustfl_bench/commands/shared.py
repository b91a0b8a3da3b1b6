"""Arguments that several verbs of ``robustfl-results`` take: which runs are read, the formats of sheets, and the
format of a picture. Imports nothing heavy."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.late import pd
from robustfl_bench.commands.verb import Argument, override
from robustfl_bench.read.pages.pictures.canvas import WIDTHS, Frame
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.tables import sheets
from robustfl_bench.read.tables.described import YAML
from robustfl_bench.runner.config import options

RESULTS = "results"
"""The usual results folder."""

SheetFormat = Annotated[str, Argument(choices=tuple(sheets.FORMATS))]
ResultsFolder = Annotated[str | None, Argument(f"the results folder, which contains runs/ ({RESULTS})", "DIR")]


def check_results_dir(folder: str | None) -> None:
    """Raise ConfigError for an empty name, such as that of a variable of the shell that is not set."""
    if folder is not None and not folder.strip():
        raise ConfigError(f"--results-dir must name a folder, got {folder!r}; without the option it is {RESULTS}")


@dataclass(frozen=True, kw_only=True)
class RunSource:
    """The runs that a verb reads."""

    archives: Annotated[
        Sequence[str],
        Argument(
            "read runs from a file of export --summary, repeatable; --results-dir adds the runs of a folder",
            "FILE.csv",
            flags=("--from",),
        ),
    ] = ()
    unsealed: Annotated[
        bool, Argument("read also files without seals, or with older ones that leave the names of columns open")
    ] = False
    results_dir: ResultsFolder = None

    def __post_init__(self) -> None:
        check_results_dir(self.results_dir)

    @property
    def folder(self) -> str:
        """The results folder."""
        return self.results_dir or RESULTS

    def load(self) -> pd.DataFrame:
        """The runs of the named folder and files, by default those of the usual folder."""
        kept = [archive.read(path, self.unsealed) for path in self.archives]
        if kept and self.results_dir is None:
            return archive.join(kept)
        folder = records.load(self.folder)
        return archive.join([folder, *kept]) if kept else folder

    def load_any(self, of_arena: bool = False, folders: Collection[str] = ()) -> pd.DataFrame:
        """As ``load``; by default the runs of the usual folder, if there is one, and the runs that come with the
        package: those of papers, or those of the arena; see ``archive.with_kept``.
        """
        if self.results_dir is not None or self.archives:
            return self.load()
        return archive.with_kept(RESULTS, of_arena, folders)


Conditions = Annotated[
    Sequence[str],
    override("use only these runs, repeatable: dataset=mnist, aggregator.num_selected=3, attack=none,ipm", "KEY=VALUE"),
]
Labels = Annotated[
    Sequence[str],
    Argument(
        "other words for a name in Markdown, HTML, LaTeX and pictures, repeatable: boba=Ours, "
        '"x=Share of attackers", "y=Accuracy [%%]"; or a YAML file with NAME: WORDS',
        "NAME=WORDS",
    ),
]


@dataclass(frozen=True, kw_only=True)
class PictureLook:
    """The format of a picture."""

    width: Annotated[
        str,
        Argument(
            "width in a paper: 84 or 175 mm (84, unless the picture would be higher than a page)", choices=tuple(WIDTHS)
        ),
    ] = ""
    title: Annotated[str | None, Argument("title of the picture", "WORDS")] = None
    bare: Annotated[bool, Argument("no title: a paper has its caption")] = False
    labels: Labels = ()

    @property
    def frame(self) -> Frame:
        """The format for ``read.pages.pictures``. Raises ConfigError."""
        return Frame(self.width, "" if self.bare else self.title, named(self.labels), self._limits)

    @property
    def _limits(self) -> tuple[float, float] | None:
        return None


@dataclass(frozen=True, kw_only=True)
class PictureFormat(PictureLook):
    """The format of a picture with a vertical axis."""

    ylim: Annotated[str | None, Argument("limits of the vertical axis", "LOW,HIGH")] = None

    @property
    def _limits(self) -> tuple[float, float] | None:
        if self.ylim is None:
            return None
        try:
            low, high = map(float, self.ylim.split(","))
        except ValueError:
            low, high = math.nan, math.nan
        if not -math.inf < low < high < math.inf:
            raise ConfigError(f"--ylim takes two numbers, LOW,HIGH, got {self.ylim!r}")
        return low, high


def named(labels: Sequence[str]) -> dict[str, str]:
    """The words for names, of which a later one replaces an earlier one. Raises ConfigError."""
    words: dict[str, str] = {}
    for label in labels:
        name, equals, value = label.partition("=")
        if equals:
            words[name] = _word(label, name, value)
        elif label.endswith(YAML):
            content = options.read(Path(label), f"--labels: no file {label}")
            if not isinstance(content, dict):
                raise ConfigError(f"{label} must hold NAME: WORDS, got {content!r}")
            words |= {str(key): _word(label, key, word) for key, word in content.items()}
        else:
            raise ConfigError(f"--labels takes NAME=WORDS or a YAML file, got {label!r}")
    return words


def _word(label: str, name: object, word: object) -> str:
    """The words for a name, as text. Raises ConfigError, which names the ``label``, where there are none."""
    if not isinstance(word, str | bool | int | float) or not (text := str(word)).strip():
        raise ConfigError(f"--labels {label}: {name!s} needs words, got {word!r}")
    return text
