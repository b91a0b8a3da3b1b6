"""Shared by the four commands: lines for the user, arguments, and answers for programs. Imports nothing heavy."""

import argparse
import json
import math
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from robustfl_bench.base.errors import CONFIGURATION, ConfigError, DataError, exit_code, explain


def say(line: str) -> None:
    """Print a line for the user on stderr, at once."""
    print(printable(line), file=sys.stderr, flush=True)


def counted(count: int, noun: str) -> str:
    """A number of things: ``1 run``, ``2 runs``."""
    return f"{count} {noun}{'s' * (count != 1)}"


def is_live() -> bool:
    """Whether a line on stderr can be updated: on a terminal, and in a notebook."""
    return sys.stderr.isatty() or ("ipykernel" in sys.modules and type(sys.stderr).__module__.startswith("ipykernel"))


def printable(line: str) -> str:
    """The line with each control character and line break as Python writes it, such as ``\\x1b``. A name in somebody
    else's run folder must not steer the terminal, nor end a line or a comment."""
    return line if line.isprintable() else "".join(map(_printable, line))


def _printable(char: str) -> str:
    return char if char.isprintable() or unicodedata.category(char) == "Zs" else repr(char)[1:-1]


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


def reported(command: Callable[..., int | None], *arguments: object, prefix: str = "error") -> int:
    """Call ``command`` with the arguments; returns its exit code. An error becomes one line, but for an OSError, which
    the entry point reports. With HYDRA_FULL_ERROR=1 in the environment one that is not the input's shows where."""
    try:
        return command(*arguments) or 0
    except OSError:
        raise
    except Exception as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1" and not isinstance(error, ConfigError | DataError):
            raise
        return report(error, prefix)


def report(error: Exception, prefix: str = "error") -> int:
    """Print an error as one line; returns its exit code."""
    say(f"{prefix}: {explain(error)}")
    return exit_code(error)


def completed(action: argparse.Action, candidates: Callable[..., Iterable[str]]) -> None:
    """Offer candidates with the typed prefix for an argument's tab completion."""
    action.completer = candidates  # type: ignore[attr-defined]


def answer_tab(parser: argparse.ArgumentParser) -> None:
    """If the shell asks for tab completion of this parser's command, print the candidates and exit."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser, always_complete_options=False)


class _HelpAsked(Exception):
    """A pass of ``Parser`` met ``--help``."""


class Parser(argparse.ArgumentParser):
    """An argument parser with errors of one line that accepts positional words on both sides of options."""

    _in_passes = False

    def add_argument(self, *names: str, **given: Any) -> argparse.Action:
        """As in argparse, but any number of words may also be none: argparse calls them required where some are."""
        if given.get("nargs") == "*":
            given.setdefault("default", [])
        return super().add_argument(*names, **given)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As ``parse_intermixed_args``, also for sub-commands. An unknown word is an error."""
        if self._subparsers or self._in_passes:  # options first, then words: each pass comes here again
            return super().parse_known_args(args, namespace)
        self._in_passes = True
        try:
            return self.parse_intermixed_args(args, namespace), []
        except _HelpAsked:
            super().print_help()
            self.exit()
        except AttributeError as error:  # of argparse's ``finally``, when Ctrl-C comes before what it puts back is kept
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise
        finally:
            self._in_passes = False

    def print_help(self, file: Any = None) -> None:
        """Print the help after the passes: within the first one, argparse hides the defaults of positional words."""
        if self._in_passes:
            raise _HelpAsked
        super().print_help(file)

    def error(self, message: str) -> NoReturn:
        """Print the error as one line and exit."""
        self.exit(CONFIGURATION, f"{self.prog}: {message} (see {self.prog} --help)\n")


def as_json(answer: Any) -> str:
    """The answer as JSON of one line per value. A number that is not finite is ``null``, as JSON has none."""
    return json.dumps(_plain(answer), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {str(name): _plain(entry) for name, entry in value.items()}
        case list() | tuple():
            return [_plain(entry) for entry in value]
        case float():
            return value if math.isfinite(value) else None
        case str() | bool() | int() | None:
            return value
        case _:  # a NumPy number
            return _plain(value.item()) if hasattr(value, "item") else str(value)
