"""The keys of an option: the meaning of each is the string below a field of the class that the option builds."""

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.fields import Option, options_of
from robustfl_bench.runner.config import options, targets
from robustfl_bench.runner.config.options import HERE, Search

_KEY = re.compile(r"(?P<code>(?P<nested>  - /\w+@)?(?P<name>[a-z]\w*): [^#]*[^# ])(?: +# ?(?P<comment>.*))?")
_CONTINUED = re.compile(r" {8,}# ?(?P<comment>.*)")
_ALIGNED = 45  # columns; the comments of longer lines are in no column with others


@dataclass(frozen=True)
class Key:
    """A field of a class: its ``meaning``, the values that it takes, and its default, MISSING if it has none."""

    name: str
    meaning: str
    option: Option
    default: Any

    @property
    def text(self) -> str:
        """The meaning and the choices in one line, as in a comment."""
        words = [
            f"{word}: {note}" if word == "null" else f"{word} ({note})" if note else word
            for word, note in self.option.choices.items()
        ]
        return f"{self.meaning}: {' | '.join(words)}" if words else self.meaning

    @property
    def full_text(self) -> str:
        """The text, after the range of a number."""
        return self.text if self.option.choices or not self.option.allowed else f"{self.option.allowed}; {self.text}"


@cache
def keys_of(cls: type) -> Mapping[str, Key]:
    """The fields of a class that a config can set, by name."""
    meanings = {name: text for base in reversed(cls.__mro__) for name, text in _strings_below(base).items()}
    described = {name: option for name, (option, _) in options_of(cls).items()}
    found = {}
    for field in fields(cls) if is_dataclass(cls) else ():
        if field.init:
            default = field.default if field.default_factory is MISSING else field.default_factory()
            meaning, option = meanings.get(field.name, ""), described.get(field.name, Option())
            found[field.name] = Key(field.name, meaning, option, default)
    return MappingProxyType(found)


@cache
def _strings_below(cls: type) -> Mapping[str, str]:
    """The strings that stand below the fields of a class, in one line each, by field; none without its source."""
    if "__annotations__" not in vars(cls):
        return {}
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for line, below in zip(tree.body, tree.body[1:], strict=False):
        text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and isinstance(text, str):
            found[line.target.id] = " ".join(text.split())
    return found


def keys_at(group: str, name: str, search: Search = HERE) -> Mapping[str, Key]:
    """The keys of an option in conf/; none if its class cannot be imported."""
    try:
        return keys_of(targets.found_part(group, options.option(group, name, (), search)["_target_"]))
    except (ConfigError, KeyError):
        return {}


def commented(text: str, meanings: Mapping[str, str], group: str = "", width: int = 120) -> str:
    """YAML of a config in which each key that has a meaning is followed by it as a comment, at most ``width`` wide.

    These are the keys at the beginning of a line, and those in the defaults list of an option of ``group``, such as
    ``- /aggregator@rule: krum``. Lines without such a key stay as they are.
    """
    lines: list[str] = []
    block: list[tuple[str, str]] = []
    for line in [*_joined(text), ""]:
        key = _KEY.fullmatch(line)
        if key and (meaning := meanings.get(key["name"])):
            below = f"; its keys are under {group}.{key['name']}" if key["nested"] else ""
            block.append((key["code"], meaning + below))
        else:
            lines += [*_aligned(block, width), line]
            block = []
    return "\n".join(lines)


def _joined(text: str) -> list[str]:
    """The lines of YAML; a comment that is continued below a line is put behind it."""
    lines: list[str] = []
    for line in text.splitlines():
        if lines and (continued := _CONTINUED.fullmatch(line)):
            lines[-1] += f" {continued['comment']}"
        else:
            lines.append(line)
    return lines


def _aligned(block: list[tuple[str, str]], width: int) -> list[str]:
    """Lines of code, each with its comment; all comments begin in one column."""
    column = max((len(code) for code, _ in block if len(code) <= _ALIGNED), default=0)
    lines = []
    for code, comment in block:
        begin = f"{code:{column}}   # "
        margin = f"{'':{len(begin) - 2}}# "
        lines += textwrap.wrap(comment, width, initial_indent=begin, subsequent_indent=margin, break_on_hyphens=False)
    return lines
