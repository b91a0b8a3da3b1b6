"""The function of somebody else's Hydra app, called for each cell of a sweep by our launchers.

A call has a folder in ``hydra.sweep.dir`` with its lease and its end, named by all that it depends on: the composed
config, and the file of the function. So several processes share the cells, and a call that has ended is not repeated.
"""

import hashlib
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobStatus, configure_log, run_job
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf, open_dict

from robustfl_bench.base.console import note
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config import by_hydra, identity, omega
from robustfl_bench.runner.config.beyond import ForHydra
from robustfl_bench.runner.experiment.answers import Answer
from robustfl_bench.runner.store import folders
from robustfl_bench.runner.store.folders import FINISHED, RunFolder
from robustfl_bench.runner.sweeps.cells import Sweep, SweepCell

_MAIN = "__mp_main__"
"""The name of the main module of a program in its other processes, as in ``multiprocessing``."""


@dataclass(frozen=True)
class Task:
    """The function of an app, found again in other processes by the ``file`` and the ``name`` of its module, and where
    Hydra finds its configs."""

    module: str
    name: str
    file: str
    job: str
    main: str | None
    folder: str | None  # of --config-dir
    config_name: str | None
    overrides: tuple[str, ...]
    version: str | None
    callbacks: type

    @classmethod
    def of(cls, function: Any, context: HydraContext, runtime: Any) -> "Task":
        """The function that Hydra gives a launcher. Raises ConfigError for one that has no name."""
        name, module = str(getattr(function, "__qualname__", "")), sys.modules[function.__module__]
        if not name.isidentifier() or not getattr(module, "__file__", None):
            raise ConfigError(f"the task function {name or function!r} must be at the top level of a module in a file")
        places = {source.provider: f"{source.schema}://{source.path}" for source in runtime.runtime.config_sources}
        main, folder = (places.get(who, "").removeprefix("file://") or None for who in ("main", "command-line"))
        return cls(
            module=function.__module__,
            name=name,
            file=str(Path(str(module.__file__)).resolve()),
            job=runtime.job.name,
            main=main,
            folder=folder,
            config_name=runtime.job.config_name,
            overrides=tuple(omega.plain(runtime.overrides.hydra)),
            version=runtime.runtime.version_base,
            callbacks=type(context.callbacks),
        )

    @property
    def function(self) -> Callable[[DictConfig], Any]:
        """The function: also what is decorated takes a config."""
        found: Callable[[DictConfig], Any] = getattr(self._imported(), self.name)
        return found

    def _imported(self) -> ModuleType:
        if self.module not in ("__main__", _MAIN):
            return import_module(self.module)
        for name in ("__main__", _MAIN):
            module = sys.modules.get(name)
            if module is not None and Path(str(getattr(module, "__file__", ""))).resolve() == Path(self.file):
                return module
        sys.path.append(str(Path(self.file).parent))
        spec = spec_from_file_location(_MAIN, self.file)
        assert spec is not None and spec.loader is not None
        module = sys.modules[_MAIN] = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    @contextmanager
    def composing(self, seconds: float) -> Iterator[None]:
        """Within the context, Hydra composes the configs of the app, at this time."""
        _ = self.function  # its module can bring configs
        folders = [("command-line", Path(self.folder))] if self.folder is not None else []
        before = HydraConfig.instance().cfg
        try:
            with by_hydra.initialized(self.main, folders, self.job, self.version), omega.now_is(seconds):
                yield
        finally:
            HydraConfig.instance().cfg = before

    def composed(self, overrides: Sequence[str], number: int) -> DictConfig:
        """The config of a call, with the node ``hydra``; ``${hydra:...}`` is resolved in it. Raises ConfigError."""
        with by_hydra.explained():
            config = hydra.compose(self.config_name, [*self.overrides, *overrides], return_hydra_config=True)
            HydraConfig.instance().set_config(by_hydra.as_job(config, number, Path.cwd()))
            output_dir = Path(str(config.hydra.sweep.dir), str(config.hydra.sweep.subdir))
            HydraConfig.instance().set_config(by_hydra.as_job(config, number, output_dir))
        return config


