"""The values that a field of a part takes: they stand in its annotation and are checked when a part is built.

``num_selected: Annotated[int | None, at_least(1)] = 1``, followed by a string that says what the field means. The
comments in conf/, the help and the catalogue are made from both.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from types import MappingProxyType, NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from robustfl_bench.base.errors import ConfigError

_NUMBERS = {int: "whole number", float: "number"}


@dataclass(frozen=True, eq=False, repr=False)
class Option:
    """The values that a field takes, besides its type: a number in a range, or one of several words.

    ``low`` and ``high`` bound a number, or the items of a tuple; a round bracket in ``ends`` excludes the bound.
    ``choices`` are words, each with a note; the note of ``null`` says what None means. Without both, only the type is
    checked. ``at_least``, ``between`` and ``one_of`` make them for annotations:

        >>> from dataclasses import dataclass
        >>> from typing import Annotated
        >>> import robustfl_bench as rb
        >>> @dataclass(frozen=True)
        ... class Mine(rb.Aggregator):
        ...     radius: Annotated[float, rb.at_least(0)] = 1.0
        ...     def aggregate(self, updates, server):
        ...         return (updates.matrix / self.radius).clamp(-1, 1).mean(dim=0)
        >>> Mine(radius=-1)
        Traceback (most recent call last):
        robustfl_bench.base.errors.ConfigError: radius must be >= 0, got -1
    """

    low: float = -math.inf
    high: float = math.inf
    ends: str = "[]"
    choices: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return self.allowed or "checked"

    @property
    def words(self) -> tuple[str, ...]:
        """The choices without null."""
        return tuple(word for word in self.choices if word != "null")

    @property
    def allowed(self) -> str:
        """What a value must be: ``>= 1``, ``in [0, 1]``, ``one of mean, lower``; empty if anything of the type is."""
        if self.choices:
            return f"one of {', '.join(self.words)}"
        if self.high == math.inf:
            return "" if self.low == -math.inf else f"{'>=' if self.ends[0] == '[' else '>'} {self.low:g}"
        return f"in {self.ends[0]}{self.low:g}, {self.high:g}{self.ends[1]}"

    def instead_of(self, value: Any) -> str:
        """``allowed`` in place of a value that is not: of an infinite one, a finite number."""
        is_infinite = isinstance(value, float) and math.isinf(value)
        return f"a finite number {self.allowed}".rstrip() if is_infinite else self.allowed

    def allows(self, value: Any) -> bool:
        """Whether a word is among the choices, or a number in the range."""
        if self.choices:
            return value in self.words
        above = self.low < value or (self.low == value and self.ends[0] == "[")
        return bool(above and (value < self.high or (value == self.high and self.ends[1] == "]")))

    def problem(self, name: str, value: Any, wanted: Any) -> str | None:
        """The error of a value for the field ``name`` of type ``wanted``; None if the field takes it.

        Types other than numbers, words, true or false, lists of numbers, and None beside one of these are not checked.
        """
        kinds = get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)
        kind, *others = [kind for kind in kinds if kind is not NoneType]
        if others or (value is None and NoneType in kinds):
            return None
        if kind in _NUMBERS and not _is_number(value, kind):
            needed = f"a {_NUMBERS[kind]}{' or null' if NoneType in kinds else ''}"
        else:
            needed = self._needed(value, kind)
        shown = list(value) if get_origin(kind) is tuple and _is_list(value) else value
        return f"{name} must be {needed}, got {shown!r}" if needed else None

    def _needed(self, value: Any, kind: Any) -> str:
        """What a value must be that is not; empty if it is, or of an unchecked kind."""
        if kind is bool:
            return "" if isinstance(value, bool) else "true or false"
        if get_origin(kind) is tuple:
            item = get_args(kind)[0]
            fits = _is_list(value) and all(_is_number(each, item) and self.allows(each) for each in value)
            return f"a list of {_NUMBERS[item]}s {self.allowed}".rstrip() if item in _NUMBERS and not fits else ""
        if not (kind in _NUMBERS or self.choices) or self.allows(value):
            return ""
        return self.instead_of(value) or "a number"  # NaN is in no range


def _is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def at_least(low: float) -> Option:
    """A number that is at least ``low``; the numbers of a tuple."""
    return Option(low)


def between(low: float, high: float) -> Option:
    """A number from ``low`` to ``high``, both included; the numbers of a tuple."""
    return Option(low, high)


def one_of(*words: str, **notes: str) -> Option:
    """One of some words, each with a note or without: ``one_of("mean", lower="as in torch.median")``.

    ``null`` is no word: its note says what None means, for a field that allows it.
    """
    return Option(choices={**dict.fromkeys(words, ""), **notes})


SCALE = "scale"
"""The mark of the one option of a rule that is a length of updates, after its range: ``Annotated[float, at_least(0),
SCALE]``. The arena's tuned book tries several values of it, in units of the clean median length of an update."""

