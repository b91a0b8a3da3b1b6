"""A verb of a command, such as ``table`` of ``robustfl-results``: its parser and its action."""

import shlex
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from robustfl_bench.base import trusted
from robustfl_bench.base.console import Parser, reported


@dataclass(frozen=True)
class Verb:
    """``add`` adds the arguments of the verb to its parser, and ``run`` acts on the arguments that it has read; an exit
    code that ``run`` returns is that of the command."""

    name: str
    help: str
    add: Callable[[Parser], None]
    run: Callable[[Namespace], int | None]


CODE = ("rule", "attack", "against", "overrides", "words", "second")
"""The arguments in which a user names rules and attacks of other packages, and thereby trusts these."""


def add_allow(parser: Parser) -> None:
    """The argument ``--allow``."""
    parser.add_argument(
        "--allow", action="append", default=[], metavar="PACKAGE",
        help="a package whose code may be imported where results name it; repeatable",
    )  # fmt: skip


def obeyed(action: Callable[[Namespace], int | None], asked: Namespace, prefix: str = "error") -> int:
    """As ``reported``, for a verb that may read results: these are not trusted, whatever they name. Imported are this
    package, those of ``--allow``, and those of the classes that the words of CODE name."""
    given = [getattr(asked, name, None) or [] for name in CODE]
    words = [word for value in given for word in ([value] if isinstance(value, str) else value)]
    with trusted.only([*getattr(asked, "allow", []), *trusted.named(words)]):
        return reported(action, asked, prefix=prefix)


def parser_of(program: str, description: str, verbs: Sequence[Verb], allow: bool = False) -> Parser:
    """The parser of a command with these verbs; the arguments that it reads have the action of their verb as
    ``run``. With ``allow``, every verb takes ``--allow``."""
    parser = Parser(prog=program, description=description)
    names = "|".join(verb.name for verb in verbs)
    commands = parser.add_subparsers(required=True, metavar=names, parser_class=Parser)
    for verb in verbs:
        subparser = commands.add_parser(verb.name, help=verb.help, description=verb.help)
        verb.add(subparser)
        if allow:
            add_allow(subparser)
        subparser.set_defaults(run=verb.run)
    return parser


def again(words: Sequence[str], asked: Namespace, options: Sequence[str]) -> str:
    """The command line of ``robustfl-bench`` with these words and with those of the options that were given."""
    given = [word for option in options if (value := getattr(asked, option)) for word in (f"--{option}", value)]
    return shlex.join(["robustfl-bench", *words, *given])
