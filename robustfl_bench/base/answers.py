"""Answers of commands as JSON, for programs."""

import json
import math
from collections.abc import Mapping
from typing import Any


def as_json(answer: Any) -> str:
    """The answer as JSON of one line per value. A number that is not finite is ``null``, as JSON has none."""
    return json.dumps(_plain(answer), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return {str(name): _plain(entry) for name, entry in value.items()}
        case list() | tuple():
            return [_plain(entry) for entry in value]
        case float():
            return value if math.isfinite(value) else None
        case str() | bool() | int() | None:
            return value
        case _:  # a NumPy number
            return _plain(value.item()) if hasattr(value, "item") else str(value)
