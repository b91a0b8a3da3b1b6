"""Shared by all launchers: from Hydra's list of overrides to a sweep, and back to the values for Hydra's sweepers."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Override
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import CompactHydraException
from hydra.experimental.callback import Callback
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig

from robustfl_bench.base.contained import no_exit
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config import by_hydra, compose, omega, options, request, words
from robustfl_bench.runner.config.beyond import ForHydra
from robustfl_bench.runner.config.options import CONF
from robustfl_bench.runner.config.request import Call
from robustfl_bench.runner.store.folders import FAILED
from robustfl_bench.runner.sweeps.cells import MISSING, OTHERS, End, Incomplete, Sweep
from robustfl_bench.runner.sweeps.progress import conclude, preview, shown
from robustfl_bench.runner.sweeps.tasks import Task, sweep_of
from robustfl_bench.train.settings import blocked

Makes = Callable[[Mapping[str, Any], Call], float]
"""What makes a run, and returns the number that sweeps tune by."""

Place = Callable[[Sweep], Sequence[End]]
"""What completes the cells of a sweep by its processes; how each of them ended."""


@dataclass(frozen=True)
class Runs:
    """The task function of ``robustfl-bench`` for Hydra."""

    make: Makes

    def __call__(self, cfg: DictConfig) -> float:
        """Make a run: alone, or as a job of a launcher that is not ours."""
        runtime = HydraConfig.get()
        asked = replace(asked_of(runtime), composed=cfg)
        find = request.of_cell if runtime.mode == RunMode.MULTIRUN else request.composed
        try:
            return self.make(*find(omega.plain(runtime.overrides.task), config_dir_of(runtime), asked))
        except Exception:
            sys.stderr = _OneLine(sys.stderr)
            raise


class _OneLine:
    """A stream without the line that Hydra adds to the error of a job."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text that is not of that line."""
        return len(text) if text.startswith("Error executing job with overrides") else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@dataclass(frozen=True)
class Launched:
    """What Hydra gives a launcher: its config, its context, the task function, and the overrides of all cells, of which
    the first has a number."""

    config: DictConfig
    context: HydraContext
    task_function: Callable[[DictConfig], Any]
    cells: Sequence[Sequence[str]]
    first: int


def launch(asked: Launched, place: Place) -> Sequence[JobReturn]:
    """Let ``place`` complete all cells; returns the value of each for Hydra's sweepers. Raises ConfigError."""
    runtime = asked.config.hydra
    if not isinstance(asked.task_function, Runs):
        return _called(asked, place)
    _check_obeyed(asked)
    config_dir, hydra = config_dir_of(runtime), asked_of(runtime)
    whole = compose.shared(omega.plain(runtime.overrides.task), options.search(config_dir), hydra)
    if reasons := blocked(whole["results_dir"]):
        raise ConfigError(*reasons)
    sweep = Sweep(
        cells=tuple(map(tuple, asked.cells)),
        config_dir=config_dir,
        results_dir=whole["results_dir"],
        wait=whole["wait"],
        retry_failed=whole["retry_failed"],
        hydra=replace(hydra, number=asked.first),
    )
    if whole["dry_run"]:
        preview(sweep, listed=bool(runtime.verbose))
        return [
            JobReturn(overrides=overrides, status=JobStatus.COMPLETED, _return_value=nan) for overrides in asked.cells
        ]
    return _completed(sweep, asked, place)


def _called(asked: Launched, place: Place) -> Sequence[JobReturn]:
    """Complete the calls of somebody else's task function. Raises errors that Hydra prints in one line."""
    runtime = asked.config.hydra
    try:
        task = Task.of(asked.task_function, asked.context, runtime)
        returns = _completed(sweep_of(task, asked.cells, asked.first, runtime), asked, place)
        check_complete(returns)
    except (ConfigError, Incomplete) as error:
        raise CompactHydraException(str(error)) from None
    return returns


def _completed(sweep: Sweep, asked: Launched, place: Place) -> Sequence[JobReturn]:
    with shown(sweep), no_exit(lambda: "a process of the sweep"):
        ends = place(sweep)
    incomplete = conclude(ends)
    return [_returned(overrides, end, incomplete) for overrides, end in zip(asked.cells, ends, strict=True)]


