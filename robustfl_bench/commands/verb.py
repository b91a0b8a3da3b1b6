"""A verb of a command, such as ``table`` of ``robustfl-results``: its parser and its action."""

import shlex
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from robustfl_bench.base.console import Parser


@dataclass(frozen=True)
class Verb:
    """``add`` adds the arguments of the verb to its parser, and ``run`` acts on the arguments that it has read; an exit
    code that ``run`` returns is that of the command."""

    name: str
    help: str
    add: Callable[[Parser], None]
    run: Callable[[Namespace], int | None]


def parser_of(program: str, description: str, verbs: Sequence[Verb]) -> Parser:
    """The parser of a command with these verbs; the arguments that it reads have the action of their verb as
    ``run``."""
    parser = Parser(prog=program, description=description)
    names = "|".join(verb.name for verb in verbs)
    commands = parser.add_subparsers(required=True, metavar=names, parser_class=Parser)
    for verb in verbs:
        subparser = commands.add_parser(verb.name, help=verb.help, description=verb.help)
        verb.add(subparser)
        subparser.set_defaults(run=verb.run)
    return parser


def again(words: Sequence[str], asked: Namespace, options: Sequence[str]) -> str:
    """The command line of ``robustfl-bench`` with these words and with those of the options that were given."""
    given = [word for option in options if (value := getattr(asked, option)) for word in (f"--{option}", value)]
    return shlex.join(["robustfl-bench", *words, *given])
