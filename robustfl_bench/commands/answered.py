"""Answers of verbs that only read what comes with the package: given again where nothing has changed.

What such an answer depends on is small enough to be hashed at each call: all files of the package, of ``conf/`` and of
the kept evidence, the versions of all installed packages, and the words of the command.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TextIO

from robustfl_bench.base import remembered
from robustfl_bench.base.public import PACKAGE

Main = Callable[[], int | str | None]

_VERBS = ("agreement", "arena", "list")
_OPTIONS = ("attackers", "book", "claims", "format", "view")
"""The verbs, and those of their options that name no file."""

_FOLDERS = (PACKAGE, PACKAGE.parent / "conf", PACKAGE.parent / "results")
"""The package and what it reads; in a wheel, all is in the first."""

_OF_RUNS = ("__pycache__", "runs", "slurm", ".sweep")
"""Folders whose files are neither of the package nor kept."""

_VARIABLES = ("COLUMNS", "LANG", "LC_", "OMP_", "PYTHON", "ROBUSTFL_")


def answered(words: Sequence[str], find: Callable[[], Main]) -> Main:
    """The function of a command with these words, which ``find`` imports, or one that gives the same answer."""
    if (subject := _subject(words)) is None:
        return find()
    if (content := remembered.recall(subject)) is not None:
        return lambda: print(bytes(content).decode(), end="")
    main = find()

    def answer() -> int | str | None:
        with redirect_stdout(_Noted(sys.stdout)) as out, redirect_stderr(_Noted(sys.stderr)) as errors:
            code = main()
        if not code and not any(errors.words) and _subject(words) == subject:  # nothing was edited meanwhile
            remembered.remember(subject, "".join(out.words).encode())
        return code

    return answer


class _Noted:
    """A stream, and the words that were written to it."""

    def __init__(self, stream: TextIO) -> None:
        self.words, self._stream = list[str](), stream

    def write(self, text: str) -> int:
        self.words.append(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _subject(words: Sequence[str]) -> bytes | None:
    """All that an answer depends on; None where it may depend on more, as on runs of the user."""
    if "".join(words[:1]) not in _VERBS or not all(map(_is_plain, words)) or os.path.exists("results/runs"):
        return None
    return state(words)


def state(words: Sequence[str]) -> bytes | None:
    """All that the answer to these words depends on which reads only what comes with the package; None if a file has
    changed since this process began."""
    environment = sorted(item for item in os.environ.items() if item[0].startswith(_VARIABLES))
    installed = [name for place in sys.path if os.path.isdir(place) for name in sorted(os.listdir(place))
                 if name.endswith((".dist-info", ".egg-info"))]  # fmt: skip
    total = hashlib.sha256(repr((words, environment, installed, sys.stdout.isatty())).encode())
    for path in _files():
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_mtime > remembered.STARTED:
                return None
            total.update(hashlib.sha256(f"{path}\n".encode() + file.read()).digest())
    return total.digest()


def _is_plain(word: str) -> bool:
    """Whether a word is one of _OPTIONS, or names neither a file nor code."""
    if word.startswith("-"):
        return word.removeprefix("--").partition("=")[0] in _OPTIONS
    return not {"=", ":"} & set(word) and not os.path.exists(word)


def _files() -> Iterator[Path]:
    for top in _FOLDERS:
        for folder, folders, names in os.walk(top):
            folders[:] = sorted(name for name in folders if name not in _OF_RUNS)
            yield from (Path(folder, name) for name in sorted(names))
