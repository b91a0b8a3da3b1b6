"""The source of classes that no file defines: those of a notebook's cells, whose text Python's linecache holds."""

import ast
import hashlib
import inspect
import linecache
import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any


@dataclass(frozen=True)
class NotebookCells:
    """The text of a module that defines a class as a notebook does, and the names of the cells it comes from.

    The text holds the class, the functions and classes of the notebook that it uses at any depth, an import for each
    name from a module, and the digest of each other value that they refer to.
    """

    text: bytes
    names: frozenset[Path]


def cells_of(cls: type) -> NotebookCells | None:
    """The source of a class that is in no file; None if a part of it has no source."""
    try:
        return _Collector(cls).cells
    except _NoSource:
        return None


class _NoSource(Exception):
    """A part of the code has no text, or a value that it uses has no digest."""


class _Collector:
    """Follows the names that a class uses, through the global names of its module."""

    def __init__(self, cls: type) -> None:
        self._known = vars(sys.modules[cls.__module__])
        self._module = cls.__module__
        self._lines = set[str]()
        self._statements: dict[str, None] = {}
        self._names = set[Path]()
        self._seen = set[str]()
        self._follow(cls)
        text = "\n".join([*sorted(self._lines), *self._statements])
        self.cells = NotebookCells(text.encode(), frozenset(self._names))

    def _follow(self, value: type | FunctionType) -> None:
        """Add the statement that defines a class or function, and all that it uses."""
        functions = [value] if isinstance(value, FunctionType) else list(_methods(value))
        if not functions:
            raise _NoSource
        for function in functions:
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                if name != "__class__":
                    self._add(name, cell.cell_contents)
            self._add_statement(function.__code__)
        for base in value.__bases__ if isinstance(value, type) else ():
            if base.__module__ == self._module:
                self._follow(base)

    def _add_statement(self, code: CodeType) -> None:
        """Add the statement of a cell that this code is part of."""
        lines = linecache.getlines(code.co_filename)
        for statement in _parsed("".join(lines)):
            first = min([statement.lineno, *(node.lineno for node in getattr(statement, "decorator_list", ()))])
            if first <= code.co_firstlineno <= (statement.end_lineno or first):
                break
        else:
            raise _NoSource
        self._names.add(Path(code.co_filename))
        text = "".join(lines[first - 1 : statement.end_lineno])
        if text not in self._statements:
            self._statements[text] = None
            for name in sorted({node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}):
                if name in self._known and name not in self._seen:
                    self._seen.add(name)
                    self._add(name, self._known[name])

    def _add(self, name: str, value: Any) -> None:
        """Add what a name of the notebook refers to."""
        if isinstance(value, ModuleType):
            self._lines.add(f"import {value.__name__} as {name}")
        elif isinstance(value, type | FunctionType) and value.__module__ == self._module:
            self._follow(value)
        elif isinstance(value, type | FunctionType | BuiltinFunctionType):
            self._lines.add(f"from {value.__module__} import {value.__qualname__} as {name}")
        else:
            self._lines.add(f"{name} = {_digest(value)!r}")


def _methods(cls: type) -> Iterator[FunctionType]:
    """The functions that a class defines, without those that @dataclass writes."""
    for name, member in vars(cls).items():
        function: Any = getattr(member, "fget", None) or getattr(member, "func", None) or member
        function = inspect.unwrap(getattr(function, "__func__", function))
        written = is_dataclass(cls) and name.startswith("__") and "<string>" in str(getattr(function, "__code__", ""))
        if isinstance(function, FunctionType) and not written:
            yield function


def _parsed(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except SyntaxError:
        raise _NoSource from None


def _digest(value: Any) -> str:
    """The digest of a value that is no code."""
    try:
        return hashlib.sha256(pickle.dumps(value)).hexdigest()
    except Exception:  # whatever an object raises that cannot be pickled
        raise _NoSource from None
