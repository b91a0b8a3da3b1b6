"""Shared by all launchers: from Hydra's list of overrides to a sweep, and back to the values for Hydra's sweepers."""

from collections.abc import Callable, Sequence
from math import nan

from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.config import request, sources
from robustfl_bench.engine.settings import blocked
from robustfl_bench.store.folders import FAILED
from robustfl_bench.sweep.cells import Sweep
from robustfl_bench.sweep.ends import MISSING, OTHERS, End, Incomplete, Outcome
from robustfl_bench.sweep.progress import conclude, preview, shown


def launch(
    config: DictConfig, cells: Sequence[Sequence[str]], place: Callable[[Sweep], Outcome]
) -> Sequence[JobReturn]:
    """Let ``place`` complete all cells; returns the value of each for Hydra's sweepers."""
    if reasons := blocked(config.results_dir):
        raise ConfigError(*reasons)
    runtime = config.hydra
    sweep = Sweep(
        cells=tuple(map(tuple, cells)),
        hydra_overrides=tuple(runtime.overrides.hydra),
        config_dirs=request.config_dirs(runtime),
        presets=dict(sources.STORED),
        results_dir=config.results_dir,
        wait=config.wait,
        retry_failed=config.retry_failed,
    )
    if config.dry_run:
        preview(sweep)
        return [JobReturn(overrides=overrides, status=JobStatus.COMPLETED, _return_value=nan) for overrides in cells]
    with shown(sweep):
        outcome = place(sweep)
    incomplete = conclude(outcome)
    return [_returned(overrides, end, incomplete) for overrides, end in zip(cells, outcome.ends, strict=True)]


def _returned(overrides: Sequence[str], end: End, incomplete: Incomplete | None) -> JobReturn:
    returned = JobReturn(overrides=overrides)
    failed = end.status in (FAILED, MISSING, OTHERS)
    returned.status = JobStatus.FAILED if failed else JobStatus.COMPLETED
    returned.return_value = incomplete if failed else end.value
    return returned


def check_complete(returns: Sequence[JobReturn]) -> None:
    """Raise Incomplete if a cell has no result."""
    for returned in returns:
        if returned.status == JobStatus.FAILED:
            raise returned._return_value
