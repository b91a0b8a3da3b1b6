"""The options of ``robustfl-bench``: those of Hydra's command line that it has."""

from argparse import Namespace
from collections.abc import Sequence
from typing import NoReturn

from robustfl_bench.base.console import Parser
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config.beyond import ForHydra

_ELSEWHERE = {
    ("--experimental-rerun",): "rerun=FOLDER runs the config of a run folder again",
    ("--shell-completion", "-sc"): "robustfl-bench completion prints what switches tab completion on",
}
"""Options of Hydra that this command lacks, with what it has instead."""

VERBOSE = ("--verbose", "-v")
"""The option that lists the runs of ``dry_run=true``."""

_INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")


class Flags(Parser):
    """The parser of the words of ``robustfl-bench``. Its errors are ConfigErrors."""

    def __init__(self) -> None:
        super().__init__(prog="robustfl-bench", add_help=False)
        self.overrides = self.add_argument("overrides", nargs="*")
        self.add_argument("--help", "-h", action="store_true")
        self.add_argument("--hydra-help", action="store_true")
        self.add_argument("--run", "-r", action="store_true")
        self.add_argument("--multirun", "-m", action="store_true")
        self.add_argument(*VERBOSE, action="store_true")
        self.add_argument("--cfg", "-c", choices=("job", "hydra", "all"))
        self.add_argument("--resolve", action="store_true")
        self.add_argument("--package", "-p")
        self.add_argument("--config-dir", "-cd")
        self.add_argument("--config-path", "-cp")
        self.add_argument("--config-name", "-cn")
        self.add_argument("--info", "-i", nargs="?", const="all", choices=_INFO)

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError."""
        unknown = message.removeprefix("unrecognized arguments: ").split()[0] if "unrecognized" in message else ""
        if not unknown:
            raise ConfigError(message)
        written = unknown.lstrip("-") if "=" in unknown else "dry_run=true" if unknown == "--dry-run" else "KEY=VALUE"
        raise ConfigError(f"no option {unknown.partition('=')[0]}; settings are written {written}, without --")


def read(arguments: Sequence[str]) -> Namespace:
    """The options among the words of a command line. Raises ConfigError."""
    for word in arguments:
        for names, instead in _ELSEWHERE.items():
            if (name := word.partition("=")[0]) in names:
                raise ConfigError(f"{name} is not for this command: {instead}")
    asked = Flags().parse_args(list(arguments))
    asks = [name for name in ("run", "multirun", "cfg", "info") if getattr(asked, name)]
    if len(asks) > 1:
        raise ConfigError(f"take one of {' and '.join(f'--{name}' for name in asks)}")
    if asked.resolve and not (asked.cfg or asked.help):
        raise ConfigError("--resolve goes with --cfg or --help")
    if asked.package and not asked.cfg:
        raise ConfigError("--package goes with --cfg")
    return asked


def for_hydra(asked: Namespace) -> ForHydra:
    """What a command says to Hydra besides the settings of its runs."""
    return ForHydra(asked.config_path, asked.config_name, tuple(filter(_is_hydras, asked.overrides)))


def of_hydra(asked: Namespace) -> list[str]:
    """The options for Hydra itself, which stand after its overrides. The folder of ``--config-path`` is not among
    them: Hydra would look for it beside the module of this command."""
    flags = [f"--{name.replace('_', '-')}" for name in _SWITCHES if getattr(asked, name)]
    values = {name: getattr(asked, name) for name in ("cfg", "package", "config_dir", "config_name", "info")}
    return [*flags, *(f"--{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None)]


_SWITCHES = ("help", "hydra_help", "run", "multirun", "resolve")


def own(overrides: Sequence[str]) -> list[str]:
    """The overrides that are not for Hydra itself."""
    return [word for word in overrides if not _is_hydras(word)]


def _is_hydras(word: str) -> bool:
    key = word.lstrip("+~").partition("=")[0].partition("@")[0]
    return key.partition(".")[0].partition("/")[0] == "hydra"
