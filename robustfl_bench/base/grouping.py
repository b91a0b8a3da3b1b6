"""Values in groups."""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values of each key, both in the order of the pairs."""
    values = defaultdict[Key, list[Value]](list)
    for key, value in pairs:
        values[key].append(value)
    return dict(values)
