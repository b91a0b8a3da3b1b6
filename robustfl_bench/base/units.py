"""The units of a source tree: its functions, methods, class bodies and constants, and which units each one uses.

Everything is read from the text; nothing is imported. The text of a unit leaves out what cannot change a number:
comments, docstrings, annotations, the words of errors, names of local variables, and the module it stands in.
"""

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef

PLAIN = ("abc", "typing", "enum", "collections", "dataclasses", "types", "builtins")
"""Modules of base classes that call no methods of their subclasses by themselves."""

ALWAYS, USED, NEVER, COUNTS = "always", "used", "never", "counts"
"""How an ability of a part counts, see ``abilities.Ability``, and the argument that says so."""

TABLE = "abilities"
"""The attribute of a kind of part with what is said of its abilities, see ``abilities.Part``."""

Symbol = tuple[str, str]
"""A module and the name of something at its top level."""


@dataclass(frozen=True, eq=False)
class Unit:
    """A function, a method, the body of a class without its methods, or a constant.

    ``digest`` is the SHA-256 of its text; ``uses`` are the symbols it refers to, ``mentions`` the names that follow a
    dot in it, any of which may be a method.
    """

    name: str
    digest: bytes
    uses: frozenset[Symbol]
    mentions: frozenset[str]

    @cached_property
    def named(self) -> bytes:
        """The name and the digest."""
        return self.name.encode() + self.digest


class Text(NamedTuple):
    """A text with the symbols it refers to, and the names that follow a dot in it."""

    written: str
    uses: frozenset[Symbol] = frozenset()
    mentions: frozenset[str] = frozenset()

    def unit(self, name: str) -> Unit:
        """The unit of this name with the text."""
        return Unit(name, hashlib.sha256(self.written.encode()).digest(), self.uses, self.mentions)


class ClassLine(NamedTuple):
    """A line of a class: the names that it sets, and whether these are attributes of the class, and no fields."""

    text: Text
    names: frozenset[str]
    is_attribute: bool


class Klass:
    """A class: its bases, its methods by name, and the lines of its body. It holds no part of a syntax tree."""

    def __init__(self, module: "Module", node: ast.ClassDef) -> None:
        bases = tuple(module.symbol(base) for base in node.bases)
        package = module.name.partition(".")[0]
        self.bases = tuple(base for base in bases if base is not None)
        # Another package, such as PyTorch, may call any method of a class that inherits from one of its own.
        self.inherits_elsewhere = any(
            base is None or base[0].partition(".")[0] not in (package, *PLAIN) for base in bases
        )
        self.methods: dict[str, list[Unit]] = defaultdict(list)
        self.table: dict[str, Mapping[str, object]] = {}
        self._name, self._lines = node.name, list[ClassLine]()
        self._head = module.text(ast.ClassDef(node.name, node.bases, node.keywords, [], []))
        self._decorators = module.text(ast.ClassDef(node.name, [], [], [], node.decorator_list))
        for line in _executed(node):
            if isinstance(line, Function):
                self.methods[line.name].append(module.text(line).unit(f"{node.name}.{line.name}"))
            elif (names := frozenset(_names_of(line))) == {TABLE}:
                self.table = _rows(line)
            elif names:
                self._lines.append(ClassLine(module.text(line), names, _is_attribute(line)))

    @property
    def names(self) -> set[str]:
        """The public names that the class defines."""
        return {name for name in self.methods.keys() | set().union(*(line.names for line in self._lines))
                if name[0] != "_"}  # fmt: skip

    def members(self, abilities: Mapping[str, str]) -> "Members":
        """Its units, by when they count; ``abilities`` says so of those of a part."""
        never = {name for name, counts in abilities.items() if counts == NEVER}
        apart = {name for name, counts in abilities.items() if counts == USED} | never
        attributes = [line for line in self._lines if line.names <= apart and line.is_attribute]
        always, whole = [self.body(attributes)], list[Unit]()
        mentioned: dict[str, list[Unit]] = defaultdict(list)
        for name in self.methods.keys() - never:
            mentioned[name] += (units := self.methods[name])
            whole += units if name not in apart else ()
            if self.inherits_elsewhere or (name.startswith("__") and name != "__repr__"):
                always += units
        for line in attributes:
            for name in line.names - never:
                mentioned[name].append(line.text.unit(f"{self._name}.{name}"))
        for name, row in self.table.items():
            if (text := sorted(item for item in row.items() if item[0] != COUNTS)) and name not in never:
                mentioned[name].append(Text(repr(text)).unit(f"{self._name}.{TABLE}.{name}"))
        return Members(always, whole, mentioned)

    def body(self, without: Sequence[ClassLine] = ()) -> Unit:
        """The class without its methods and without some lines."""
        lines = [line.text for line in self._lines if line not in without]
        within = f"body=[{''.join(text.written for text in lines)}]" if lines else ""
        end = self._decorators.written.removeprefix(f"(ClassDef name={self._name!r} ")
        texts = (self._head, self._decorators, *lines)
        uses = frozenset[Symbol]().union(*(text.uses for text in texts))
        mentions = frozenset[str]().union(*(text.mentions for text in texts))
        return Text(f"{self._head.written.removesuffix(')')}{within}{end}", uses, mentions).unit(self._name)


