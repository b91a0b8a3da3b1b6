"""The content of a file, or of all files in a folder, as one SHA-256; computed once for each state of the files."""

import hashlib
from functools import lru_cache
from pathlib import Path

State = tuple[tuple[str, int, int], ...]
"""Name, size and time of change of files."""


def state_of(place: Path) -> State:
    """The state of a file, or of the files in a folder, at any depth; empty if there is none that can be read."""
    try:
        files = (
            sorted(path for path in place.rglob("*") if path.is_file())
            if place.is_dir()
            else [place][: place.is_file()]
        )
        stats = [(path.relative_to(place).as_posix(), path.stat()) for path in files]
        return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
    except (OSError, ValueError):
        return ()


def digest_of(place: Path) -> str | None:
    """The SHA-256 of a file, or of the names and contents of the files in a folder; None if it cannot be read."""
    state = state_of(place)
    try:
        return _digest(place.resolve(), state) if state else None
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=64)
def _digest(place: Path, state: State) -> str:
    if not place.is_dir():
        return _content(place)
    return hashlib.sha256("".join(f"{name} {_content(place / name)}\n" for name, _, _ in state).encode()).hexdigest()


def _content(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