Flag = Annotated[bool, Option()]
"""True or false."""

Number = Annotated[float, Option()]
"""Any number."""


@cache
def options_of(cls: type) -> Mapping[str, tuple[Option, Any]]:
    """The fields of a dataclass that are annotated with an ``Option``: this and the type of each."""
    return MappingProxyType(
        {name: (marks[0], wanted) for name, wanted, *marks in _annotated(cls) if isinstance(marks[0], Option)}
    )


def scale_of(cls: type) -> str | None:
    """The name of the field of a dataclass that is marked as its SCALE; None if none is. Raises ConfigError if several
    are."""
    names = [name for name, _, *marks in _annotated(cls) if SCALE in marks]
    if len(names) > 1:
        raise ConfigError(f"{cls.__name__}: at most one option can be a SCALE, got {' and '.join(names)}")
    return names[0] if names else None


def _annotated(cls: type) -> Iterator[tuple[Any, ...]]:
    """The fields of a dataclass that are ``Annotated``: the name and the type of each, and its marks."""
    for each in fields(cls) if is_dataclass(cls) else ():
        try:
            annotation = _annotation(cls, each.name)
        except NameError:  # of a name imported for type checkers only
            continue
        if get_origin(annotation) is Annotated:
            yield each.name, *get_args(annotation)


def type_of_field(cls: type, name: str) -> Any:
    """The type of a field, also if its annotation is a string (``from __future__ import annotations``)."""
    annotation = _annotation(cls, name)
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _annotation(cls: type, name: str) -> Any:
    owner = next(base for base in cls.__mro__ if name in vars(base).get("__annotations__", {}))
    annotation = vars(owner)["__annotations__"][name]
    if not isinstance(annotation, str):
        return annotation
    # Only this annotation is evaluated: others may use names imported for type checkers only.
    alone = SimpleNamespace(__annotations__={name: annotation})
    names = vars(sys.modules[owner.__module__]), dict(vars(owner))
    return get_type_hints(alone, *names, include_extras=True)[name]


def check_options(part: object) -> None:
    """Raise ConfigError unless every field that is annotated with an ``Option`` has a value that it takes."""
    cls: type = type(part)
    for name, (option, wanted) in options_of(cls).items():
        _raise(option.problem(name, getattr(part, name), wanted))


def check_fields(part: Any, **bounds: tuple[float, float]) -> None:
    """Raise ConfigError unless every named field is a number in its closed range, as if annotated ``between``. Fields
    annotated as int take only integers; fields that allow None may be None. A ``__post_init__`` calls it:
    ``check_fields(self, num_byzantine=(0, math.inf), num_selected=(1, math.inf))``.
    """
    for name, (low, high) in bounds.items():
        wanted = type_of_field(type(part), name)
        number = wanted if wanted in (int, float, int | None, float | None) else float
        _raise(between(low, high).problem(name, getattr(part, name), number))


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise ConfigError unless ``value`` is one of ``choices``."""
    _raise(one_of(*choices).problem(name, value, str))


def check_flags(part: Any, *names: str) -> None:
    """Raise ConfigError unless every named field is true or false."""
    for name in names:
        _raise(Option().problem(name, getattr(part, name), bool))


def _raise(problem: str | None) -> None:
    if problem is not None:
        raise ConfigError(problem)