@dataclass(frozen=True)
class Members:
    """The units of a class: those that count where the class does, those that count where it is named itself, and those
    that count where their name is mentioned."""

    always: Sequence[Unit]
    whole: Sequence[Unit]
    mentioned: Mapping[str, Sequence[Unit]]


class Module:
    """The units of one source file, and the symbols that its imports bind."""

    def __init__(self, name: str, source: bytes, is_package: bool = False) -> None:
        self.name, self.is_package = name, is_package
        self.imports: dict[str, tuple[str, str | None]] = {}
        self.for_types: dict[str, tuple[str, str | None]] = {}
        self.units: dict[str, list[Unit]] = defaultdict(list)
        self.classes: dict[str, Klass] = {}
        self.defined: set[str] = set()
        tree = ast.parse(source)
        statements = list(_executed(tree))
        for node in statements:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imports |= self.bound(node)
            self.defined |= set(_names_of(node))
        for inner in (inner for part in ast.walk(tree) if is_for_types(part) for inner in ast.walk(part)):
            if isinstance(inner, ast.Import | ast.ImportFrom):
                self.for_types |= self.bound(inner)
        for node in statements:
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = klass = Klass(self, node)
                self.units[node.name].append(klass.body())
            else:
                is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
                for name in [""] if is_call else _names_of(node):
                    self.units[name].append(self.text(node).unit(name))

    def text(self, node: ast.AST) -> Text:
        """The text of a node."""
        writer = _Writer(self, node)
        return Text("".join(writer.pieces), frozenset(writer.uses), frozenset(writer.mentions))

    def symbol(self, node: ast.AST, local: dict[str, tuple[str, str | None]] | None = None) -> Symbol | None:
        """The symbol that a name, or a name of a module with a dot, refers to; None if it is none of this file's."""
        known = self.imports if local is None else {**self.imports, **local}
        if isinstance(node, ast.Name):
            if node.id in known:
                module, name = known[node.id]
                return (module, name) if name is not None else None
            return (self.name, node.id) if node.id in self.defined else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
            module, name = known[node.value.id]
            return (module if name is None else f"{module}.{name}", node.attr)
        if isinstance(node, ast.Subscript):  # a generic base class
            return self.symbol(node.value, local)
        return None

    def bound(self, node: ast.Import | ast.ImportFrom) -> dict[str, tuple[str, str | None]]:
        """What an import statement binds: a module, or a name of a module."""
        if isinstance(node, ast.Import):
            return {alias.asname or alias.name.partition(".")[0]: (alias.name if alias.asname else
                    alias.name.partition(".")[0], None) for alias in node.names}  # fmt: skip
        base = source_of(node, self.name if self.is_package else self.name.rpartition(".")[0])
        return {alias.asname or alias.name: (base, alias.name) for alias in node.names}


