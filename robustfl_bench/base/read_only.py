"""Views are read-only: what a part from outside this package is given has the same numbers when it returns.

PyTorch has no read-only tensors, so they are compared. The parts of this package are compared in the tests alone.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import wraps
from inspect import signature
from itertools import chain
from types import FunctionType
from typing import Any

from robustfl_bench.base.contained import contained
from robustfl_bench.base.errors import BrokenContract
from robustfl_bench.base.public import PACKAGE

LARGE = {"Updates", "Questions", "Neighbourhoods", "Population"}
"""Classes of views whose tensors grow with clients or samples: a round's matrix, and the samples of a local update."""

WHOLE = 1 << 14
"""The numbers of such a tensor up to which all of them are compared, as are those of all other tensors."""

SAMPLED = 1 << 10
"""The numbers that are compared of a larger one, at equal distances. A write in place to a tensor that shares its
storage with no other shows in PyTorch's count of versions as well."""

WRITABLE = {"out", "uploads"}
"""Parameters that a part fills in place."""

FILLING = {"_mark"}
"""Methods between classes of this package that change in place what they are given."""

LEFT_OUT = {
    "Samples": {"memory"},
    "Memory": {"local"},
    "Updates": {"_above", "_mixed", "_source"},
    "Questions": {"_storage"},
}
"""Fields of views, by class, that are changed in place, the memory of local updates and the place of the question that
is asked, or are no part of what is given."""

WORDS = {"_matrix": "updates", "x": "samples", "y": "labels"}
"""Words for tensors whose names in a view are no words."""


def guarded(cls: type) -> dict[str, Callable[..., Any]]:
    """The methods of a part's class that override one of a base class, by name, each as a function that raises
    BrokenContract if the method writes into what it is given, or is not ``contained``."""
    methods = {}
    for name, method in vars(cls).items():
        overridden = next((vars(base)[name] for base in cls.__mro__[1:] if name in vars(base)), None)
        if isinstance(method, FunctionType) and isinstance(overridden, FunctionType) and name not in FILLING:
            methods[name] = _guarded(method, _parameters(overridden))
    return methods


def is_outside(cls: type) -> bool:
    """Whether the code of a class is not of this package, or calls somebody else's, as adapters do."""
    package, _, room = cls.__module__.partition(".")
    return package != PACKAGE.name or room.startswith("parts.adapters.")


def _parameters(method: Any) -> list[str]:
    """The names of a method's parameters without that of its object."""
    return list(signature(method).parameters)[1:]


def _guarded(method: FunctionType, names: list[str]) -> Callable[..., Any]:
    """The guarded method, whose parameters have these ``names`` in its base class."""

    @wraps(method)
    def call(part: Any, *given: Any, **named: Any) -> Any:
        arguments = chain(zip(names, given, strict=False), named.items())
        views = _Views((name, value) for name, value in arguments if name not in WRITABLE)
        with contained(lambda: called(part)):
            returned = method(part, *given, **named)
        if changed := views.changed():
            raise BrokenContract(f"{called(part)} wrote into the {changed} that it was given")
        return returned

    return call


def called(part: object) -> str:
    """The kind and the class of a part in messages, such as ``aggregator Krum``; for an adapter, what it adapts."""
    base = next((base.__name__ for base in type(part).__mro__ if base.__module__.endswith(".base")), "part")
    kind = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in base).lstrip()
    adapted = getattr(part, "_name", None)
    name = adapted if isinstance(adapted, str) and is_outside(type(part)) else type(part).__name__
    return f"{kind.replace('pre ', 'pre-')} {name}"


