"""A run, a sweep, and the table of stored runs, as functions."""

import itertools
import os
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.late import pd
from robustfl_bench.doors.api import objects
from robustfl_bench.doors.api.result import Result
from robustfl_bench.read.runs import records
from robustfl_bench.runner.config import compose, identity, options, request, words
from robustfl_bench.runner.config.request import Call
from robustfl_bench.runner.experiment import answers
from robustfl_bench.runner.experiment.execute import complete
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.runner.store import folders
from robustfl_bench.runner.store.folders import DIVERGED, FAILED
from robustfl_bench.runner.sweeps.cells import Sweep
from robustfl_bench.runner.sweeps.workers import take_quietly
from robustfl_bench.train.parts import FOLLOWING, GROUPS
from robustfl_bench.train.settings import SCALARS


def run(
    *overrides: str | Mapping[str, Any],
    results_dir: str | Path | None = None,
    config_dir: str | Path | None = None,
    **settings: Any,
) -> Result:
    """The result of the run ``robustfl-bench OVERRIDES``; a stored result is reused.

        >>> import robustfl_bench as rb
        >>> result = rb.run(aggregator=rb.Krum(num_byzantine=4), attack="ipm", rounds=5)
        >>> list(result.metrics["round"])
        [1, 2, 3, 4, 5]
        >>> same = rb.run("aggregator=krum", "attack=ipm", "rounds=5")  # the same run, as words of the command line
        >>> same.path == result.path
        True

    ``settings`` are the same by keyword, and count after ``overrides``. A config group takes the name of an option, a
    part such as ``Krum(2)``, its class, or a function; ``model`` also a class of PyTorch, ``dataset`` arrays
    ``(X, y)``, a table of pandas, or a data set of PyTorch or Hugging Face. Objects make the same run as the words that
    describe them, which ``summary["command"]`` holds. ``config_dir`` is a folder with your own options, as for
    ``--config-dir``.

    A config that Hydra has composed of the options of this package is the first of ``overrides``, or as
    ``**settings``; others change it. Give it before it is resolved: OmegaConf knows no rounds, in which f can differ.

    Prints nothing but a bar where the output is a terminal or a notebook; notes on unusual settings are issued as
    warnings. Raises ConfigError for an invalid configuration, DataError for missing or damaged data, RunLocked while
    another process makes the run, and RunFailed for an error during the run.
    """
    composed, words, others = taken(overrides, objects.stored(settings, results_dir))
    given = [*words, *objects.overrides(others)]
    if composed is None:
        return of_words(given, results_dir, config_dir, stacklevel=3)
    given += _folder(results_dir)
    return _made(*of_composed(composed, given, config_dir), stacklevel=3)


def of_words(
    overrides: Sequence[str], results_dir: str | Path | None, config_dir: str | Path | None, stacklevel: int = 2
) -> Result:
    """The result of a run given by words; raises as ``run`` does."""
    config, call = request.composed([*overrides, *_folder(results_dir)], config_dir)
    return _made(config, call, stacklevel + 1)


def _folder(results_dir: str | Path | None) -> list[str]:
    return [] if results_dir is None else objects.overrides({"results_dir": results_dir})


def _made(config: Mapping[str, Any], call: Call, stacklevel: int) -> Result:
    notes: list[str] = []
    wanted = plan(config, call)
    answer = answers.stored(wanted, notes.append)
    if answer is not None:
        answers.unfollowed(config, notes.append)
    answer = answer or complete(wanted, note=notes.append)
    for line in notes:
        warnings.warn(line, stacklevel=stacklevel)
    return of_folder(Path(answer.place))


def of_folder(path: Path) -> Result:
    """The result in a run folder."""
    metrics = records.metrics(path) if (path / "metrics.csv").exists() else pd.DataFrame({"round": []})
    return Result(metrics, folders.summary_in(path) or {}, path)


def results(folder: str | Path = "results", where: str | Sequence[str] = ()) -> "pd.DataFrame":
    """The runs in a results folder, one row each: its result and every setting.

        >>> import robustfl_bench as rb
        >>> runs = rb.sweep(aggregator=["krum", "average"], attack=["none", "ipm"], rounds=2)
        >>> rb.results("results", where=["attack=ipm", "aggregator=krum"])["rounds"].tolist()
        [2]

    ``where`` keeps the runs that meet ``KEY=VALUE``, or all of several such conditions. Raises ConfigError for a key
    that no run has, DataError where there are no runs.
    """
    from robustfl_bench.read.runs.where import where as meeting

    if not isinstance(folder, str | os.PathLike):
        raise ConfigError(f"results takes the path of a results folder, got {folder!r:.60}")
    table = records.load(Path(folder).expanduser())
    return meeting(table, [where] if isinstance(where, str) else where).reset_index(drop=True)


