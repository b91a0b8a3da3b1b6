"""A verb of a command, such as ``table`` of ``robustfl-results``, is a typed function: its signature makes the parser
of its words, and the first paragraph of its docstring the help.

Parameters before ``*`` are words, those after it are options. A sequence can be repeated. A parameter whose type is a
dataclass stands for the fields of that, which several verbs can share. Tab completion reads the files of conf/ alone.
"""

import argparse
import os
import shlex
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, is_dataclass
from inspect import Parameter, signature
from pathlib import Path
from sys import modules
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from robustfl_bench.base import trusted
from robustfl_bench.base.console import Parser, answer_tab, completed, reported
from robustfl_bench.base.trees import flatten
from robustfl_bench.runner.config import identity, options, words
from robustfl_bench.train.settings import CHOICES, DEVICES

Action = Callable[..., int | None]
"""A verb; an exit code that it returns is that of the command."""


@dataclass(frozen=True)
class Argument:
    """What the annotation of a parameter says to the parser, besides the type."""

    help: str | None = None
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    """the names of an option, if not those of the parameter"""
    choices: Collection[str] | None = None
    read: Callable[[str], Any] | None = None
    """makes a value of a word, unless the type of the parameter does"""
    tab: Callable[..., Iterable[str]] | None = None
    """the candidates of tab completion"""
    either: str = ""
    """options with the same text here exclude each other; without defaults, one of them is required"""


def override(help: str, metavar: str = "OVERRIDE") -> Argument:
    """Of words, or conditions, as for ``robustfl-bench``, with their tab completion."""
    return Argument(help, metavar, tab=overrides)


JsonFormat = Annotated[str, Argument("json: for programs (%(default)s)", choices=("text", "json"))]
Allow = Annotated[
    Sequence[str], Argument("a package whose code may be imported where results name it; repeatable", "PACKAGE")
]

CODE = ("rule", "attack", "against", "overrides", "words", "second")
"""The arguments in which a user names rules and attacks of other packages, and thereby trusts these."""


def command(
    verb: Action, program: str, reads: bool = True, prefix: str = "error", allow: bool = False, **about: Any
) -> Callable[..., int]:
    """The entry point of a verb that is a whole command; ``reads`` as for ``obeyed``, ``allow`` as for
    ``parser_of``."""

    def main(argv: Sequence[str] | None = None) -> int:
        parser = parser_alone(verb, program, **about)
        if allow:
            _add_argument(parser, _ALLOW, {})
        answer_tab(parser)
        asked = parser.parse_args(argv)
        return obeyed(verb, asked, prefix) if reads else reported(called, verb, asked, prefix=prefix)

    vars(main)["verbs"] = (verb,)
    return main


def obeyed(verb: Action, asked: Namespace, prefix: str = "error") -> int:
    """Call a verb that may read results, see ``trusting``. Errors are ``reported``."""
    with trusting(asked, vars(asked).get("allow", ())):
        return reported(called, verb, asked, prefix=prefix)


def trusting(asked: Namespace, allowed: Sequence[str]) -> AbstractContextManager[None]:
    """Within it results are not trusted, whatever they name. Imported are this package, those that are ``allowed``, and
    those of the classes that the words of CODE name."""
    given = [getattr(asked, name, None) or [] for name in CODE]
    words = [word for value in given for word in ([value] if isinstance(value, str) else value)]
    return trusted.only([*allowed, *trusted.named(words)])


def parser_of(program: str, description: str, verbs: Sequence[Action], allow: bool = False) -> Parser:
    """The parser of a command with these verbs; the arguments that it reads have the asked one as ``verb``. With
    ``allow``, every verb takes ``--allow``."""
    parser = Parser(prog=program, description=description)
    commands = parser.add_subparsers(required=True, metavar="|".join(map(name_of, verbs)), parser_class=Parser)
    for verb in verbs:
        about = _paragraph(verb).rstrip(".")
        about = about[0].lower() + about[1:]
        subparser = commands.add_parser(name_of(verb), help=about, description=about)
        _add_arguments(subparser, verb)
        if allow:
            _add_argument(subparser, _ALLOW, {})
        subparser.set_defaults(verb=verb)
    return parser


def parser_alone(verb: Action, program: str, **about: Any) -> Parser:
    """The parser of a verb that is a whole command."""
    parser = Parser(prog=program, description=_paragraph(verb), **about)
    _add_arguments(parser, verb)
    return parser


def arguments_of(target: Callable[..., Any]) -> dict[str, Argument]:
    """What is said of each argument of a verb, by its name."""
    taken: dict[str, Argument] = {}
    for parameter in _parameters(target):
        if parameter.is_group:
            taken |= arguments_of(parameter.type)
        else:
            said = (item for item in get_args(parameter.type) if isinstance(item, Argument))
            taken[parameter.name] = next(said, Argument())
    return taken


def called(verb: Action, asked: Namespace) -> int | None:
    """Call a verb with the arguments that its parser has read."""
    code: int | None = _filled(verb, vars(asked))
    return code


def name_of(verb: Action) -> str:
    """The word that asks for a verb; a function whose name would hide one of Python's ends with ``_``."""
    return verb.__name__.rstrip("_")


def again(words: Sequence[str], asked: object, options: Sequence[str]) -> str:
    """The command line of ``robustfl-bench`` with these words and with those of the options that were given."""
    given = [word for option in options if (value := getattr(asked, option)) for word in (f"--{option}", str(value))]
    return shlex.join(["robustfl-bench", *words, *given])


