"""The files that code from outside this package opens for reading, noted by an audit hook from its import on."""

import importlib.util
import linecache
import os
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from robustfl_bench.base.public import PACKAGE

LIBRARIES = ("site-packages", "dist-packages")  # folders in which modules of many authors lie side by side
_STANDARD = Path(sysconfig.get_paths()["stdlib"])

_CELL = "<ipython-input-"  # a cell's name in IPython; in Jupyter it ends with .py

_opened: dict[str, set[str]] = defaultdict(set)
"""The paths that the code of each source file has opened itself: no other code outside of libraries lay in between."""


@cache
def watch() -> None:
    """From now on, note which files code from outside opens. A hook cannot be removed, so there is one per process."""
    sys.addaudithook(_note)


def opened_by(files: Iterable[Path]) -> list[Path]:
    """What the code in these source files, and in those that it opened, has opened for reading in this process, other
    than these files themselves, files of libraries and folders."""
    own = {path.resolve() for path in files}
    paths: set[Path] = set()
    left = [*own]
    while left:
        found = {Path(path).resolve() for path in _opened.get(str(left.pop()), ())} - paths
        paths |= found
        left += found
    return sorted(path for path in paths - own if path.is_file() and is_own(path))


@cache
def is_own(path: Path) -> bool:
    """Whether a file belongs neither to this package, nor to Python, nor to an installed package."""
    elsewhere = (PACKAGE, _STANDARD, Path("/proc"), Path("/sys"), Path("/dev"))
    return not (any(place in path.parents for place in elsewhere) or any(part in LIBRARIES for part in path.parts))


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open":
        return
    path, _, flags = arguments
    if not isinstance(path, str) or not isinstance(flags, int) or flags & (os.O_WRONLY | os.O_RDWR):
        return
    if path.endswith(".pyc"):
        try:
            path = importlib.util.source_from_cache(path)
        except ValueError:
            return
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == linecache.__file__ or _is_ours(file):  # shows source, such as that of a launcher; or our own file
            return
        if (file.endswith(".py") or file.startswith(_CELL)) and _is_outside(file):
            _opened[_resolved(file)].add(os.path.abspath(path))
            return
        frame = frame.f_back  # type: ignore[assignment]


@cache
def _is_outside(file: str) -> bool:
    return is_own(Path(file).absolute())


@cache
def _is_ours(file: str) -> bool:
    return PACKAGE in Path(file).absolute().parents


@cache
def _resolved(file: str) -> str:
    return str(Path(file).resolve())
