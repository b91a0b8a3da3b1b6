"""Shared by the four commands: lines for the user, arguments, exit codes. Imports nothing heavy."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from robustfl_bench.base.errors import ConfigError, DataError


def say(line: str) -> None:
    """Print a line for the user on stderr, at once."""
    print(line, file=sys.stderr, flush=True)


def note(line: str) -> None:
    """Print a line on a setting that is valid but looks unintended."""
    say(f"note: {line}")


def note_once() -> Callable[[str], None]:
    """A ``note`` that prints each line once, for a command that checks many runs."""
    said = set[str]()

    def tell(line: str) -> None:
        if line not in said:
            said.add(line)
            note(line)

    return tell


def exit_code(error: Exception) -> int:
    """2 for bad configuration, 3 for missing or damaged data, 1 for anything else."""
    return 2 if isinstance(error, ConfigError) else 3 if isinstance(error, DataError) else 1


def reported(command: Callable[..., int | None], *arguments: object, prefix: str = "error") -> int:
    """Call ``command`` with the arguments; returns its exit code. A ConfigError or a DataError becomes one line."""
    try:
        return command(*arguments) or 0
    except (ConfigError, DataError) as error:
        say(f"{prefix}: {' '.join(str(error).split())}")
        return exit_code(error)


def completed(action: argparse.Action, candidates: Callable[..., Iterable[str]]) -> None:
    """Offer candidates with the typed prefix for an argument's tab completion."""
    action.completer = candidates  # type: ignore[attr-defined]


def answer_tab(parser: argparse.ArgumentParser) -> None:
    """If the shell asks for tab completion of this parser's command, print the candidates and exit."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser, always_complete_options=False)


class Parser(argparse.ArgumentParser):
    """An argument parser with errors of one line that accepts positional words on both sides of options."""

    _in_passes = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As ``parse_intermixed_args``, also for sub-commands. An unknown word is an error."""
        if self._subparsers or self._in_passes:  # options first, then words: each pass comes here again
            return super().parse_known_args(args, namespace)
        self._in_passes = True
        try:
            return self.parse_intermixed_args(args, namespace), []
        finally:
            self._in_passes = False

    def error(self, message: str) -> NoReturn:
        """Exit with code 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")
