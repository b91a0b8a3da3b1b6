"""From the words of a command line to the config of a run and its call, and from the config to the parts."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError, each_of
from robustfl_bench.runner.config import compose, identity, options, targets
from robustfl_bench.runner.config.beyond import NOTHING, ForHydra
from robustfl_bench.train.parts import FOLLOWING, GROUPS, Parts


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


def parts(config: Mapping[str, Any], composed: Mapping[str, Any]) -> Parts:
    """The parts of a run, with their options checked: those of ``config``, which defines it, and those of the whole
    ``composed`` one that follow it. Pre-aggregations have their names there. Raises one ConfigError with all that is
    wrong."""
    steps = {f"pre_aggregation.{name}": step for name, step in identity.named_steps(composed).items()}
    followers = {f"{group}.{name}": part for group in FOLLOWING for name, part in _several(composed[group]).items()}
    whole = {group: config[group] for group in GROUPS if group not in (*FOLLOWING, *["pre_aggregation"] * bool(steps))}
    built = each_of(whole | steps | followers, made)
    if steps:
        built["pre_aggregation"], *others = (built.pop(place) for place in steps)
        if others:
            from robustfl_bench.parts.pre_aggregations.chain import Chain  # here, as it imports torch

            built["pre_aggregation"] = Chain((built["pre_aggregation"], *others))
    for group in FOLLOWING:
        built[group] = tuple(built.pop(place) for place in followers if place.startswith(f"{group}."))
    return Parts(**built)


def made(place: str, content: Any) -> Any:
    """The object that the content of a config group, or of a ``place`` in it, describes. Raises ConfigError."""
    targets.check(place.partition(".")[0], content, place)
    try:
        return targets.build(content) if content else None
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


def _several(content: Any) -> Mapping[str, Any]:
    """The contents of a group that takes several options, by name; a single option needs no name."""
    alone = not isinstance(content, Mapping) or "_target_" in content
    return {"one": content} if alone and content else content or {}
