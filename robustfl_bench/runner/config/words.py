"""The words of a command line: overrides such as ``key=value``, their values by Hydra's grammar, sweeps over them."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.runner.config.beyond import Beyond

_WORD = re.compile(r"(?P<sign>\+{0,2}|~)(?P<key>[^=@\s~+]+)(?:@(?P<place>[^=@\s]+))?(?:=(?P<written>.*))?", re.DOTALL)

_DIGITS = r"(?:0|[1-9](?:_?\d)*)"

_WHOLE = re.compile(rf"[+-]?{_DIGITS}", re.ASCII)

_POINT = rf"(?:{_DIGITS}?\.\d(?:_?\d)*|{_DIGITS}\.)"

_NUMBER = re.compile(
    rf"[+-]?(?:{_POINT}|(?:{_DIGITS}|{_POINT})[eE][+-]?\d(?:_?\d)*|[iI][nN][fF]|[nN][aA][nN])", re.ASCII
)

_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)

_BARE = re.compile(r"(?:\\[^'\"]|\\$|\$\{(?:[^{}]|\{[^{}]*\})*\}|[^\\()\[\]{}=,'\"])*", re.DOTALL)
"""Text without quotes: special characters follow a backslash or are in an interpolation ``${...}``."""

_SAFE = re.compile(r"(?! )(?:[\w/+.$%*@?|: -]|\$\{[^{}'\",]*\})+(?<! )", re.ASCII)
"""Text that Hydra also reads without quotes."""

_SPLITTING = re.compile(r"[,\\'\"()\[\]{}]")

_PAIRS = {"[": "]", "(": ")", "{": "}"}

_SWEEPS = re.compile(r"\s*(?:choice|range|interval|glob|(?:sort|shuffle)(?!\s*\(\s*\[)|tag)\s*\(.*\)\s*", re.DOTALL)
"""Hydra's functions for several values. Here only ``range`` of whole numbers is read."""

_FUNCTION = re.compile(r"(?:int|float|str|bool|sort|shuffle|json_str|extend_list)\s*\(.*\)", re.DOTALL)
"""Hydra's functions for one value, which are not read here."""

LARGEST, RUNS = 2**63 - 1, 100_000
"""The largest whole number, as that of NumPy and PyTorch, and the most values of a setting."""

RENAMED = {"communication": "protocol"}
"""Config groups that had another name, with their present one."""

OWN = "my"
"""The root of keys that users add for settings to refer to. They are no part of a run."""

PRESETS = ("setting", "method", "threat", "experiment")
"""The groups of presets. A run has none unless ``+`` adds it, so that ``experiment=demo`` means the same."""


@dataclass(frozen=True)
class Override:
    """A word of a command line: ``key=value``, ``+key=value`` to add a setting, ``++key=value`` to set or to add one,
    ``~key`` or ``~key=value`` to remove one.

    In ``group@place=option``, ``place`` is the key that the option goes to. ``written`` is the value as it was typed,
    None for ``~key``.
    """

    text: str
    sign: str
    key: str
    place: str | None
    written: str | None

    @cached_property
    def target(self) -> str:
        """What is set, with its sign: ``+group@place``."""
        return f"{self.sign}{self.key}" + (f"@{self.place}" if self.place else "")

    @cached_property
    def root(self) -> str:
        """The first part of the key: ``aggregator`` of ``aggregator.num_selected``, ``hydra`` of ``hydra/launcher``."""
        return re.split("[./]", self.key)[0]

    @cached_property
    def value(self) -> Any:
        """The value. Raises ConfigError where there is none, or several."""
        if self.is_swept:
            lists = f"; a list is written [{self.written}], and text with a comma in quotes" * (len(self.values) > 1)
            raise ConfigError(f"{self.text} has several values: robustfl-bench -m makes a run of each{lists}")
        try:
            return read_value(self.values[0])
        except ConfigError:
            raise
        except ValueError:
            raise unreadable(self.text) from None

    @cached_property
    def is_swept(self) -> bool:
        """Whether there are several values, for the runs of a sweep."""
        return len(self.values) > 1 or _SWEEPS.fullmatch(self.written or "") is not None

    @cached_property
    def values(self) -> list[str]:
        """The values of a sweep as text, a single one if nothing is swept. Raises ConfigError."""
        try:
            return values(self.written or "")
        except ConfigError:
            raise
        except ValueError:
            raise unreadable(self.text) from None


def unreadable(text: str) -> ConfigError:
    """The error for a word that is no override."""
    advice = "settings are KEY=VALUE without spaces around =; quote values with special characters"
    return ConfigError(f"""cannot read {text!r}: {advice}: "key='a b'\"""")


