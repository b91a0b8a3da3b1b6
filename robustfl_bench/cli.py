"""The command ``robustfl-bench``: one run, or a sweep with ``-m``; every error in one line."""

import os
import sys

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from robustfl_bench.composition import call_of, check_choices, know, refuse_sweep
from robustfl_bench.config import stored
from robustfl_bench.config.options import CONF
from robustfl_bench.console import say
from robustfl_bench.entry import INTERRUPTED
from robustfl_bench.experiment.execute import execute
from robustfl_bench.explain import report
from robustfl_bench.sweep import plugins
from robustfl_bench.sweep.ends import Incomplete

_ASKED: dict[str, str | None] = {}  # HYDRA_FULL_ERROR as the user set it, before main sets it for hydra

plugins.register()


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def _job(cfg: DictConfig) -> float:
    """One run. The runs of a sweep are made by the launchers of ``sweep.plugins``."""
    runtime = HydraConfig.get()
    try:
        refuse_sweep(runtime)
        return execute(cfg, call_of(runtime, cfg))
    except Exception as error:
        if _ASKED.get("HYDRA_FULL_ERROR") == "1":
            raise
        sys.exit(report(error))  # past hydra, which would print a line of its own


def main() -> None:
    """Console entry point: exit code 0, 2 for bad configuration, 3 for missing or corrupt data, 1 for anything else.

    With HYDRA_FULL_ERROR=1 in the environment errors show their tracebacks.
    """
    asked = os.environ.get("HYDRA_FULL_ERROR")
    _ASKED["HYDRA_FULL_ERROR"] = asked
    os.environ["HYDRA_FULL_ERROR"] = "1"  # hydra hands errors over instead of printing them
    try:
        check_choices(sys.argv[1:])
        expanded = stored.expand(sys.argv[1:], know)
        sys.argv[1:] = sorted(expanded, key=lambda word: word not in ("-m", "--multirun"))  # hydra wants it first
        _job()
    except BrokenPipeError:
        raise  # ``entry`` ends every command whose reader has gone
    except KeyboardInterrupt:
        say("interrupted; the same command goes on from the last checkpoint")
        sys.exit(INTERRUPTED)
    except Incomplete as error:
        sys.exit(error.code)
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
