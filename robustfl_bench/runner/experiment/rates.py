"""A learning rate chosen by validation among stored or kept runs, so that none is copied by hand."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from statistics import fmean
from typing import Any

from robustfl_bench.base.errors import NotReady
from robustfl_bench.runner.config import compose, options, outside
from robustfl_bench.runner.config.resolvers import BY_ROOT
from robustfl_bench.runner.experiment import answers
from robustfl_bench.runner.experiment.plan import Request
from robustfl_bench.runner.store import folders
from robustfl_bench.train.parts import GROUPS


def chosen_rate(experiment: str, *, _root_: Mapping[str, Any]) -> float:
    """``${chosen_rate:arena/digits_rates}``: the swept rate with the best mean validation accuracy over the seeds.

    Only the runs of that experiment with this run's parts count: of the groups that it sweeps besides the rate, such as
    rule and partition. Kept runs come before those in ``results_dir``. A run that diverged counts as 0; of equal
    rates, the smallest is chosen. Raises NotReady, with the command to run first, if runs are missing.
    """
    axes = [key for key in _swept(experiment) if key in GROUPS]
    parts = json.dumps({key: _root_[key] for key in axes}, sort_keys=True)
    asked = experiment, parts, str(_root_["results_dir"])
    if _lacking is not None and asked in _lacking:
        raise _lacking[asked]
    try:
        return _chosen(*asked)
    except NotReady as error:
        if _lacking is not None:
            _lacking[asked] = error
        raise


@cache
def _swept(experiment: str) -> Mapping[str, Sequence[str]]:
    return compose.swept([f"+experiment={experiment}"])


_lacking: dict[tuple[str, str, str], NotReady] | None = None
"""Rates that cannot be chosen, while no run is made."""


@contextmanager
def no_runs_made() -> Iterator[None]:
    """Within this context no run is made, so a rate that cannot be chosen is looked for once."""
    global _lacking
    _lacking = {}
    try:
        yield
    finally:
        _lacking = None


@cache
def _chosen(experiment: str, written: str, results_dir: str) -> float:
    parts, asked = json.loads(written), f"+experiment={experiment}"
    swept = _swept(experiment)
    validated: dict[float, list[float]] = {}
    lacking: list[str] = []
    for rate in swept["lr"]:
        runs = [[asked, f"lr={rate}", f"seed={seed}"] for seed in swept["seed"]]
        found = [_accuracy(compose.resolve(run, parts=parts), results_dir) for run in runs]
        lacking += [why for why in found if isinstance(why, str)]
        validated[float(rate)] = [number for number in found if not isinstance(number, str)]
    if lacking:
        rule, *others = (f"{group}={asked_as(group, content)}" for group, content in parts.items())
        unused = [why for why in lacking if why != _MISSING]
        told = "; ".join([*unused[:1], *([f"and {len(unused) - 1} more"] * (len(unused) > 1))])
        raise NotReady(
            f"{len(lacking)} of the runs that choose the learning rate for {' '.join([rule, *others])} are missing"
            f"{f' ({told})' * bool(told)}; first: robustfl-bench -m {asked} {rule}"
        )
    return best(validated)


def best(validated: Mapping[float, Sequence[float]]) -> float:
    """The rate with the best mean validation accuracy; of equal rates, the smallest."""
    return max(sorted(validated), key=lambda rate: fmean(validated[rate]))


_MISSING = "missing"


def _accuracy(resolved: compose.Resolved, results_dir: str) -> float | str:
    """The best validation accuracy of a run, 0 if its model diverged or it cannot be run; as text, the reason why none
    is known. Only a result that answers for the run counts, see ``answers``.
    """
    request = Request({**resolved.config, "results_dir": results_dir})
    reasons: list[str] = []
    if (answer := answers.existing(request, reasons.append, unseeded=True)) is not None:
        return answer.value if answer.status == folders.FINISHED else 0.0
    if answers.status(request) == folders.INFEASIBLE:
        return 0.0
    return reasons[0].partition("; running again")[0] if reasons else _MISSING


def asked_as(group: str, content: Mapping[str, Any]) -> str:
    """The choice that gives this content: an option or a class from outside, without other settings."""
    if not content["_target_"].startswith("robustfl_bench."):
        return outside.word(content["_target_"])
    alike = (name for name in options.names(group) if options.option(group, name) == content)
    return next(alike, outside.label_of(content["_target_"]))


BY_ROOT["chosen_rate"] = chosen_rate
