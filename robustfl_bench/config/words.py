"""The words of a command line: overrides ``key=value``, their values by Hydra's grammar, and sweeps over them."""

import re
from collections.abc import Sequence
from typing import Any

from robustfl_bench.base.errors import ConfigError

_DIGITS = r"(?:0|[1-9](?:_?\d)*)"

_WHOLE = re.compile(rf"[+-]?{_DIGITS}")

_POINT = rf"(?:{_DIGITS}?\.\d(?:_?\d)*|{_DIGITS}\.)"

_NUMBER = re.compile(rf"[+-]?(?:{_POINT}|(?:{_DIGITS}|{_POINT})[eE][+-]?\d(?:_?\d)*|[iI][nN][fF]|[nN][aA][nN])")


RENAMED = {"communication": "protocol"}
"""Config groups that had another name, with their present one."""


def check_names(overrides: Sequence[str]) -> None:
    """Raise ConfigError, with the override to write, for one that uses the former name of a config group."""
    for override in overrides:
        key, equals, value = override.partition("=")
        old, dot, option = key.partition(".")
        if equals and (new := RENAMED.get(old)) is not None:
            now = f"{new}{dot}{option}={value if value != 'none' else 'synchronous'}"
            raise ConfigError(f"{old} is now called {new}: write {now}")


def parsed(overrides: Sequence[str]) -> dict[str, str]:
    """The overrides by key, including a ``+``; the last one for a key counts."""
    check_names(overrides)
    given = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise ConfigError(f"an override is KEY=VALUE, got {override!r}")
        given[key] = value
    return given


def named(value: Any) -> str:
    """The option, or list of options, of a value: ``krum`` or ``[clipping,nnm]``."""
    return f"[{','.join(map(str, value))}]" if isinstance(value, list) else str(value)


def read_value(text: str) -> Any:
    """The value of a word of the command line, by Hydra's grammar, not YAML's (``yes`` is a string)."""
    text = text.strip()
    inner = text[1:-1]
    match text[:1] + text[-1:] if len(text) > 1 else "":
        case "''" | '""':
            return inner.replace(f"\\{text[0]}", text[0])
        case "[]":
            return [read_value(word) for word in split(inner)] if inner.strip() else []
        case "{}":
            pairs = [word.partition(":") for word in split(inner)] if inner.strip() else []
            return {read_value(key): read_value(value) for key, _, value in pairs}
    if (word := text.lower()) in ("null", "true", "false"):
        return {"null": None, "true": True, "false": False}[word]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else re.sub(r"\\([\\()\[\]{}:=,\s])", r"\1", text)


def values(text: str) -> list[str]:
    """The values of a setting: several for ``a,b``, ``range(3)`` or ``[x],[y]``, which sweep it, else one."""
    words = [word.strip() for word in split(text)]
    if len(words) == 1 and (match := re.fullmatch(r"range\(([-\d, ]+)\)", words[0])):
        return [str(number) for number in range(*map(int, match[1].split(",")))]
    return [word for word in words if word] or [text]


def split(text: str) -> list[str]:
    """The text between commas outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "[({":
            depth += 1
        elif character in "])}":
            depth -= 1
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return parts