def _paragraph(verb: Action) -> str:
    return " ".join((verb.__doc__ or "").partition("\n\n")[0].split())


class _Parameter(NamedTuple):
    name: str
    type: Any
    default: Any
    is_option: bool

    @property
    def is_group(self) -> bool:
        """Whether it stands for the fields of a dataclass."""
        return isinstance(self.type, type) and is_dataclass(self.type)


class _Once(argparse.Action):
    """Keeps the value of an option, and refuses a second one, which would replace the first without a word."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Namespace, values: Any, option: str | None = None
    ) -> None:
        given = vars(namespace).setdefault("_given", set())
        if self.dest in given:
            parser.error(f"{option} is given twice, and takes one value")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


_PLACES = ("FILE", "FOLDER", "DIR")
"""How the words for files and folders begin."""
_ALLOW = _Parameter("allow", Allow, (), is_option=True)


def _parameters(target: Callable[..., Any]) -> Iterator[_Parameter]:
    """The parameters of a function, or the fields of a dataclass."""
    homes: dict[str, Any] | None = None  # of a class; without them its lambdas would know the names within it alone
    if isinstance(target, type):
        homes = {
            name: value for base in reversed(target.__mro__) for name, value in vars(modules[base.__module__]).items()
        }
    hints = get_type_hints(target, homes, include_extras=True)
    for name, parameter in signature(target).parameters.items():
        yield _Parameter(name, hints[name], parameter.default, parameter.kind is Parameter.KEYWORD_ONLY)


def _filled(target: Callable[..., Any], values: dict[str, Any]) -> Any:
    """What the function returns for the values of its parameters, or an object of the dataclass."""
    return target(**{of.name: _filled(of.type, values) if of.is_group else values[of.name]
                     for of in _parameters(target)})  # fmt: skip


def _add_arguments(parser: Parser, target: Callable[..., Any], groups: dict[str, Any] | None = None) -> None:
    groups = {} if groups is None else groups  # by the text that their options share
    for parameter in _parameters(target):
        if parameter.is_group:
            _add_arguments(parser, parameter.type, groups)
        else:
            _add_argument(parser, parameter, groups)


def _add_argument(parser: Parser, parameter: _Parameter, groups: dict[str, Any]) -> None:
    """Add the argument of a parameter to a parser, or to a group of one."""
    name, kind, default, is_option = parameter
    given = Argument()
    if get_origin(kind) is Annotated:
        kind, given, *_ = get_args(kind)
    is_required, is_many = default is Parameter.empty, get_origin(kind) is Sequence
    kind = next((of for of in get_args(kind) if of is not NoneType), kind)
    place: Any = parser
    if given.either:
        if given.either not in groups:
            groups[given.either] = parser.add_mutually_exclusive_group(required=is_required)
        place, is_required = groups[given.either], False
    about: dict[str, Any] = {"help": given.help, "metavar": given.metavar, "choices": given.choices}
    if kind is bool:
        about["action"] = "store_true"
    elif given.read:
        about["type"] = given.read
    elif (given.metavar or "").partition(".")[0] in _PLACES:  # a shell leaves the home folder in --option=~/name
        about["type"] = lambda word: kind(os.path.expanduser(word))
    elif kind is not str:
        about["type"] = kind
    usual = None if default is Parameter.empty else default
    if is_option:
        names = given.flags or (f"--{name.replace('_', '-')}",)
        about |= {"dest": name, "required": is_required, "default": [] if is_many else usual}
        about |= {"action": "append"} if is_many else {} if kind is bool else {"action": _Once}
    else:
        names = (name,)
        if is_many:
            about["nargs"] = "+" if is_required else "*"
        elif not is_required:
            about |= {"nargs": "?", "default": usual}
    argument = place.add_argument(*names, **{key: value for key, value in about.items() if value is not None})
    if given.tab:
        completed(argument, given.tab)


_FOLDERS = ("data_dir", "results_dir", *identity.FORMS)


def overrides(prefix: str, parsed_args: Namespace, **_: object) -> list[str]:
    """The overrides that can stand where ``prefix`` is, as ``argcomplete`` asks for them.

    A key ends in ``=``. Of several values the last is completed: ``aggregator=krum,bo`` becomes
    ``aggregator=krum,boba``. The keys of a part are those of the option that an earlier override chooses.
    """
    key, equals, value = prefix.partition("=")
    if not equals:
        return [f"{name}=" for name in _keys(key, getattr(parsed_args, "overrides", None) or ())]
    done, comma, last = value.rpartition(",")
    return [f"{key}={done}{comma}{name}" for name in _values(key.lstrip("+").partition("@")[0], last)]


def _keys(prefix: str, given: Sequence[str]) -> Iterable[str]:
    groups, scalars = options.defaults()
    group = prefix.partition(".")[0]
    if "." in prefix and group in groups:
        chosen = {**groups, **dict(word.split("=", 1) for word in given if "=" in word)}
        content = {group: options.chosen(group, chosen[group])}
        return [name for name, _ in flatten(content) if not name.endswith("._target_")]
    return [*groups, *scalars, *(f"+{name}" for name in words.PRESETS)]


def _values(key: str, begun: str) -> Iterable[str]:
    if key in _FOLDERS:
        inside = Path(begun if begun.endswith("/") else f"{begun}*").parent
        return [f"{path}/" for path in inside.iterdir() if path.is_dir()] if inside.is_dir() else []
    return DEVICES if key == "device" else CHOICES.get(key) or options.names(key)
