"""Shared by all launchers: from Hydra's list of overrides to a sweep, and back to the values for Hydra's sweepers."""

from collections.abc import Callable, Sequence
from math import nan
from typing import Any

from hydra.core.utils import JobReturn, JobStatus

from robustfl_bench.base.contained import no_exit
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config import compose, options
from robustfl_bench.runner.store.folders import FAILED
from robustfl_bench.runner.sweeps.cells import Sweep
from robustfl_bench.runner.sweeps.ends import MISSING, OTHERS, End, Incomplete, Outcome
from robustfl_bench.runner.sweeps.preview import preview
from robustfl_bench.runner.sweeps.progress import conclude, shown
from robustfl_bench.train.settings import blocked


def launch(runtime: Any, cells: Sequence[Sequence[str]], place: Callable[[Sweep], Outcome]) -> Sequence[JobReturn]:
    """Let ``place`` complete all cells; returns the value of each for Hydra's sweepers. ``runtime`` is Hydra's own
    config."""
    config_dir = config_dir_of(runtime)
    asked = compose.shared(runtime.overrides.task, options.search(config_dir))
    if reasons := blocked(asked["results_dir"]):
        raise ConfigError(*reasons)
    sweep = Sweep(
        cells=tuple(map(tuple, cells)),
        config_dir=config_dir,
        results_dir=asked["results_dir"],
        wait=asked["wait"],
        retry_failed=asked["retry_failed"],
    )
    if asked["dry_run"]:
        preview(sweep, listed=bool(runtime.verbose))
        return [JobReturn(overrides=overrides, status=JobStatus.COMPLETED, _return_value=nan) for overrides in cells]
    with shown(sweep), no_exit(lambda: "a process of the sweep"):
        outcome = place(sweep)
    incomplete = conclude(outcome)
    return [_returned(overrides, end, incomplete) for overrides, end in zip(cells, outcome.ends, strict=True)]


def config_dir_of(runtime: Any) -> str | None:
    """The folder of ``--config-dir``."""
    sources = runtime.runtime.config_sources
    return next((source.path for source in sources if source.provider == "command-line"), None)


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