def sweep_of(task: Task, cells: Sequence[Sequence[str]], first: int, runtime: Any) -> Sweep:
    """The calls of a task for these cells, of which the first has a number. Raises ConfigError."""
    written = omega.plain(runtime.sweep)
    for key, advice in _LASTING.items():
        if any(part in written[key] for part in ("${now:", "job.num}", "job.id}")):
            raise ConfigError(f"hydra.sweep.{key} must be the same each time, so that calls find their ends: {advice}")
    folder = str(Path(runtime.sweep.dir).absolute())
    numbered = ForHydra(number=first)
    return TaskSweep(cells=tuple(map(tuple, cells)), results_dir=folder, hydra=numbered, task=task)


_LASTING = {"dir": "hydra.sweep.dir=FOLDER", "subdir": "'hydra.sweep.subdir=${hydra.job.override_dirname}'"}
"""Settings with what they can be."""


@dataclass(frozen=True)
class TaskSweep(Sweep):
    """The calls of a task."""

    task: Task | None = None

    @cached_property
    def listed(self) -> list[SweepCell]:
        """The calls as objects that cache what is known about them."""
        return [TaskCell(self, overrides) for overrides in self.cells]


class TaskCell(SweepCell):
    """One call of a task."""

    is_call = True

    sweep: TaskSweep

    _folder: RunFolder | None = None

    @property
    def task(self) -> Task:
        """The task."""
        assert self.sweep.task is not None
        return self.sweep.task

    @property
    def known(self) -> None:
        """None: it is no run of this package."""
        return None

    @property
    def command(self) -> str:
        """What makes the call alone."""
        return f"{Path(self.task.file).name} {self}"

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What a call depends on: the function and its file, and the config. Raises ConfigError."""
        with self.task.composing(self.sweep.began):
            config = self.task.composed(self.overrides, self.sweep.numbers[self.overrides])
            with open_dict(config):
                own = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
            with by_hydra.explained():
                resolved = OmegaConf.to_container(own, resolve=True, enum_to_str=True)
        code = hashlib.sha256(Path(self.task.file).read_bytes()).hexdigest()
        whole = {"name": self.task.name, "code": code, "config": resolved}
        plain: dict[str, Any] = json.loads(json.dumps(whole, default=str))
        return plain

    def folder(self) -> RunFolder:
        """The folder with its lease and its end."""
        if self._folder is None or not self._folder.path.exists():
            self._folder = RunFolder(self.sweep.results_dir, [self.task.job], identity.digest(self.identity))
        return self._folder

    def compose(self) -> None:
        """Let Hydra compose the call. Raises ConfigError."""
        _ = self.identity

    def stored(self, say: Callable[[str], None], unseeded: bool = False) -> Answer | None:
        """The end of an earlier call."""
        summary = self.folder().summary()
        same = summary is not None and summary["status"] == FINISHED and summary.get("call") == self.identity
        return self._answer("stored result", summary) if summary is not None and same else None

    def call(self) -> Answer:
        """Call the task as a job of Hydra, and record how it ended. Raises its error."""
        folder = self.folder()
        folder.open()
        with closing(folder):
            if (answer := self.stored(lambda _: None)) is not None:
                return answer
            summary = {"status": FINISHED, "call": self.identity, "command": self.command, **self._called()}
            folder.finish(summary)
            return self._answer("result", summary)

    def _called(self) -> dict[str, Any]:
        """What the task returns, and its output folder."""
        task = self.task
        with task.composing(self.sweep.began):
            config = task.composed(self.overrides, self.sweep.numbers[self.overrides])
            context = HydraContext(GlobalHydra.instance().config_loader(), task.callbacks(config))
            try:
                returned = run_job(task.function, config, "hydra.sweep.dir", "hydra.sweep.subdir", context)
            except SystemExit as stop:
                if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:  # it came from outside
                    raise
                raise RuntimeError(f"the task ended its process with exit code {stop.code}") from None
            configure_log(config.hydra.hydra_logging, config.hydra.verbose)
        value = returned._return_value
        if returned.status == JobStatus.FAILED:
            raise value
        return {"value": _plain(value), "output_dir": str(config.hydra.runtime.output_dir)}

    def _answer(self, what: str, summary: Mapping[str, Any]) -> Answer:
        value, place = summary["value"], summary["output_dir"]
        return Answer(what, FINISHED, f"{value}  {self}", place, value, summary)


def _plain(value: Any) -> Any:
    """The value of a call as JSON holds it; None for what it cannot hold."""
    try:
        return folders.plain(json.loads(json.dumps(value)))
    except (TypeError, ValueError):
        note(f"a {type(value).__name__} that a task returns is not kept: numbers, words, lists and mappings are")
        return None
