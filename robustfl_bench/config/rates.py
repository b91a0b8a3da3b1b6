"""A learning rate chosen by validation, among runs that are stored or kept: no number is copied by hand."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from robustfl_bench import kept
from robustfl_bench.config import options, outside, presets
from robustfl_bench.config.parts import GROUPS
from robustfl_bench.config.resolvers import BY_ROOT
from robustfl_bench.errors import NotReady


def chosen_rate(experiment: str, *, _root_: Mapping[str, Any]) -> float:
    """``${chosen_rate:arena/digits_rates}``: of the rates that this experiment sweeps, the one of the best mean
    validation accuracy over its seeds, in its runs with the same parts as here.

    The parts are those that it sweeps beside the rate: rule and partition. A kept run comes before one in
    ``results_dir``. A rate with which a model diverged is not chosen; of equal ones the smallest is. Raises
    NotReady, with the command to run first, where runs are missing.
    """
    axes = [key for key in presets.swept([f"+experiment={experiment}"]) if key in GROUPS]
    parts = json.dumps({key: _plain(_root_[key]) for key in axes}, sort_keys=True)
    return _chosen(experiment, parts, str(_root_["results_dir"]))


@cache
def _chosen(experiment: str, written: str, results_dir: str) -> float:
    parts, asked = json.loads(written), f"+experiment={experiment}"
    swept = presets.swept([asked])
    validated: dict[float, list[float]] = {}
    missing = 0
    for rate in swept["lr"]:
        runs = [[asked, f"lr={rate}", f"seed={seed}"] for seed in swept["seed"]]
        found = [_accuracy(presets.resolve(run, parts=parts).run_id, results_dir) for run in runs]
        missing += found.count(None)
        validated[float(rate)] = [number or 0 for number in found]
    if missing:
        rule, *others = (f"{group}={asked_as(group, content)}" for group, content in parts.items())
        raise NotReady(
            f"{missing} of the runs that choose the learning rate for {' '.join([rule, *others])} are missing; first: "
            f"robustfl-bench -m {asked} {rule}"
        )
    return best(validated)


def best(validated: Mapping[float, Sequence[float]]) -> float:
    """The rate of the best mean validation accuracy; of equal ones the smallest."""
    return max(sorted(validated), key=lambda rate: fmean(validated[rate]))


def _accuracy(run_id: str, results_dir: str) -> float | None:
    """The best validation accuracy of a run, 0 if its model diverged or it cannot be run; None if there is none."""
    if (line := kept.find(run_id)) is not None:
        return float(line["validation_accuracy"] or 0)
    for path in (Path(results_dir).expanduser() / "runs").glob(f"*-{run_id}/summary.json"):
        summary = json.loads(path.read_text(encoding="utf-8"))
        if summary["status"] != "failed":
            return float((summary.get("tuned") or {}).get("validation_accuracy") or 0)
    return None


def _plain(content: Any) -> Any:
    """The content of a group with its interpolations as they are written, also when Hydra holds it."""
    if content is None or type(content) is dict:
        return content
    from omegaconf import OmegaConf

    return OmegaConf.to_container(content, resolve=False)


def asked_as(group: str, content: Mapping[str, Any]) -> str:
    """What chooses the part of this content: the option, or the class from outside. Other settings are not told."""
    module, _, name = content["_target_"].rpartition(".")
    if not module.startswith("robustfl_bench."):
        return f"{module}:{name}"
    alike = (name for name in options.names(group) if options.option(group, name) == content)
    return next(alike, outside.label_of(content["_target_"]))


BY_ROOT["chosen_rate"] = chosen_rate