class _Views:
    """The tensors and arrays in what a part is given, as they are now."""

    def __init__(self, given: Iterable[tuple[str, Any]]) -> None:
        self._seen = set[int]()
        self._kept = [_Kept(*each) for name, value in given for each in self._found(name, value, False)]

    def changed(self) -> str:
        """The name of the first that is not as it was; empty if all are. What was changed gets its numbers back, as
        other runs may have it in common."""
        changed = [each for each in self._kept if not each.is_same()]
        for each in changed:
            each.restore()
        return changed[0].name if changed else ""

    def _found(self, name: str, value: Any, is_large: bool) -> Iterator[tuple[str, Any, bool]]:
        """The tensors and arrays in a value, each with its name and whether it may be large."""
        kind = type(value)
        if hasattr(value, "untyped_storage") or hasattr(value, "__array_interface__"):
            if id(value) not in self._seen:
                self._seen.add(id(value))
                yield name, value, is_large
        elif hasattr(value, "state_dict"):  # a network
            yield from self._found(name, dict(value.state_dict(keep_vars=True)), is_large)
        elif isinstance(value, Mapping):
            for item in value.values():
                yield from self._found(name, item, is_large)
        elif isinstance(value, list | tuple):
            for item in value if value and not isinstance(value[0], int | float | str) else ():
                yield from self._found(name, item, is_large)
        elif _is_view(kind) and id(value) not in self._seen:
            self._seen.add(id(value))
            bases = {base.__name__ for base in kind.__mro__}
            out, large = {field for base in bases for field in LEFT_OUT.get(base, ())}, bool(bases & LARGE)
            for field, item in vars(value).items():
                if field not in out:
                    yield from self._found(WORDS.get(field, field.lstrip("_")), item, large)


def _is_view(kind: type) -> bool:
    """Whether objects of a class only hold what a part may read: dataclasses and updates of this package."""
    package, _, room = kind.__module__.partition(".")
    is_numeric = room.startswith("numerics.") and not room.startswith("numerics.network.")
    return package == PACKAGE.name and (is_dataclass(kind) or is_numeric or kind.__name__ == "Population")


class _Kept:
    """A tensor or an array, and its numbers as they were; of a large one, some of them."""

    def __init__(self, name: str, numbers: Any, is_large: bool) -> None:
        self.name, self._numbers, self._is_tensor = name, numbers, hasattr(numbers, "untyped_storage")
        size = numbers.numel() if self._is_tensor else numbers.size
        self._step = size // SAMPLED if is_large and size > WHOLE else 1
        self._before, self._version = self._now(), self._counted()
        if self._step == 1:
            self._before = self._before.clone() if self._is_tensor else self._before.copy()

    def is_same(self) -> bool:
        """Whether shape and numbers are as they were, nan to nan."""
        return self._counted() == self._version and bool(_equal(self._before, self._now()))

    def restore(self) -> None:
        """Give the tensor its numbers again, if all of them were kept."""
        if self._step == 1 and self._is_tensor:
            self._numbers.detach().copy_(self._before.reshape(self._numbers.shape))
        elif self._step == 1:
            self._numbers[...] = self._before.reshape(self._numbers.shape)

    def _now(self) -> Any:
        """The numbers in one row: a view if all of them are kept."""
        flat = (self._numbers.detach() if self._is_tensor else self._numbers).reshape(-1)
        if self._step == 1:
            return flat
        return flat[:: self._step].clone() if self._is_tensor else flat[:: self._step].copy()

    def _counted(self) -> int | None:
        """How often the tensor was written into, if PyTorch counts this and no other tensor shares its storage."""
        numbers = self._numbers
        if not self._is_tensor or numbers.is_inference() or numbers.untyped_storage().nbytes() != numbers.nbytes:
            return None
        return int(numbers._version)


def _equal(before: Any, now: Any) -> bool:
    """Whether two flat tensors or arrays are equal to the bit."""
    if (before.dtype, before.shape) != (now.dtype, now.shape):
        return False
    if not hasattr(before, "untyped_storage"):
        return bool(before.tobytes() == now.tobytes())
    if not before.is_floating_point():
        return bool(before.equal(now))
    bits = getattr(sys.modules["torch"], f"int{8 * before.element_size()}")  # with numbers, nan would differ from nan
    return bool(before.view(bits).equal(now.view(bits)))
