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
