"""The command ``robustfl-bench``: one run, or a sweep with ``-m``. Every error takes one line."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from robustfl_bench.base.console import note_once, say
from robustfl_bench.base.errors import INTERRUPTED, ConfigError, exit_code
from robustfl_bench.config import resolvers, sources, stored
from robustfl_bench.config.options import CONF
from robustfl_bench.config.request import call_of, check_choices, refuse_sweep
from robustfl_bench.experiment.execute import execute
from robustfl_bench.experiment.explain import report
from robustfl_bench.sweep import plugins
from robustfl_bench.sweep.ends import Incomplete

_ASKED: dict[str, str | None] = {}  # HYDRA_FULL_ERROR as the user set it, before main sets it for hydra

plugins.register()
resolvers.register()


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def _job(cfg: DictConfig) -> float:
    """Execute one run. The launchers of ``sweep.plugins`` execute the runs of a sweep."""
    runtime = HydraConfig.get()
    try:
        refuse_sweep(runtime)
        return execute(cfg, call_of(runtime, cfg), note=note_once())
    except Exception as error:
        if _ASKED.get("HYDRA_FULL_ERROR") == "1":
            raise
        sys.exit(report(error))  # past Hydra, which would print another line


def _options_last(words: Sequence[str]) -> list[str]:
    """The words in an order that Hydra can read. Raises ConfigError for an unknown option."""
    parser = get_args_parser()
    parser.error = _refuse  # type: ignore[method-assign]
    known, others = parser.parse_known_args(words)
    if wrong := [word for word in others if word.startswith("-")]:
        written = wrong[0].lstrip("-") if "=" in wrong[0] else "KEY=VALUE"
        raise ConfigError(f"no option {wrong[0].partition('=')[0]}; settings are written {written}, without --")
    settings = [*known.overrides, *others]
    return [*settings, *(word for word in words if word not in settings)]


def _refuse(message: str) -> NoReturn:
    raise ConfigError(message)


def main() -> None:
    """Console entry point; exit codes are those of ``base.errors``.

    With HYDRA_FULL_ERROR=1 in the environment errors show their tracebacks.
    """
    asked = os.environ.get("HYDRA_FULL_ERROR")
    _ASKED["HYDRA_FULL_ERROR"] = asked
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises errors instead of printing them
    try:
        words = sys.argv[1:] = _options_last(sys.argv[1:])
        check_choices(words)
        sys.argv[1:] = stored.expand(words, sources.know)
        _job()
    except BrokenPipeError:
        raise  # ``entry`` ends every command whose reader has gone
    except KeyboardInterrupt:
        say("interrupted; the same command goes on from the last checkpoint")
        sys.exit(INTERRUPTED)
    except Incomplete as error:
        sys.exit(exit_code(error))
    except Exception as error:
        if asked == "1":
            raise
        sys.exit(report(error))
    finally:
        if asked is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = asked


if __name__ == "__main__":
    main()
