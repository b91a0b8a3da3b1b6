"""A run as one line of a table or of a CSV file: its facts and settings as text, and the identity that they spell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from robustfl_bench.base import public
from robustfl_bench.base.trees import flatten
from robustfl_bench.runner.config import identity
from robustfl_bench.runner.config.identity import UNHASHED
from robustfl_bench.runner.store.kept import SEAL, SUPERSEDES
from robustfl_bench.train.parts import GROUPS

FACTS = (
    "run", "folder", "run_id", "state", "error", "rounds_done", "final_accuracy", "best_accuracy", "last_accuracy",
    "validation_accuracy", "last_validation_accuracy", "tuned_accuracy", "test_loss", "recall", "reference_id", "scale",
    "experiment", "command", "seconds", "commit", "code", "data", "device", "num_threads", "processor", "rounded",
    "versions", "last",
)  # fmt: skip
"""The columns with facts about a run; all others are settings. ``rounded``: the type that the factors of its products
were rounded to, None if they were not. ``last``: its last metrics, if not in its folder."""

SHORT = 12  # digits of a digest in a table of runs
UNSEEDED = "unseeded"  # the entry of a run's code with what its parts use and its seed does not fix
DIGEST = ", digest "  # between what the data are and their digest, in the words of ``data_line``

_FORMULA = re.compile(r"'*[=+\-@\t\r].")
"""Words that a spreadsheet would take for a formula, such as the name of a stranger's rule."""
_NUMBER = re.compile(r"[+-](inf|nan|[\d.](?!.*[a-z]\()[\w .,*()\[\]-]*)", re.IGNORECASE)
"""A number with a sign and perhaps words, without operators and functions: ``-1e-05``, ``+1.2 [0.1, 2.3]*``."""


Config = Mapping[str, str]
"""The settings that define a run, as text by dotted key, without seed and ``eval_every``."""


def text(value: object) -> str:
    """A setting as it is written on a command line: ``true``, ``0.1``, ``null``; ``absent`` for nan."""
    if isinstance(value, float):
        return "absent" if value != value else f"{value:.12g}"
    written = str(value)
    return written.lower() if written in ("True", "False") else written


def written(value: object) -> str:
    """A fact or a setting in a CSV: ``text``, or nothing if it is absent."""
    return "" if value is None or (word := text(value)) == "absent" else word


def guarded(word: str) -> str:
    """The word with an apostrophe before it if a spreadsheet would take it for a formula."""
    return f"'{word}" if _FORMULA.match(word) and not _NUMBER.fullmatch(word) else word


def unguarded(word: str) -> str:
    """The word that ``guarded`` was given."""
    return word[1:] if word.startswith("'") and guarded(word[1:]) == word else word


def canonical(value: str) -> str:
    """A number as ``text`` writes it (``1e-1`` is ``0.1``); other words as they are."""
    try:
        return text(float(value))
    except ValueError:
        return value


def leaf(value: Any) -> Any:
    """A value of a config as a table of runs holds it: null and lists are text."""
    if value is None:
        return "null"
    if isinstance(value, list):
        parts = (json.dumps(identity.canonical(v)) if isinstance(v, dict) else text(leaf(v)) for v in value)
        return f"[{','.join(parts)}]"
    return value


def code_line(part: Mapping[str, Any]) -> str | None:
    """The digests of this package's code and of each part from outside: ``1a2b3c4d5e6f aggregator=...``. Then
    ``unseeded=np.random`` if these parts use what the seed does not fix."""
    if not isinstance(part.get("package"), str):
        return None
    others = part.get("parts") if isinstance(part.get("parts"), dict) else {}
    unseeded = [f"{UNSEEDED}={','.join(map(str, found))}"] if isinstance(found := part.get(UNSEEDED), list) else []
    digests = [f"{group}={str(digest)[:SHORT]}" for group, digest in (others or {}).items()]
    return " ".join([part["package"][:SHORT], *digests, *unseeded])


def code_of_line(line: str | None) -> dict[str, Any]:
    """What the words of ``code_line`` say, as a summary holds it, with digests of SHORT digits."""
    first, *others = (line or "").split(" ")
    parts = dict(word.split("=", 1) for word in others)
    found = parts.pop(UNSEEDED, "")
    return {"package": first, "parts": parts} | ({UNSEEDED: found.split(",")} if found else {})


def versions(line: str | None) -> dict[str, str]:
    """The versions of libraries by name, from the words in which a table of runs has them."""
    return dict(word.rsplit(" ", 1) for word in (line or "").split(", ") if " " in word)


def data_line(part: Mapping[str, Any]) -> str | None:
    """The data that were read: ``official, 60000 + 10000 samples, digest 1a2b3c4d5e6f``; None if unknown."""
    if not part.get("digest"):
        return None
    samples = f"{part.get('train_samples')} + {part.get('test_samples')} samples"
    return f"{part.get('variant')}, {samples}{DIGEST}{str(part['digest'])[:SHORT]}"


def whole(identity: Mapping[str, Any]) -> Config:
    """All settings of a resolved identity, seed and ``eval_every`` included."""
    return {key: canonical(text(leaf(value))) for key, value in flatten(identity)}


def whole_of_line(line: Mapping[str, str]) -> Config:
    """The same of a kept run, a line of a CSV file by column."""
    values = {name: canonical(value) for name, value in line.items() if value and is_setting(name)}
    targets = {name: values.get(target_of(name)) for name in values}
    return dict(present(values, [unless_default(name, values[name], targets[name]) for name in values]))


def tree(settings: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Settings as text by dotted key as the nested config that they spell; those that are absent are left out."""
    whole: dict[str, Any] = {}
    for name, word in settings:
        if word:
            *places, last = name.split(".")
            below = whole
            for place in places:
                below = below.setdefault(place, {})
            below[last] = _value(unguarded(word))
    return whole


def _value(word: str) -> Any:
    """The value of a config that ``text`` and ``leaf`` wrote as this word."""
    if word in _WORDS:
        return _WORDS[word]
    for kind in (int, float):
        with suppress(ValueError):
            if text(number := kind(word)) == word:
                return number
    if not (word.startswith("[") and word.endswith("]")):
        return word
    try:
        return json.loads(word)
    except ValueError:
        return [_value(item) for item in word[1:-1].split(",")]


_WORDS: Mapping[str, Any] = {"null": None, "true": True, "false": False}


def is_setting(name: str) -> bool:
    """Whether a column of a kept run is part of its identity."""
    return name not in _OUTSIDE and not name.startswith("last.")


_OUTSIDE = frozenset((*FACTS, *GROUPS, *UNHASHED, "file", SEAL, SUPERSEDES))


def target_of(name: str) -> str:
    """The setting that names the class of an option's part."""
    return f"{name.rpartition('.')[0]}._target_"


def unless_default(name: str, value: str, target: str | None) -> str:
    """A setting's value; absent if it is the default of its class, ``target``; see ``identity.canonical``."""
    usual = "null" if target is None else default_of(target, name.rpartition(".")[2])
    return "absent" if value == usual else value


def default_of(target: str, option: str) -> str:
    """The default of a class's option, as a setting is written; ``null`` if it has none."""
    return canonical(text(leaf(identity.canonical(public.defaults(target).get(option)))))


def present(names: Iterable[str], row: Iterable[str]) -> Iterable[tuple[str, str]]:
    return ((name, value) for name, value in zip(names, row, strict=True) if value != "absent")
