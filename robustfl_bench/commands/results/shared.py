"""Arguments that several verbs of ``robustfl-results`` take: which runs are read, and the format of a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.verb import Argument, override
from robustfl_bench.read.pages.pictures.canvas import WIDTHS, Frame
from robustfl_bench.runner.config import options

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
            words[name] = value
        elif label.endswith((".yaml", ".yml")):
            content = options.read(Path(label), f"--labels: no file {label}")
            if not isinstance(content, dict):
                raise ConfigError(f"{label} must hold NAME: WORDS, got {content!r}")
            words |= {str(key): str(word) for key, word in content.items()}
        else:
            raise ConfigError(f"--labels takes NAME=WORDS or a YAML file, got {label!r}")
    return words
