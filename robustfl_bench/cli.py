"""The command ``robustfl-bench``: one run, or a sweep with ``-m``; every error in one line."""

import difflib
import os
import re
import sys
from collections.abc import Sequence

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from robustfl_bench.config.options import CONF
from robustfl_bench.config.settings import KEYS, SCHEMA
from robustfl_bench.errors import ConfigError, DataError, Interrupted
from robustfl_bench.experiment.plan import InfeasibleError, RunFailed, execute, record_infeasible
from robustfl_bench.results.store import RunLocked

_EXPECTED = (HydraException, OmegaConfBaseException, ConfigError, DataError, Interrupted, RunFailed, RunLocked, OSError)

_TRACEBACKS = os.environ.get("HYDRA_FULL_ERROR") == "1"  # what the user set, before main sets it for hydra

ConfigStore.instance().store(name="settings", node=SCHEMA)


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def _job(cfg: DictConfig) -> float:
    """One run; in a sweep, what cannot be run is reported and recorded, and the other runs go on."""
    runtime = HydraConfig.get()
    overrides, choices = list(runtime.overrides.task), dict(runtime.runtime.choices)
    try:
        return execute(cfg, overrides, choices)
    except _EXPECTED as error:
        if runtime.mode != RunMode.MULTIRUN:
            sys.exit(report(error))  # past hydra, which would print a line of its own
        where = f"[{' '.join(overrides)}]"
        if isinstance(error, InfeasibleError):
            record_infeasible(error, overrides, choices)
            say(f"infeasible: {error}  {where}")
        elif isinstance(error, RunLocked):
            say(f"skipped: {error}")
        else:
            say(f"failed: {explain(error)}  {where}")
            raise  # to hydra, which keeps it while the other runs go on
    return float("nan")


def compose(overrides: Sequence[str]) -> tuple[DictConfig, dict[str, str]]:
    """The config that these overrides make, and the options that were chosen; raises what ``explain`` explains."""
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = hydra.compose("config", overrides=[*overrides], return_hydra_config=True)
    return OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"]), dict(cfg.hydra.runtime.choices)


def main() -> None:
    """Console entry point: exit code 0, 2 for bad configuration, 3 for missing or corrupt data, 1 for anything else.

    With HYDRA_FULL_ERROR=1 in the environment errors show their tracebacks.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # hydra hands errors over instead of printing them
    try:
        _job()
    except BrokenPipeError:  # the reader of our output has gone, as in `robustfl-bench --help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        say("interrupted; the same command goes on from the last checkpoint")
        sys.exit(130)
    except Exception as error:
        if _TRACEBACKS:
            raise
        sys.exit(report(error))


def report(error: Exception) -> int:
    """Print the error as one line; returns its exit code."""
    say(f"error: {explain(error)}")
    bad_config = isinstance(error, HydraException | OmegaConfBaseException | ConfigError)
    return 2 if bad_config else 3 if isinstance(error, DataError) else 1


def say(message: str) -> None:
    """Print a line on stderr."""
    print(message, file=sys.stderr, flush=True)


def explain(error: Exception) -> str:
    """One line: what was wrong, what was expected, what to do."""
    if isinstance(error, MissingConfigException) and error.options is not None and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return f"unknown {group} {name!r}{_near(name, error.options)}; there are: {', '.join(error.options)}"
    if not isinstance(error, _EXPECTED):
        line = " ".join(str(error).split())
        return f"{type(error).__name__}: {line} (HYDRA_FULL_ERROR=1 shows where)"
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot write {error.filename!s}: {error.strerror}; choose another folder with results_dir=..."
    text = " ".join(str(error).split())
    if isinstance(error, ConfigCompositionException):
        if match := re.search(r"Could not override '([^']+)'", text):
            if match[1] in (known := _settings()):
                group = match[1].split(".")[0]
                return f"the chosen option of {group} has no setting {match[1]!r}; take another {group}=... with it"
            return f"no setting {match[1]!r}{_near(match[1], known)}; robustfl-bench --cfg job shows all"
        if error.__cause__ is not None and not isinstance(error, MissingConfigException):
            text = f"{text}: {' '.join(str(error.__cause__).split())}"
    return text.split(" object_type=")[0].split(" full_key: ")[0].removeprefix("Error merging override ")


def _near(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=3)
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def _settings() -> list[str]:
    """All keys of the default configuration that the command line can set."""
    keys = list(KEYS)
    for path in CONF.glob("*/*.yaml"):
        if path.parent.name in KEYS:
            content = OmegaConf.load(path)
            keys += [f"{path.parent.name}.{key!s}" for key in content if not str(key).startswith("_")]
    return sorted(set(keys))


if __name__ == "__main__":
    main()
