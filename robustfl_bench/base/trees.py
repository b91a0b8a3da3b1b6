"""Trees of settings: nested mappings."""

from collections.abc import Iterator, Mapping
from typing import Any


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested mappings by dotted key; a list is a leaf."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings, merged; values of ``above`` win."""
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def is_within(tree: Any, values: int, depth: int) -> bool:
    """Whether a tree of mappings and lists has at most so many values, each counted as often as it stands there, and
    levels."""
    waiting, count = [(tree, 0)], 0
    while waiting and count <= values:
        node, level = waiting.pop()
        if level > depth:
            return False
        count += 1
        below = node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ()
        waiting += [(item, level + 1) for item in below]
    return count <= values
