"""The plugins of robustfl_bench for Hydra, which finds them here: a sweeper, launchers, options and resolvers.

They serve every Hydra app of the environment, and nothing of ``robustfl_bench`` is imported before one uses them. The
sweeper composes no cell: that is left to the processes that take them. A launcher starts such processes, here
(``in_process``), beside this process (``processes``), or elsewhere; ``Outside`` leaves the start to a class of the
user.
"""

import itertools
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.launcher import Launcher
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

if TYPE_CHECKING:
    from robustfl_bench.runner.sweeps.cells import End, Sweep

PREFIX = "rb_"
"""What the names of our launchers and our sweeper begin with in the apps of others: ``hydra/launcher=rb_processes``."""

OPTIONS = {"hydra/launcher": ("in_process", "processes", "ray", "slurm"), "hydra/sweeper": ("cells",)}
"""Our launchers and our sweeper, by their groups."""

RESOLVERS = (
    "at_scale", "attacked", "chosen_rate", "in_variant", "rb.digest", "rb.rate", "rb.ratio", "rb.share", "rb.times",
    "swept_in",
)  # fmt: skip
"""The names of our resolvers. Their functions are imported when one is called."""


class Cells(Sweeper):
    """All combinations of the values of a sweep, by Hydra's grammar."""

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
        from robustfl_bench.runner.sweeps.launch import axis, check_complete

        by_presets = [f"{key}={value}" for key, value in self._params.items()]
        overrides = self._parser.parse_overrides([*by_presets, *arguments])
        axes = {override.get_key_element(): axis(override) for override in overrides}
        cells = list(map(list, itertools.product(*axes.values())))
        returns = self._launcher.launch(cells, initial_job_idx=0)
        check_complete(returns)
        return [returns]


class TakersLauncher(Launcher):
    """A launcher whose processes take the cells of a sweep; ``place`` says where these processes are."""

    config: DictConfig

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Store the request for the sweep."""
        self.config, self.context, self.task_function = config, hydra_context, task_function

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Complete all cells; a cell without a result is a failed job."""
        from robustfl_bench.runner.sweeps.launch import Launched, launch

        asked = Launched(self.config, self.context, self.task_function, job_overrides, initial_job_idx)
        return launch(asked, self.place)

    @abstractmethod
    def place(self, sweep: "Sweep") -> "list[End]":
        """Start the processes that take the cells, and wait for them."""


class InThisProcess(TakersLauncher):
    """This process takes all cells."""

    def place(self, sweep: "Sweep") -> "list[End]":
        """Take them."""
        from robustfl_bench.runner.sweeps.take import take

        return take(sweep, begins=True)


class Workers(TakersLauncher):
    """``n_jobs`` processes on this machine take the cells; -1: one for each core, or ``runs_at_once`` for each GPU."""

    def __init__(self, n_jobs: int = -1, runs_at_once: int = 1) -> None:
        self.n_jobs, self.runs_at_once = n_jobs, runs_at_once

    def place(self, sweep: "Sweep") -> "list[End]":
        """Answer what is stored, and start workers for the rest."""
        from robustfl_bench.runner.sweeps.workers import take_with_workers

        return take_with_workers(sweep, self.n_jobs, self.runs_at_once)


class Joblib(Workers):
    """``joblib``, the old name of ``processes``."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Say the new name."""
        from robustfl_bench.base.console import note

        note("hydra/launcher=joblib is now hydra/launcher=processes; the next version knows only the new name")
        super().setup(hydra_context=hydra_context, task_function=task_function, config=config)


class Slurm(TakersLauncher):
    """Jobs of a Slurm cluster take the cells; the options are those of ``sweeps.clusters.Jobs``."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def place(self, sweep: "Sweep") -> "list[End]":
        """Answer what is stored, submit jobs for the rest, and follow them."""
        from robustfl_bench.runner.sweeps.clusters import Jobs, take_with_jobs

        return take_with_jobs(sweep, Jobs(**self.options))


class Ray(TakersLauncher):
    """Tasks of a Ray cluster take the cells; the options are those of ``sweeps.clusters.Tasks``."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def place(self, sweep: "Sweep") -> "list[End]":
        """Answer what is stored, start tasks for the rest, and follow them."""
        from robustfl_bench.runner.sweeps.clusters import Tasks, take_with_tasks

        return take_with_tasks(sweep, Tasks(**self.options))


class Outside(TakersLauncher):
    """A class of the user starts processes that take the cells; ``class`` is its dotted name, the other options are its
    fields. Its method ``place(sweep)`` returns when these processes have ended."""

    def __init__(self, **options: Any) -> None:
        self.options = OmegaConf.to_container(OmegaConf.create(options))

    def place(self, sweep: "Sweep") -> "list[End]":
        """Answer what is stored, and let the class complete the rest."""
        from robustfl_bench.runner.sweeps.workers import take_with_class

        return take_with_class(sweep, self.options)


class Source(ConfigSource):
    """Configs that are in no file: classes such as ``aggregator=my_module:MyRule``, whose fields are the config, and
    our launchers and our sweeper by the names with PREFIX."""

    @staticmethod
    def scheme() -> str:
        """``robustfl://``."""
        return "robustfl"

    def available(self) -> bool:
        """Always."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Whether it has options of this group."""
        return config_path.rstrip("/") in ("hydra", *OPTIONS)

    def is_config(self, config_path: str) -> bool:
        """Whether it has this option."""
        if _ours(config_path):
            return True
        if ":" not in config_path:
            return False
        from robustfl_bench.train.parts import GROUPS

        return config_path.partition("/")[0] in GROUPS

    def load_config(self, config_path: str) -> ConfigResult:
        """The option."""
        from robustfl_bench.runner.config import options, outside

        group, _, name = config_path.partition("/")
        place = None
        if (ours := _ours(config_path)) is not None:
            content, place = dict(options.load(ours)), ours.rpartition("/")[0].replace("/", ".")
            if "submitit_folder" in content:
                content["submitit_folder"] = "${hydra.sweep.dir}/slurm"
        else:
            content = outside.content(group, name)
            place = f"{group}.{inner}" if (inner := options.place_of(group, name)) else None
        return ConfigResult(self.provider, self.full_path(), OmegaConf.create(content), {"package": place})

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """The options that can be listed."""
        names = () if results_filter == ObjectType.GROUP else OPTIONS.get(config_path.rstrip("/"), ())
        return [f"{PREFIX}{name}" for name in names]


def _ours(config_path: str) -> str | None:
    """The config of this package that an option with PREFIX stands for."""
    group, _, name = config_path.removesuffix(".yaml").rpartition("/")
    bare = name.removeprefix(PREFIX)
    return f"{group}/{bare}" if bare != name and bare in OPTIONS.get(group, ()) else None


class Search(SearchPathPlugin):
    """Adds the source to Hydra's search path, after all files."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add it."""
        search_path.append("robustfl_bench", f"{Source.scheme()}://")


def _called(name: str, *arguments: Any, _root_: DictConfig) -> Any:
    """The value of the resolver of this name, which is imported now."""
    from robustfl_bench.runner.config import omega
    from robustfl_bench.runner.experiment import rates  # noqa: F401  # brings a resolver

    return omega.called(name, *arguments, _root_=_root_)


with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "register_new_resolver")  # from OmegaConf 2.4 on
    for _name in RESOLVERS:
        if not OmegaConf.has_resolver(_name):
            OmegaConf.register_new_resolver(_name, partial(_called, _name))
