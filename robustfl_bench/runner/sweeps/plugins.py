"""The sweeper and launchers of this package as Hydra plugins.

The sweeper composes no cell: that is left to the processes that take them. A launcher starts such processes, here
(``in_process``), beside this process (``processes``), or elsewhere, see ``robustfl_bench.runner.sweeps``. Hydra takes
launchers only from its own package of plugins; ``Outside`` is the one that leaves the start to a class of the user.
"""

import itertools
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from robustfl_bench.base.console import note
from robustfl_bench.base.errors import ConfigError

if TYPE_CHECKING:
    from robustfl_bench.runner.sweeps.cells import Sweep
    from robustfl_bench.runner.sweeps.ends import Outcome


PACKAGE = "hydra_plugins.robustfl_bench"
"""The name of this module for Hydra, which takes plugins only from the package ``hydra_plugins``."""


class Cells(Sweeper):
    """All combinations of the values of a sweep, by Hydra's grammar."""

    __module__ = PACKAGE

    def __init__(self, max_batch_size: int | None = None, params: Mapping[str, str] | None = None) -> None:
        self._params = params or {}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Make the launcher."""
        self._parser = OverridesParser.create(config_loader=hydra_context.config_loader)
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Launch all cells; raises Incomplete unless each of them has its result."""
        from robustfl_bench.runner.sweeps.launch import check_complete

        by_presets = [f"{key}={value}" for key, value in self._params.items()]
        overrides = self._parser.parse_overrides([*by_presets, *arguments])
        axes = {override.get_key_element(): _words(override) for override in overrides}
        cells = list(map(list, itertools.product(*axes.values())))
        returns = self._launcher.launch(cells, initial_job_idx=0)
        check_complete(returns)
        return [returns]


def _words(override: Override) -> list[str]:
    """The overrides of an axis of a sweep, one for each value."""
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if not override.is_discrete_sweep():
        raise ConfigError(f"{override.input_line}: hydra/sweeper=cells needs values that it can list")
    return [f"{override.get_key_element()}={_plain(value)}" for value in override.sweep_string_iterator()]


def _plain(value: str) -> str:
    """A value without Hydra's escape of the colon in ``my_module:MyRule``, which needs none."""
    return value if {"'", '"'} & {*value} else value.replace("\\:", ":")


class TakersLauncher(Launcher):
    """A launcher whose processes take the cells of a sweep; ``place`` says where these processes are."""

    config: DictConfig

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Store the request for the sweep."""
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Complete all cells; a cell without a result is a failed job."""
        from robustfl_bench.runner.sweeps.launch import launch

        if self.config.hydra.sweeper._target_ != f"{PACKAGE}.Cells":  # others write there
            Path(self.config.hydra.sweep.dir).mkdir(parents=True, exist_ok=True)
        return launch(self.config.hydra, job_overrides, self.place)

    @abstractmethod
    def place(self, sweep: "Sweep") -> "Outcome":
        """Start the processes that take the cells, and wait for them."""


class InThisProcess(TakersLauncher):
    """This process takes all cells."""

    __module__ = PACKAGE

    def place(self, sweep: "Sweep") -> "Outcome":
        """Take them."""
        from robustfl_bench.runner.sweeps.take import take

        return take(sweep, begins=True)


class Workers(TakersLauncher):
    """``n_jobs`` processes on this machine take the cells; -1: one for each core, or ``runs_at_once`` for each GPU."""

    __module__ = PACKAGE

    def __init__(self, n_jobs: int = -1, runs_at_once: int = 1) -> None:
        self.n_jobs, self.runs_at_once = n_jobs, runs_at_once

    def place(self, sweep: "Sweep") -> "Outcome":
        """Answer what is stored, and start workers for the rest."""
        from robustfl_bench.runner.sweeps.workers import take_with_workers

        return take_with_workers(sweep, self.n_jobs, self.runs_at_once)


class Joblib(Workers):
    """``joblib``, the old name of ``processes``."""

    __module__ = PACKAGE

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Say the new name."""
        note("hydra/launcher=joblib is now hydra/launcher=processes; the next version knows only the new name")
        super().setup(hydra_context=hydra_context, task_function=task_function, config=config)


class Slurm(TakersLauncher):
    """Jobs of a Slurm cluster take the cells; the options are those of ``sweeps.slurm.Jobs``."""

    __module__ = PACKAGE

    def __init__(self, **options: Any) -> None:
        self.options = options

    def place(self, sweep: "Sweep") -> "Outcome":
        """Answer what is stored, submit jobs for the rest, and follow them."""
        from robustfl_bench.runner.sweeps.slurm import Jobs, take_with_jobs

        return take_with_jobs(sweep, Jobs(**self.options))


class Ray(TakersLauncher):
    """Tasks of a Ray cluster take the cells; the options are those of ``sweeps.ray.Tasks``."""

    __module__ = PACKAGE

    def __init__(self, **options: Any) -> None:
        self.options = options

    def place(self, sweep: "Sweep") -> "Outcome":
        """Answer what is stored, start tasks for the rest, and follow them."""
        from robustfl_bench.runner.sweeps.ray import Tasks, take_with_tasks

        return take_with_tasks(sweep, Tasks(**self.options))


class Outside(TakersLauncher):
    """A class of the user starts processes that take the cells; ``class`` is its dotted name, the other options are its
    fields. Its method ``place(sweep)`` returns when these processes have ended."""

    __module__ = PACKAGE

    def __init__(self, **options: Any) -> None:
        self.options = OmegaConf.to_container(OmegaConf.create(options))

    def place(self, sweep: "Sweep") -> "Outcome":
        """Answer what is stored, and let the class complete the rest."""
        from robustfl_bench.runner.sweeps.outside import take_with_class

        return take_with_class(sweep, self.options)


def register() -> None:
    """Register the plugins with Hydra, for the names in ``conf/hydra``. Only the commands of this package call this."""
    _bear_name()
    for plugin in (Cells, InThisProcess, Workers, Joblib, Slurm, Ray, Outside):
        Plugins.instance().register(plugin)


def _bear_name() -> None:
    """Make this module known as PACKAGE; ``hydra_plugins`` is there only if another plugin is installed."""
    above, _, name = PACKAGE.partition(".")
    try:
        package = import_module(above)
    except ModuleNotFoundError:
        package = sys.modules[above] = ModuleType(above)
        package.__path__ = []
    sys.modules[PACKAGE] = sys.modules[__name__]
    setattr(package, name, sys.modules[__name__])
