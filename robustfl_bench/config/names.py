"""Names for readers: Multi-Krum for ``mkrum``, attackers for ``num_byzantine``.

The file of an option can give its name in a line ``# name: Multi-Krum``. Other options keep theirs, with spaces for
underscores.
"""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from robustfl_bench.config.options import CONF

SETTINGS = {
    "aggregator": "rule", "dim": "dimension", "lr": "learning rate", "num_byzantine": "attackers",
    "num_byzantine_declared": "assumed attackers", "num_clients": "clients", "pre_aggregation": "pre-aggregation",
    "regularization": "lambda / M",
}  # fmt: skip
"""The names of settings that are not their words."""
_LINE = re.compile(r"^# name: (?P<name>.+)$", re.MULTILINE)
_KEY = re.compile(r"\+?[a-z]\w*(?:[.@]\w+)*")


@cache
def named() -> dict[str, dict[str, str]]:
    """The options with a name, by name of the group."""
    found: dict[str, dict[str, str]] = {}
    for file in sorted(CONF.glob("*/*.yaml")):
        if line := _LINE.search(file.read_text(encoding="utf-8")):
            found.setdefault(file.parent.name, {})[file.stem] = line["name"]
    return found


def readable(label: str, given: Mapping[str, str] = MappingProxyType({})) -> str:
    """A label of runs in the words that are ``given`` for it, else with the names of the options and settings in it:
    ``Krum, IPM`` for ``krum, ipm``."""
    if label in given:
        return given[label]
    whole = _named_in(label)
    return whole if "$" in whole else _named_in(re.sub(r"(?<=\w)_(?=\w)", " ", whole))


def of_axis(key: str) -> str:
    """The name of a setting, or of several with commas, as an axis begins with it; other words as they are."""
    parts = key.split(",")
    if not all(map(_KEY.fullmatch, parts)):
        return key
    words = readable(", ".join(part.lstrip("+").rpartition(".")[2] for part in parts))
    return words[:1].upper() + words[1:] if len(words) > 1 else words


def _named_in(label: str) -> str:
    return _whole_words().sub(lambda match: _by_word()[match[0].replace(" ", "_")], label)


@cache
def _by_word() -> dict[str, str]:
    return {option: name for group in named().values() for option, name in group.items()} | SETTINGS


@cache
def _whole_words() -> re.Pattern[str]:
    words = sorted(_by_word(), key=len, reverse=True)
    return re.compile(rf"(?<![\w.])(?:{'|'.join(words).replace('_', '[_ ]')})(?![\w.]\w|\w)")
