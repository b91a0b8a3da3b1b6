"""The command ``robustfl-bench``: one run, or a sweep with ``-m``. Every error takes one line."""

import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import nan
from typing import Any

from robustfl_bench.base.console import note_once, report, say
from robustfl_bench.base.errors import INTERRUPTED, NO_SPACE, ConfigError, check_package, exit_code, near
from robustfl_bench.commands import flags
from robustfl_bench.runner.config import beyond, compose, options, request, words
from robustfl_bench.runner.config.beyond import Beyond, ForHydra
from robustfl_bench.runner.experiment.execute import execute
from robustfl_bench.runner.experiment.plan import Request, plan
from robustfl_bench.runner.processes import members
from robustfl_bench.runner.sweeps.cells import Incomplete, Sweep


def main() -> None:
    """Console entry point; exit codes are those of ``base.errors``.

    With HYDRA_FULL_ERROR=1 in the environment errors show their tracebacks.
    """
    try:
        _obey(sys.argv[1:])
    except BrokenPipeError:
        raise  # ``entry`` ends every command whose reader has gone
    except KeyboardInterrupt:
        say("interrupted; the same command goes on from the last checkpoint")
        sys.exit(INTERRUPTED)
    except Incomplete as error:
        sys.exit(exit_code(error))
    except Exception as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1" or _is_of_output(error):
            raise
        sys.exit(report(error))


def _is_of_output(error: Exception) -> bool:
    """Whether there is no space for what was printed, which ``entry`` reports: errors of our files name these."""
    return isinstance(error, OSError) and error.filename is None and error.errno in NO_SPACE


def _obey(arguments: Sequence[str]) -> None:
    asked = flags.read(arguments)
    hydra, own, search = flags.for_hydra(asked), flags.own(asked.overrides), options.search(asked.config_dir)
    if is_sweep := asked.multirun or "hydra.mode=MULTIRUN" in hydra.overrides:
        if "WORLD_SIZE" in os.environ and os.environ["WORLD_SIZE"] != "1":
            raise ConfigError("torchrun starts the processes of one run: leave out -m")
        if "hydra/sweeper=optuna" in hydra.overrides:
            check_package("optuna")
        if not hydra.composes:
            with suppress(Beyond):  # Hydra refuses it, or not
                compose.shared(own, search)
    is_look = asked.help or asked.hydra_help or asked.info or asked.cfg
    if not (is_sweep or is_look):
        for one in map(words.override, hydra.overrides):
            beyond.check_single(one.key, one.text)
    if asked.cfg == "job":
        print(_shown(asked, own, search, hydra), end="")
    elif is_sweep or is_look or hydra.is_asked:
        _let_hydra(asked, hydra, is_sweep)
    else:
        try:
            config, call = request.composed(own, asked.config_dir, ForHydra(is_left=True))
        except Beyond:
            _let_hydra(asked, hydra, is_sweep)
        else:
            _make(asked, is_sweep, config, call)


def _let_hydra(asked: Namespace, hydra: ForHydra, is_sweep: bool) -> None:
    """Let Hydra obey the words of a command."""
    from robustfl_bench.runner.sweeps import launch

    verbose = ["hydra.verbose=true"] if asked.verbose and is_sweep else []
    overrides = [words.override(word).text for word in asked.overrides]
    launch.main([*overrides, *verbose, *flags.of_hydra(asked)], hydra, partial(_make, asked, is_sweep))


def _make(asked: Namespace, is_sweep: bool, config: Mapping[str, Any], call: request.Call) -> float:
    """Make one run, or say what would be made; returns the number that sweeps tune by."""
    if config["dry_run"] and not is_sweep:
        from robustfl_bench.runner.sweeps.progress import preview

        plan(config)  # refuses what the run would
        cells = (tuple(call.overrides),)
        preview(Sweep(cells, asked.config_dir, results_dir=config["results_dir"]), asked.verbose)
        return nan
    return _execute(config, call)


def _execute(config: Mapping[str, Any], call: request.Call) -> float:
    """Make one run, in this process or in several."""
    alone = "WORLD_SIZE" not in os.environ  # else others wait for this process
    asked = Request({**config, "wait": config["wait"] and alone}, call)
    if asked.settings.processes > 1:
        from robustfl_bench.runner.processes import launch

        if launch.served(asked):
            return nan
    with members(asked) as train:
        return execute(asked, train, note_once())


def _shown(asked: Namespace, own: Sequence[str], search: options.Search, hydra: ForHydra) -> str:
    """The config of a run, or its part ``--package``, as YAML."""
    config = compose.shown(own, search, asked.resolve, hydra)
    if asked.package in (None, "_global_"):
        return options.written(config)
    part: object = config
    for key in asked.package.split("."):
        part = part.get(key, _ABSENT) if isinstance(part, Mapping) else _ABSENT
    if part is _ABSENT:
        raise ConfigError(f"no package {asked.package!r} in the config{near(asked.package, config)}")
    if not isinstance(part, Mapping | list):
        return f"{part}\n"
    return f"# @package {asked.package}\n{options.written(part)}"


_ABSENT = object()


if __name__ == "__main__":
    main()