class _Writer:
    """The text of one unit, and what it uses."""

    def __init__(self, module: Module, node: ast.AST) -> None:
        self._module, self.uses, self.mentions = module, set[Symbol](), set[str]()
        self._imports: dict[str, tuple[str, str | None]] = {}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import | ast.ImportFrom):
                self._imports |= module.bound(inner)
        self._locals: dict[str, str] = {}
        self._is_local = _local_names(node) - module.defined - set(module.imports) - set(self._imports)
        self.pieces: list[str] = []
        self._write(node)

    def _write(self, node: object, in_error: bool = False) -> None:
        put = self.pieces.append
        if isinstance(node, list):
            put("[")
            for item in node:
                if not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)):  # a docstring
                    self._write(item, in_error)
            put("]")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            pass
        elif in_error and (isinstance(node, ast.JoinedStr) or _is_text(node)):
            put("words ")
        elif isinstance(node, ast.Constant):
            put(f"{node.value!r} ")
        elif isinstance(node, ast.Name):
            self._write_name(node)
        elif isinstance(node, ast.AST):
            self._write_node(node, in_error or isinstance(node, ast.Raise))
        elif node is not None:
            put(f"{node!r} ")

    def _write_name(self, node: ast.Name) -> None:
        name = node.id
        if name in self._is_local:
            name = self._locals.setdefault(name, f"_{len(self._locals)}")
        elif (symbol := self._module.symbol(node, self._imports)) is not None:
            self.uses.add(symbol)
            name = symbol[1]
        self.pieces.append(f"{name} ")

    def _write_node(self, node: ast.AST, in_error: bool) -> None:
        if isinstance(node, ast.Attribute):
            if (symbol := self._module.symbol(node, self._imports)) is not None:
                self.uses.add(symbol)
            self.mentions.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            self.mentions |= {item.value for item in node.args if _is_text(item)}  # type: ignore[attr-defined]
        elif isinstance(node, ast.MatchClass):
            self.mentions |= set(node.kwd_attrs)
        self.pieces.append(f"({type(node).__name__} ")
        for name in node._fields:
            value = getattr(node, name, None)
            if name in ("ctx", "type_comment", "kind", "type_params", "returns") or value is None or value == []:
                continue
            if name == "annotation":
                self._see_types(value)
                if isinstance(node, ast.AnnAssign):
                    self.pieces.append("field ")
                continue
            if name == "name" and value in self._is_local:
                value = self._locals.setdefault(value, f"_{len(self._locals)}")
            self.pieces.append(f"{name}=")
            self._write(value, in_error)
        self.pieces.append(")")

    def _see_types(self, annotation: ast.expr) -> None:
        """The classes in an annotation are used, as objects of them come in; they are no part of the text."""
        if _is_text(annotation):
            annotation = ast.parse(annotation.value, mode="eval").body  # type: ignore[attr-defined]
        known = {**self._module.for_types, **self._imports}
        for node in ast.walk(annotation):
            if (symbol := self._module.symbol(node, known)) is not None:
                self.uses.add(symbol)


def _rows(table: ast.stmt) -> dict[str, Mapping[str, object]]:
    """What a table of abilities says of each of them: the arguments of its ``Ability``."""
    value = getattr(table, "value", None)
    assert isinstance(value, ast.Dict), "a table of abilities is a dict of calls with literal arguments"
    return {
        str(ast.literal_eval(name)): {str(word.arg): ast.literal_eval(word.value) for word in row.keywords}
        for name, row in zip(value.keys, value.values, strict=True)
        if name is not None and isinstance(row, ast.Call)
    }


def _is_attribute(line: ast.stmt) -> bool:
    """Whether a line of a class sets an attribute of the class, and no field."""
    return isinstance(line, ast.Assign) or (
        isinstance(line, ast.AnnAssign) and "ClassVar" in ast.unparse(line.annotation).split("[")[0]
    )


def _is_text(node: object) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def source_of(node: ast.ImportFrom, package: str) -> str:
    """The module that an import statement in a module of a package imports from."""
    parts = package.split(".")
    above = parts[: len(parts) + 1 - node.level] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


def _executed(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements at the top level of a module, those below ``if`` and ``try`` included, without those for type
    checkers."""
    for child in node.orelse if is_for_types(node) else ast.iter_child_nodes(node):  # type: ignore[attr-defined]
        if isinstance(child, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            yield from _executed(child)
        elif isinstance(child, ast.stmt):
            yield child


def is_for_types(node: ast.AST) -> bool:
    """Whether a statement is ``if TYPE_CHECKING:``, which is never executed."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _names_of(node: ast.stmt) -> Iterator[str]:
    """The names that a statement at the top level defines; that of ``NAME[...] = ...`` is the name it changes."""
    if isinstance(node, Function | ast.ClassDef):
        yield node.name
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    for target in targets:
        for inner in ast.walk(target) if target is not None else ():
            if isinstance(inner, ast.Name) and not (isinstance(target, ast.Subscript) and inner is not target.value):
                yield inner.id


def _local_names(unit: ast.AST) -> set[str]:
    """The names that a function binds, nested functions included, without its parameters, which are an interface."""
    if not isinstance(unit, Function):
        return set()
    bound, fixed = set[str](), set[str]()
    for node in ast.walk(unit):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, Function | ast.ClassDef | ast.ExceptHandler) and node is not unit and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            fixed.add(node.arg)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            fixed |= set(node.names)
    return bound - fixed
