"""The command ``robustfl-bench``: one run, or a sweep with ``-m``. Every error takes one line."""

import os
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from robustfl_bench.base.console import note_once, say
from robustfl_bench.base.errors import INTERRUPTED, ConfigError, exit_code, near
from robustfl_bench.commands import flags
from robustfl_bench.runner.config import compose, options, request
from robustfl_bench.runner.experiment.execute import execute
from robustfl_bench.runner.experiment.explain import report
from robustfl_bench.runner.experiment.plan import plan
from robustfl_bench.runner.processes.shards import members
from robustfl_bench.runner.sweeps.cells import Sweep
from robustfl_bench.runner.sweeps.ends import Incomplete
from robustfl_bench.runner.sweeps.preview import preview


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
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        sys.exit(report(error))


def _obey(arguments: Sequence[str]) -> None:
    asked = flags.read(arguments)
    if asked.multirun:
        if "WORLD_SIZE" in os.environ and os.environ["WORLD_SIZE"] != "1":
            raise ConfigError("torchrun starts the processes of one run: leave out -m")
        compose.shared(flags.own(asked.overrides), options.search(asked.config_dir))
    if asked.multirun or asked.help or asked.hydra_help or asked.info or asked.cfg in ("hydra", "all"):
        from robustfl_bench.runner.sweeps import front  # late: Hydra takes half a second

        # Hydra reads the options after the overrides, and knows ours by another name.
        verbose = ["hydra.verbose=true"] if asked.verbose else []
        others = (word for word in arguments if word not in (*asked.overrides, *flags.VERBOSE))
        front.main([*asked.overrides, *verbose, *others])
    elif asked.cfg:
        print(_shown(asked), end="")
    else:
        config, call = request.composed(asked.overrides, asked.config_dir)
        if config["dry_run"]:
            plan(config)  # refuses what the run would
            cells = (tuple(asked.overrides),)
            preview(Sweep(cells, asked.config_dir, results_dir=config["results_dir"]), asked.verbose)
        else:
            _execute(config, call)


def _execute(config: Mapping[str, Any], call: request.Call) -> None:
    """Make one run, in this process or in several."""
    if config["processes"] > 1:
        from robustfl_bench.runner.processes.shards import run  # imports torch

        if run.served(config, call):
            return
    with members(config, call) as train:
        alone = "WORLD_SIZE" not in os.environ  # else others wait for this process
        execute({**config, "wait": config["wait"] and alone}, call, train, note_once())


def _shown(asked: Namespace) -> str:
    """The config of a run, or its part ``--package``, as YAML."""
    config = compose.shown(asked.overrides, options.search(asked.config_dir), asked.resolve)
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