@lru_cache(maxsize=10_000)
def override(text: str) -> Override:
    """The override that a word is. Raises ConfigError."""
    if (match := _WORD.fullmatch(text)) is None:
        raise unreadable(text)
    if match["written"] is None and match["sign"] != "~":
        preset = "; a preset is chosen by +experiment=NAME or +setting=NAME" if "/" in text else ""
        raise ConfigError(f"an override is KEY=VALUE, got {text!r}{preset}")
    if (new := RENAMED.get(old := re.split("[./]", match["key"])[0])) is not None:
        value = "synchronous" if match["written"] == "none" else match["written"]
        raise ConfigError(f"{old} is now called {new}: write {new}{match['key'].removeprefix(old)}={value}")
    adds = match["key"] in PRESETS and not (match["sign"] or match["place"])
    return Override(f"+{text}", **(match.groupdict() | {"sign": "+"})) if adds else Override(text, **match.groupdict())


def overrides(texts: Iterable[str]) -> list[Override]:
    """The overrides of a command line; the last one for a key counts. Raises ConfigError."""
    return list({one.target: one for one in map(override, texts)}.values())


def named(value: Any) -> str:
    """The option, or list of options, of a value: ``krum`` or ``[clipping,nnm]``."""
    return f"[{','.join(map(str, value))}]" if isinstance(value, list) else str(value)


def read_value(text: str) -> Any:
    """The value of a word of the command line, by Hydra's grammar, not YAML's (``yes`` is a string). Raises
    ValueError."""
    text = text.strip()
    match text[:1]:
        case "'" | '"':
            if not _QUOTED.fullmatch(text):
                raise ValueError(text)
            return re.sub(rf"(\\+)(?={text[0]}|\Z)", lambda run: run[1][: len(run[1]) // 2], text[1:-1])
        case "[":
            return [read_value(word) for word in _inside(text)]
        case "{":
            pairs = [word.partition(":") for word in _inside(text)]
            if not all(colon for _, colon, _ in pairs):
                raise ValueError(text)
            return {_bare(key.strip()): read_value(value) for key, _, value in pairs}
    return _bare(text)


def _inside(text: str) -> list[str]:
    """The parts of a list or mapping."""
    if text[-1] != _PAIRS[text[0]]:
        raise ValueError(text)
    parts = split(text[1:-1]) if text[1:-1].strip() else []
    if not all(part.strip() for part in parts):
        raise ValueError(text)
    return parts


def _bare(text: str) -> Any:
    """The value of text without quotes."""
    if (word := text.lower()) in ("null", "true", "false"):
        return {"null": None, "true": True, "false": False}[word]
    if _WHOLE.fullmatch(text):
        if len(text) > 30 or abs(int(text)) > LARGEST:
            raise ConfigError(f"{text[:30]}{'...' * (len(text) > 30)}: whole numbers go up to {LARGEST}")
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    if not _BARE.fullmatch(text):
        if _FUNCTION.fullmatch(text):
            raise Beyond(f"{text} is a function of Hydra")
        raise ValueError(text)
    return re.sub(r"\\([\\()\[\]{}:=,\s])", r"\1", text)


def written(value: Any) -> str:
    """The text that ``read_value`` reads as this value."""
    match value:
        case None | True | False:
            return {None: "null", True: "true", False: "false"}[value]
        case str():
            return value if _SAFE.fullmatch(value) and _bare(value) == value else _quoted(value)
        case Mapping():
            return f"{{{','.join(f'{written(key)}:{written(item)}' for key, item in value.items())}}}"
        case Sequence():
            return f"[{','.join(map(written, value))}]"
    return str(value)


def _quoted(text: str) -> str:
    doubled = re.sub(r"(\\+)(?='|\Z)", r"\1\1", text).replace("'", "\\'")
    return f"'{doubled}'"


def values(text: str) -> list[str]:
    """The values of a setting: several for ``a,b``, ``range(3)`` or ``[x],[y]``, which sweep it, else one. Raises
    ValueError."""
    words = [word.strip() for word in split(text)]
    if len(words) == 1 and (match := re.fullmatch(r"range\(([-\d, ]+)\)", words[0])):
        numbers = range(*map(int, match[1].split(",")))
        listed = [str(number) for number in itertools.islice(numbers, RUNS + 1)]
        if len(listed) > RUNS:
            raise ConfigError(f"{text[:60]} has more than {RUNS} values, the most that a sweep has of a setting")
        if not listed:
            raise ConfigError(f"{text} has no values")
        return listed
    if len(words) > 1 and not all(words):
        raise ValueError(text)
    return words


def calls(text: str) -> bool:
    """Whether the value of an override is a function of Hydra for one value."""
    return _FUNCTION.fullmatch(text.partition("=")[2].strip()) is not None


def split(text: str) -> list[str]:
    """The text between commas outside brackets and quotes. Raises ValueError where these do not match."""
    if not _SPLITTING.search(text):
        return [text]
    parts, open_, quote, escaped = [""], list[str](), "", False
    for character in text:
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _PAIRS:
            open_.append(_PAIRS[character])
        elif character in _PAIRS.values() and (not open_ or open_.pop() != character):
            raise ValueError(text)
        elif character == "," and not open_:
            parts.append("")
            continue
        parts[-1] += character
    if open_ or quote:
        raise ValueError(text)
    return parts
