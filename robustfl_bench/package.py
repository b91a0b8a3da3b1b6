"""This package itself: a digest of its code, and of that part of it which the numbers of a run come from."""

import ast
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent

ROOTS = ("robustfl_bench.datasets", "robustfl_bench.engine.federation", "robustfl_bench.engine.loop")
"""What every run executes: reading the data, dealing them to clients, the rounds."""


@cache
def package_digest() -> str:
    """SHA-256 over the names and contents of all Python files of this package."""
    return _digest(PACKAGE.rglob("*.py"))


def code_digest(config: object) -> str:
    """SHA-256 over the names and contents of ``files_of`` a run."""
    return _code_digest(_named(config))


def files_of(config: object) -> set[Path]:
    """The files of this package that the numbers of a run can depend on.

    These are ROOTS and the modules of the classes that ``config``, in any form, names as text, with all that they
    import at any depth, inside functions too; not what only type checkers import. So an edit of a rule changes the
    digests of the runs with this rule, and an edit of a table or a picture changes none. Not covered are conf/ and the
    room config, for which a run's id stands, the machine and the libraries.
    """
    return set().union(*map(_files_of, (*ROOTS, *_named(config))))


@cache
def _files_of(name: str) -> frozenset[Path]:
    return frozenset(closure([name], _own_file))


def _named(config: object) -> frozenset[str]:
    return frozenset(re.findall(r"\brobustfl_bench(?:\.\w+)+", str(config)))


@cache
def _code_digest(names: frozenset[str]) -> str:
    return _digest(files_of(names))


def closure(names: Iterable[str], find: Callable[[str], tuple[str, Path] | None]) -> set[Path]:
    """The source files of modules, and of the modules that these import, at any depth.

    ``find`` gives module and file for the name of a module, or of something in it; None where it is of no interest.
    """
    found: dict[str, Path] = {}
    waiting = set(names)
    while waiting:
        module, path = find(waiting.pop()) or ("", PACKAGE)
        if module and module not in found:
            found[module] = path
            waiting |= _imports(module, path)
    return set(found.values())


@cache
def _imports(module: str, path: Path) -> frozenset[str]:
    """The names that the import statements of a source file name, as far as they are executed."""
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    names: set[str] = set()
    for node in _executed(ast.parse(path.read_bytes())):
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


@cache
def _own_file(name: str) -> tuple[str, Path] | None:
    """The module of this package, and its file, that a name stands for, or that a class or function of this name is in.
    None for others, and for those of config.

    A package counts by its own ``__init__`` where it is named, not where a module in it is.
    """
    first, *rest = name.split(".")
    if first != PACKAGE.name or not rest or rest[0] == "config":
        return None
    place = PACKAGE.joinpath(*rest)
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    path = next((path for path in candidates if path.is_file()), None)
    return (name, path) if path is not None else _own_file(name.rpartition(".")[0])


def _digest(paths: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.parts):
        total.update(_signed(path))
    return total.hexdigest()


@cache
def _signed(path: Path) -> bytes:
    content = path.read_bytes()
    return f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode() + content