# Whole configs, as Hydra composes them, given in the place of words.


def taken(
    overrides: Sequence[str | Mapping[str, Any]], settings: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, list[str], dict[str, Any]]:
    """The config that is among the arguments of a call, or None, then the words and the settings besides it.

    It is the first of the overrides, or all settings by keyword, if one of these is a group as a mapping. Raises
    ConfigError.
    """
    composed, given = None, list(overrides)
    others = {key: _plain(value) for key, value in settings.items()}
    if given and not isinstance(given[0], str):
        composed = _config(given.pop(0))
    if any(isinstance(others.get(group), Mapping) for group in GROUPS):
        nested = {key: value for key, value in others.items() if key not in GROUPS or isinstance(value, Mapping | None)}
        composed = {**(composed or {}), **nested}
        others = {key: value for key, value in others.items() if key not in nested}
    if strange := [word for word in given if not isinstance(word, str)]:
        raise ConfigError(f"after a config come words such as seed=1, got a {type(strange[0]).__name__}")
    return composed, [str(word) for word in given], others


def _config(given: Any) -> dict[str, Any]:
    """A whole config as plain containers. Raises ConfigError."""
    plain = _plain(given)
    if not isinstance(plain, Mapping):
        advice = f"; a {type(given).__name__} of words is given as run(*words)" if type(given) in (list, tuple) else ""
        raise ConfigError(f"a run takes words such as seed=1, or a config, got {given!r:.60}{advice}")
    _check_single(plain.get("hydra"))
    return {str(key): value for key, value in plain.items() if key != "hydra"}


def _check_single(hydra: Any) -> None:
    """Raise ConfigError for a config of a preset that sweeps, as far as the config, or the app that runs, says so."""
    app = sys.modules.get("hydra.core.hydra_config")
    if hydra is None and app is not None and app.HydraConfig.initialized():
        running = app.HydraConfig.get()
        hydra = _plain(running) if running.mode is not None and running.mode.name == "RUN" else None
    swept = ((hydra or {}).get("sweeper") or {}).get("params") or {}
    given = {words.override(word).target for word in ((hydra or {}).get("overrides") or {}).get("task") or ()}
    if several := [key for key, value in swept.items() if key not in given and "," in str(value)]:
        raise ConfigError(f"this config sweeps {', '.join(several)}: add --multirun, or set these for one run")


def _plain(value: Any) -> Any:
    """A config of OmegaConf as plain containers with interpolations as written; other values as they are."""
    if not type(value).__module__.startswith("omegaconf."):
        return value
    from robustfl_bench.runner.config import omega

    return omega.plain(value)


def of_composed(
    composed: Mapping[str, Any], overrides: Sequence[str], config_dir: str | Path | None
) -> tuple[Mapping[str, Any], Call]:
    """The config and the call of a run of a config that Hydra has composed, changed by overrides.

    Raises ConfigError.
    """
    if forms := [name for name in identity.FORMS if composed.get(name) is not None]:
        raise ConfigError(f"{forms[0]}=FOLDER goes with words alone, as a stored config has all its settings")
    search = options.search(config_dir)
    usual = compose.shown([])
    is_whole = len({*SCALARS} & {*composed}) > len(SCALARS) / 2  # then a group that is not there was taken away
    base = {**usual, **(dict.fromkeys(GROUPS) if is_whole else {}), **composed}
    resolved = compose.resolve(overrides, search, base=base)
    program = request.program(search)
    for tree in (base, resolved.config):
        with suppress(ConfigError):
            again = [*_words_of(tree, usual), *overrides]
            same = compose.resolve(again, search)
            alike = all(same.config[name] == resolved.config[name] for name in (*SCALARS, *FOLLOWING))
            if alike and same.run_id == resolved.run_id:
                return resolved.config, Call(same.choices, again, program)
    return resolved.config, Call(resolved.choices, (), ("robustfl_bench.run(config)",))


