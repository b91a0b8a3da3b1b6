"""From the words of a command line to the config of a run and its call."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config import compose, options
from robustfl_bench.runner.config.beyond import NOTHING, ForHydra


@dataclass(frozen=True)
class Call:
    """How a run was asked for: the chosen option of each group, the overrides, and the program before them."""

    choices: Mapping[str, str] = field(default_factory=dict)
    overrides: Sequence[str] = ()
    program: Sequence[str] = ("robustfl-bench",)

    @property
    def command(self) -> str:
        """The command, quoted for a shell."""
        return shlex.join([*self.program, *self.overrides])


def composed(
    overrides: Sequence[str], config_dir: str | Path | None = None, hydra: ForHydra = NOTHING
) -> tuple[Mapping[str, Any], Call]:
    """The config and the call of ``robustfl-bench OVERRIDES``. Raises ConfigError, also for several runs."""
    first, *others = compose.sweep(overrides, options.search(config_dir), hydra)
    if others:
        keys = [word.partition("=")[0] for word, last in zip(first, others[-1], strict=True) if word != last]
        raise ConfigError(
            f"this sweeps {', '.join(keys)}: {1 + len(others)} runs; add -m to make them all, or set these for one run"
        )
    return of_cell(first, config_dir, hydra)


def of_cell(
    overrides: Sequence[str], config_dir: str | Path | None = None, hydra: ForHydra = NOTHING
) -> tuple[Mapping[str, Any], Call]:
    """The config and the call of one cell of a sweep, in which nothing is swept any more. Raises ConfigError."""
    search = options.search(config_dir)
    resolved = compose.resolve(overrides, search, hydra=hydra)
    return resolved.config, Call(resolved.choices, resolved.overrides, [*program(search), *hydra.program])


def program(search: options.Search) -> list[str]:
    """The program of a call, with the folders of the user's options."""
    return ["robustfl-bench", *(word for folder in search[1:] for word in ("--config-dir", str(folder)))]
