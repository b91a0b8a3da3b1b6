"""The options of ``robustfl-bench``: those of Hydra's command line that it has."""

from argparse import Namespace
from collections.abc import Sequence
from typing import NoReturn

from robustfl_bench.base.console import Parser
from robustfl_bench.base.errors import ConfigError

_ELSEWHERE = {
    ("--config-name", "-cn"): "a preset of your own changes the defaults: --config-dir FOLDER +experiment=NAME",
    ("--config-path", "-cp"): "--config-dir FOLDER adds options of your own to those of the package",
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
        self.add_argument("--info", "-i", nargs="?", const="all", choices=_INFO)

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError."""
        unknown = message.removeprefix("unrecognized arguments: ").split()[0] if "unrecognized" in message else ""
        if not unknown:
            raise ConfigError(message)
        written = unknown.lstrip("-") if "=" in unknown else "KEY=VALUE"
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


def own(overrides: Sequence[str]) -> list[str]:
    """The overrides of a sweep that are not for Hydra itself. Raises ConfigError for Hydra's search path."""
    keys = {word: word.lstrip("+~").partition("=")[0] for word in overrides}
    if searching := [word for word, key in keys.items() if key == "hydra.searchpath"]:
        raise ConfigError(f"{searching[0]} is not read: --config-dir FOLDER adds a folder of options")
    return [word for word, key in keys.items() if key.partition(".")[0].partition("/")[0] != "hydra"]
