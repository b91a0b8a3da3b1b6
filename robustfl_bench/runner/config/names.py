"""Names for readers: Multi-Krum for ``mkrum``, attackers for ``num_byzantine``.

The file of an option can give its name in a line ``# name: Multi-Krum``. Other options keep theirs, with spaces for
underscores.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from robustfl_bench.runner.config.options import CONF, is_group

SETTINGS = {
    "aggregator": "rule", "dim": "dimension", "lr": "learning rate", "num_byzantine": "attackers",
    "num_byzantine_declared": "assumed attackers", "num_clients": "clients", "pre_aggregation": "pre-aggregation",
    "regularization": "lambda / M",
}  # fmt: skip
"""The names of settings that are not their words."""
PAPERS = {
    "brifca": "BRIFCA", "byzfl": "ByzFL", "fedbuff": "FedBuff", "karimireddy": "Karimireddy et al.",
    "mean_labels": "Peng et al.",
}  # fmt: skip
"""The names of papers that are not those of rules."""
COUNTS = ("num_byzantine", "num_byzantine_declared", "num_clients", "rounds")
"""The settings that count what their names name: ``4 attackers``."""
_LINE = re.compile(r"^# name: (?P<name>.+)$", re.MULTILINE)
_KEY = re.compile(r"\+?[a-z]\w*(?:[.@]\w+)*")
_COUNTED = re.compile(r"(?<![^,] )\b(?P<what>(?:assumed )?attackers|clients) (?P<number>\d+)(?=,|$)")
_CODE = re.compile(r"(`[^`]*`|\S+\.md\b[^\s)]*|\brobustfl-.*|\+\w+=[^()]*|\S*\b_target_=\S+)")
"""What stays as it is typed: code, pages, commands, and overrides."""
_SETTING = re.compile(rf"(?<![\w.])(?P<key>{_KEY.pattern})(?P<sign>=|: )(?P<value>\[[^\]]*\]|[^\s,;()]+)")


@cache
def named() -> dict[str, dict[str, str]]:
    """The name of each option, by name of the group."""
    found: dict[str, dict[str, str]] = {}
    for file in sorted(CONF.glob("*/*.yaml")):
        found.setdefault(file.parent.name, {})[file.stem] = name_of(file)
    return found


def name_of(file: Path) -> str:
    """The name of the option in a file."""
    line = _LINE.search(file.read_text(encoding="utf-8"))
    return line["name"] if line else file.stem.replace("_", " ")


def readable(label: str, given: Mapping[str, str] = MappingProxyType({})) -> str:
    """A label of runs in the words that are ``given`` for it, else with the names of the options and settings in it:
    ``Krum, IPM`` for ``krum, ipm``, ``4 attackers`` for ``num_byzantine: 4``."""
    if label in given:
        return given[label]
    if setting := _SETTING.fullmatch(label):
        return _setting(setting)
    whole = _COUNTED.sub(r"\g<number> \g<what>", _named_in(label))
    return whole if "$" in whole or re.search(r"\w/\w", whole) else _named_in(re.sub(r"(?<=\w)_(?=\w)", " ", whole))


def in_words(sentence: str) -> str:
    """A sentence with the names of the options and settings in it, but for code and commands: ``dataset MNIST, 4
    attackers`` for ``dataset=mnist, num_byzantine=4``."""

    def named_in(words: str) -> str:
        return _named_in(_SETTING.sub(lambda match: _setting(match) if match["sign"] == "=" else match[0], words))

    return "".join(part if _CODE.fullmatch(part) else named_in(part) for part in _CODE.split(sentence))


def of_value(key: str, value: str, given: Mapping[str, str] = MappingProxyType({})) -> str:
    """The value of a setting, or of several with commas, as a title: ``IPM``, ``4 attackers``, ``alpha: 0.5``."""
    bare = value in given or is_group(key) or "," in key
    return readable(value if bare else f"{key}: {value}", given)


def of_axis(key: str) -> str:
    """The name of a setting, or of several with commas, as an axis begins with it; other words as they are."""
    parts = key.split(",")
    if not all(map(_KEY.fullmatch, parts)):
        return key
    words = ", ".join(map(_of_setting, parts))
    return words[:1].upper() + words[1:] if len(words) > 1 else words


def _of_setting(key: str) -> str:
    return readable(key.lstrip("+").rpartition(".")[2])


def _setting(match: re.Match[str]) -> str:
    """A setting with its value; other words as they are."""
    if "." not in match["key"] and match["key"].lstrip("+") not in _settings():
        return match[0]
    name, value = _of_setting(match["key"]), match["value"]
    if match["key"] in COUNTS and value.isdecimal():
        return f"{value} {name.removesuffix('s') if value == '1' else name}"
    return f"{name}{match['sign'].replace('=', ' ')}{readable(value)}"


def _named_in(label: str) -> str:
    return _whole_words().sub(lambda match: _by_word()[match[0].replace(" ", "_")], label)


@cache
def _settings() -> set[str]:
    """The config groups, and the scalars at the root."""
    return {*named(), *re.findall(r"^(\w+):", (CONF / "config.yaml").read_text(encoding="utf-8"), re.MULTILINE)}


@cache
def _by_word() -> dict[str, str]:
    """The names that are not the words themselves; of an option in several groups, that of a line in its file."""
    names = [(option, name) for group in named().values() for option, name in group.items() if option != name]
    return dict(sorted(names, key=lambda pair: pair[0].replace("_", " ") != pair[1])) | PAPERS | SETTINGS


@cache
def _whole_words() -> re.Pattern[str]:
    words = sorted(_by_word(), key=len, reverse=True)
    return re.compile(rf"(?<![\w./])(?:{'|'.join(words).replace('_', '[_ ]')})(?![\w./]\w|\w)")
