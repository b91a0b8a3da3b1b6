"""Source code: which modules it imports, and how much of its text takes part in what it computes."""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.util import decode_source
from itertools import accumulate
from pathlib import Path

Origin = Path | bytes
"""A source file, or a text that stands in no file."""


@cache
def effective(path: Origin) -> bytes:
    """The text of a source without comments, docstrings and blank lines.

    Two sources with the same effective text compute the same. All string statements count as docstrings, as none of
    them is evaluated; a file that mentions ``__doc__`` keeps them. The result does not depend on the version of Python.
    """
    source = _source(path)
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


@cache
def _source(path: Origin) -> bytes:
    return path if isinstance(path, bytes) else decode_source(path.read_bytes()).encode()


@cache
def _parsed(path: Origin) -> ast.Module:
    return ast.parse(_source(path))


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
            parts = package.split(".")
            above = parts[: len(parts) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """The statements of a module at any depth, without those below ``if TYPE_CHECKING:``."""
    only_types = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    for child in node.orelse if only_types else ast.iter_child_nodes(node):  # type: ignore[attr-defined]
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from _executed(child)