def _check_obeyed(asked: Launched) -> None:
    """Raise ConfigError for settings of Hydra that only jobs of Hydra obey: runs of our sweeps are no such jobs."""
    runtime = omega.plain(asked.config.hydra)
    refused = by_hydra.unobeyed(runtime)
    usual = options.load("config")["hydra"]["sweep"]
    is_ours = str(runtime["sweeper"]["_target_"]).endswith("robustfl_bench.Cells")
    for key in ("dir", "subdir") if is_ours else ("subdir",):
        if runtime["sweep"][key] != usual[key]:
            refused.append(f"hydra.sweep.{key} (results_dir=FOLDER is where runs go)")
    for callback in asked.context.callbacks.callbacks:
        if any(getattr(type(callback), name, None) not in (None, getattr(Callback, name)) for name in _OF_JOBS):
            refused.append(f"the callback {type(callback).__name__} of jobs")
    if not is_ours:  # others write there
        Path(asked.config.hydra.sweep.dir).mkdir(parents=True, exist_ok=True)
    if single := [word for word in runtime["overrides"]["hydra"] if word.lstrip("+").startswith("hydra.run.")]:
        raise ConfigError(f"{single[0]} is for a single run; results_dir=FOLDER is where the runs of a sweep go")
    if refused:
        raise ConfigError(f"a sweep's runs are no jobs of Hydra: {', '.join(refused)}; hydra/launcher=basic obeys")


_OF_JOBS = ("on_job_start", "on_job_end")


def asked_of(runtime: Any) -> ForHydra:
    """What a command says to Hydra besides its settings."""
    main = next(source for source in runtime.runtime.config_sources if source.provider == "main")
    return ForHydra(
        None if main.path == str(CONF) else main.path,
        None if runtime.job.config_name == by_hydra.CONFIG else runtime.job.config_name,
        tuple(omega.plain(runtime.overrides.hydra)),
    )


def config_dir_of(runtime: Any) -> str | None:
    """The folder of ``--config-dir``."""
    sources = runtime.runtime.config_sources
    return next((source.path for source in sources if source.provider == "command-line"), None)


def axis(override: Override) -> list[str]:
    """The overrides of an axis of a sweep, one for each value. Raises ConfigError."""
    key, text = override.get_key_element(), str(override.input_line)
    if not override.is_sweep_override():
        return [f"{key}={words.written(override.value())}" if words.calls(text) else text]
    if not override.is_discrete_sweep():
        raise ConfigError(f"{text}: hydra/sweeper=cells needs values that it can list")
    values = list(override.sweep_string_iterator())
    if not values:
        raise ConfigError(f"{text} has no values: no option of {key.lstrip('+')} has such a name")
    return [f"{key}={_plain(value)}" for value in values]


def _plain(value: str) -> str:
    """A value without Hydra's escape of the colon in ``my_module:MyRule``, which needs none."""
    return value if {"'", '"'} & {*value} else value.replace("\\:", ":")


def _returned(overrides: Sequence[str], end: End, incomplete: Incomplete | None) -> JobReturn:
    returned = JobReturn(overrides=overrides)
    failed = end.status in (FAILED, MISSING, OTHERS)
    returned.status = JobStatus.FAILED if failed else JobStatus.COMPLETED
    returned.return_value = incomplete if failed else end.value
    return returned


def check_complete(returns: Sequence[JobReturn]) -> None:
    """Raise Incomplete if a cell has no result, or the error of a job of another launcher."""
    for returned in returns:
        if returned.status == JobStatus.FAILED:
            raise returned._return_value


def main(arguments: Sequence[str], asked: ForHydra, make: Makes) -> None:
    """Let Hydra obey the arguments of a command; ``make`` makes a run that none of our launchers makes. Raises
    Incomplete, ConfigError and the errors of runs."""
    sys.argv[1:] = arguments
    others = [("robustfl_bench", CONF)] if asked.config_path is not None else []
    with _raising(), by_hydra.beside(others), by_hydra.explained():
        folder = by_hydra.main_folder(asked)
        hydra.main(version_base=by_hydra.VERSION, config_path=folder, config_name=by_hydra.CONFIG)(Runs(make))()


@contextmanager
def _raising() -> Iterator[None]:
    """Hydra raises errors within the context, instead of printing them."""
    before, stream = os.environ.get("HYDRA_FULL_ERROR"), sys.stderr
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        sys.stderr = stream
        if before is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = before