def _words_of(config: Mapping[str, Any], usual: Mapping[str, Any]) -> list[str]:
    """The words of a command for what a config has besides the defaults."""
    changed = {key: config[key] or None if key in GROUPS else config[key] for key in (*SCALARS, *GROUPS)}
    return objects.overrides({key: value for key, value in changed.items() if value != usual[key]})


def sweep(
    *overrides: str,
    results_dir: str | Path | None = None,
    config_dir: str | Path | None = None,
    n_jobs: int = 1,
    **settings: Any,
) -> "pd.DataFrame":
    """The runs of ``robustfl-bench -m OVERRIDES``, one row each: its result and every setting; stored runs are reused.

        >>> import robustfl_bench as rb
        >>> runs = rb.sweep(aggregator=[rb.CooMed(), "krum"], attack=["none", "ipm"], rounds=2)
        >>> runs[["aggregator", "attack", "state"]]
          aggregator attack     state
        0     coomed   none  finished
        1     coomed    ipm  finished
        2       krum   none  finished
        3       krum    ipm  finished

    ``settings`` are those of ``run``; a list, tuple, range or array is swept over its items. A setting whose value is
    itself a list takes a list of lists. The runs share the folder with every other process that sweeps it, and a run
    that was interrupted resumes. ``n_jobs`` processes make the runs, -1: one for each core; with more than one, rules
    must be in a module, and a script needs ``if __name__ == "__main__":``.

    A rule that cannot work with so many clients has a row with the state ``infeasible``. Failed runs are in the table,
    too, and issue a warning. Raises ConfigError, before the first run, for what is wrong with any of them.
    """
    if strange := [word for word in overrides if not isinstance(word, str)]:
        raise ConfigError(f"a sweep takes words such as seed=0,1, and settings, got a {type(strange[0]).__name__}")
    listed = cells(overrides, objects.stored(settings, results_dir), results_dir, config_dir)
    if n_jobs != 1 and any(":" in word and "__main__:" in word for cell in listed for word in cell):
        raise ConfigError(
            "a class of the notebook itself is unknown to other processes: put it in a module, or n_jobs=1"
        )
    return table(made(listed, config_dir, n_jobs))


def cells(
    overrides: Sequence[str], settings: dict[str, Any], results_dir: str | Path | None, config_dir: str | Path | None
) -> list[tuple[str, ...]]:
    """The words of each run of a sweep; its results are run folders, never those that come with the package."""
    axes = [[objects.overrides({name: item}) for item in _items(name, value)] for name, value in settings.items()]
    folder = ["use_kept=false", *_folder(results_dir)]
    given = compose.sweep(overrides, options.search(config_dir))
    return [(*own, *itertools.chain(*chosen), *folder) for own in given for chosen in itertools.product(*axes)]


def made(listed: Sequence[tuple[str, ...]], config_dir: str | Path | None, n_jobs: int = 1) -> Sweep:
    """Make the runs of a sweep that are not stored. Raises ConfigError for a run that cannot be composed."""
    shared = compose.shared([word for word in listed[0] if word.startswith("results_dir=")], options.search(config_dir))
    asked = Sweep(
        cells=tuple(listed),
        config_dir=None if config_dir is None else str(config_dir),
        results_dir=shared["results_dir"],
    )
    for cell in asked.listed:
        _ = cell.asked  # composes it
    ends = take_quietly(asked, n_jobs)
    for reason, number in Counter(end.reason for end in ends if end.status == FAILED).items():
        warnings.warn(f"{number} of {len(listed)} runs failed: {reason}", stacklevel=4)
    if lost := sum(end.status == DIVERGED for end in ends):
        warnings.warn(
            f"{lost} of {len(listed)} runs diverged: their accuracy is nan, which pandas leaves out of means",
            stacklevel=4,
        )
    return asked


def table(asked: Sweep) -> "pd.DataFrame":
    """The runs of a sweep that was made, one row each, in their order; a run that is asked for twice has one."""
    return records.of_folders([*dict.fromkeys(cell.folder().path for cell in asked.listed)])


def _items(name: str, value: Any) -> Sequence[Any]:
    """The values of a setting: those of a list, tuple, range or array of numbers, else one."""
    if isinstance(value, list | tuple | range):
        if not len(value):
            raise ConfigError(f"{name} has no values to sweep")
        return value
    return list(value) if getattr(value, "ndim", 0) == 1 else [value]
