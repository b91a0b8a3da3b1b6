"""Source code: which modules it imports, and how much of its text takes part in what it computes. With the source of
classes that no file defines: those of a notebook's cells, whose text Python's linecache holds."""

import ast
import hashlib
import inspect
import linecache
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from functools import cache
from importlib.util import decode_source
from itertools import accumulate
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from robustfl_bench.base.units import is_for_types, source_of

Origin = Path | bytes
"""A source file, or a text that stands in no file."""


@cache
def effective(path: Origin) -> bytes:
    """The text of a source without comments, docstrings and blank lines.

    Two sources with the same effective text compute the same. All string statements count as docstrings, as none of
    them is evaluated; a file that mentions ``__doc__`` keeps them. The result does not depend on the version of Python.
    """
    source = text(path)
    starts = list(accumulate(map(len, source.splitlines(keepends=True)), initial=0))
    reads_docstrings = b"__doc__" in source
    pieces, code, end = [], b"", 0
    for node, is_statement in _strings(_parsed(path)):
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        code += source[end:start]
        end = starts[node.end_lineno - 1] + node.end_col_offset
        if reads_docstrings or not is_statement:
            pieces += [_uncommented(code), source[start:end]]
            code = b""
    return b"".join([*pieces, _uncommented(code + source[end:] + b"\n")]).strip()


def _uncommented(code: bytes) -> bytes:
    """A piece of code without string literals, up to the next of them, without its comments and blank lines."""
    *lines, last = code.split(b"\n")
    if not lines:
        return last
    first, *others = (line.partition(b"#")[0].rstrip() for line in lines)
    return b"\n".join([first, *filter(None, others), last])


def imports_of(text: bytes) -> frozenset[str]:
    """The names that the import statements of a text name."""
    return _imports("__main__", text)


def closure(names: Iterable[str], find: Callable[[str], tuple[str, Path] | None]) -> set[Path]:
    """The source files of modules, and of the modules that these import, at any depth.

    ``find`` returns the module and the file of a name, which may be that of a class in the module, or None to leave it
    out.
    """
    found: dict[str, Path] = {}
    waiting = set(names)
    while waiting:
        place = find(waiting.pop())
        if place is not None and place[0] not in found:
            module, path = place
            found[module] = path
            waiting |= _imports(module, path)
    return set(found.values())


_read: dict[Path, bytes] = {}
"""The texts of files that were read."""

_imported: dict[str, tuple[object, Path]] = {}
"""The spec and the file of the modules that ``imported`` was told of. One that is imported again has another spec."""


def text(path: Origin) -> bytes:
    """The text of a source, as this process first read it after its last import."""
    if isinstance(path, bytes):
        return path
    if path not in _read:
        _read[path] = decode_source(path.read_bytes()).encode()
    return _read[path]


def imported(name: str, path: Path) -> None:
    """Read the file of an imported module now, so that a later edit is not taken for the code that was imported."""
    if name not in _imported:
        _imported[name] = _spec(name), path
        with suppress(OSError, SyntaxError, ValueError):
            text(path)


def read_again() -> bool:
    """Forget the texts of modules that were imported again since, as by ``importlib.reload``; whether there are any."""
    again = [name for name, (spec, _) in _imported.items() if _spec(name) is not spec]
    for name in again:
        _read.pop(_imported.pop(name)[1], None)
    if again:
        for known in (effective, _parsed, _imports):
            known.cache_clear()
    return bool(again)


def _spec(name: str) -> object:
    return getattr(sys.modules.get(name), "__spec__", None)


@cache
def _parsed(path: Origin) -> ast.Module:
    return ast.parse(text(path))


def _strings(tree: ast.Module) -> list[tuple[ast.expr, bool]]:
    """The string literals in their order, and for each of them whether it is a statement of its own."""
    found: list[tuple[ast.expr, bool]] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.JoinedStr):
                found.append((child, False))  # never a docstring
            elif isinstance(child, ast.Constant) and isinstance(child.value, str | bytes):
                found.append((child, isinstance(node, ast.Expr)))
            else:
                waiting.append(child)
    return sorted(found, key=lambda one: (one[0].lineno, one[0].col_offset))


@cache
def _imports(module: str, path: Origin) -> frozenset[str]:
    """The names that the import statements of a source file name, as far as they are executed."""
    package = module if isinstance(path, Path) and path.stem == "__init__" else module.rpartition(".")[0]
    names: set[str] = set()
    for node in _executed(_parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = source_of(node, package)
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """The statements of a module at any depth, without those below ``if TYPE_CHECKING:``."""
    for child in node.orelse if is_for_types(node) else ast.iter_child_nodes(node):  # type: ignore[attr-defined]
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from _executed(child)


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
        for statement in _parsed_cell("".join(lines)):
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


def _parsed_cell(text: str) -> list[ast.stmt]:
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
