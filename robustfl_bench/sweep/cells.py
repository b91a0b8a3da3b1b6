"""A sweep is a list of cells, each the overrides of one run.

Most cells are known without Hydra: ``config.presets`` resolves one in a fraction of a millisecond, from the files of
``conf/`` as they are now, so there is no index that could be out of date. Hydra, which takes a fifth of a second,
composes those with overrides that ``presets`` does not read.
"""

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import hydra
from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.config import compose, request, resolvers, sources
from robustfl_bench.config.options import CONF
from robustfl_bench.config.request import Call
from robustfl_bench.engine.parts import GROUPS
from robustfl_bench.engine.settings import SCALARS, Execution
from robustfl_bench.experiment.plan import InfeasibleError, Outline, Plan, outline, plan
from robustfl_bench.store.folders import UNCOMPOSED, RunFolder

_READ_BY_PRESETS = {*GROUPS, *SCALARS, *compose.PRESETS, "hydra"}
"""The first words of the overrides that ``presets`` reads."""

_EXECUTION = {field.name for field in fields(Execution)}


@dataclass(frozen=True)
class Sweep:
    """The cells of a sweep, and all that a process on another host needs to compose them: it can be pickled."""

    cells: tuple[tuple[str, ...], ...]
    hydra_overrides: tuple[str, ...] = ()
    config_dirs: tuple[str, ...] = ()  # of --config-dir
    presets: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)  # of rerun= and reference=
    folder: str = field(default_factory=os.getcwd)
    results_dir: str = "results"  # of cells that cannot be composed
    wait: bool = True  # for runs of other processes; else they are left to these
    retry_failed: bool = True  # whether to repeat failures that exist when the sweep begins
    failed: Mapping[tuple[str, ...], int] | None = None
    """The failures that this sweep repeats: the time of each record, by cell. None: those found when it begins."""

    @cached_property
    def listed(self) -> "list[SweepCell]":
        """The cells as objects that cache what is known about them."""
        return [SweepCell(self, overrides) for overrides in self.cells]

    def only(self, cells: Sequence[tuple[str, ...]], failed: Mapping[tuple[str, ...], int]) -> "Sweep":
        """The sweep of some of the cells."""
        return replace(self, cells=tuple(cells), failed=dict(failed))

    def enter(self) -> None:
        """Prepare a new process to compose the cells: set the folder, Hydra and the stored configs."""
        os.chdir(self.folder)
        if self.folder not in sys.path:
            sys.path.append(self.folder)
        sources.STORED.update(self.presets)
        version.setbase("1.3")
        resolvers.register()
        search_path = create_config_search_path(str(CONF))
        for folder in self.config_dirs:  # as Hydra's own command does for --config-dir
            search_path.prepend("command-line", f"file://{folder}", SearchPathQuery(provider="schema"))
        Hydra.create_main_hydra2(task_name="robustfl-bench", config_search_path=search_path)


class SweepCell:
    """One run of a sweep."""

    def __init__(self, sweep: Sweep, overrides: tuple[str, ...]) -> None:
        self.sweep, self.overrides = sweep, overrides
        self._known: Outline | Plan | None = None
        self._folder: RunFolder | None = None

    def __str__(self) -> str:
        return shlex.join(map(request.as_typed, self.overrides))

    @property
    def asked(self) -> Outline | Plan:
        """The requested run, to compare with stored results. Raises the errors of composing the cell."""
        if (known := self.known) is None:
            try:
                known = self._known = plan(self._composed()[0])
            except InfeasibleError as error:
                known = self._known = error.plan
        return known

    @property
    def known(self) -> Outline | Plan | None:
        """The same without Hydra: None for a cell that only Hydra reads, until it has been composed."""
        if self._known is None and (resolved := self._resolved) is not None:
            with suppress(ConfigError):
                self._known = outline(resolved.config)
        return self._known

    @cached_property
    def _resolved(self) -> compose.Resolved | None:
        """The run from ``presets``; None if only Hydra can compose the cell, or it is invalid."""
        keys = {override.partition("=")[0].lstrip("+") for override in self.overrides}
        first = {key.partition("@")[0].partition("/")[0].partition(".")[0] for key in keys}
        if not first <= _READ_BY_PRESETS or any("hydra.searchpath" in word for word in self.sweep.hydra_overrides):
            return None
        try:
            return compose.resolve(self.overrides, (CONF, *map(Path, self.sweep.config_dirs)))
        except ConfigError:
            return None

    def compose(self) -> tuple[DictConfig | Mapping[str, Any], Call]:
        """The config of the run and its request. Raises Hydra's errors if it cannot be composed."""
        if self.known is None or (resolved := self._resolved) is None:
            return self._composed()
        call = request.call(resolved.choices, resolved.config, self.overrides, self.sweep.config_dirs)
        return resolved.config, call

    def _composed(self) -> tuple[DictConfig, Call]:
        """The same by Hydra."""
        overrides = [*self.sweep.hydra_overrides, *self.overrides]
        cfg = hydra.compose("config", overrides=overrides, return_hydra_config=True)
        HydraConfig.instance().set_config(cfg)  # for ${hydra:...}
        return request.parted(cfg)

    def folder(self) -> RunFolder:
        """Its run folder; that of a cell which cannot be composed is named by the hash of its overrides."""
        if self._folder is None or not self._folder.path.exists():
            try:
                asked = self.asked
            except Exception:
                return self._uncomposed
            self._folder = RunFolder(asked.settings.results_dir, "run", asked.run_id)
        return self._folder

    @property
    def _uncomposed(self) -> RunFolder:
        lasting = [word for word in self.overrides if word.partition("=")[0].lstrip("+") not in _EXECUTION]
        digest = hashlib.sha256(json.dumps(lasting).encode()).hexdigest()[:8]
        return RunFolder(self.sweep.results_dir, UNCOMPOSED, digest)

    def has_composed(self, planned: Plan) -> None:
        """Forget an earlier failure to compose the cell."""
        self._uncomposed.remove_failure()
        self._known = planned
