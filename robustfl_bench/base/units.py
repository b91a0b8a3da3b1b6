"""The units of a source tree: its functions, methods, class bodies and constants, and which units each one uses.

Everything is read from the text; nothing is imported. The text of a unit leaves out what cannot change a number:
comments, docstrings, annotations, the words of errors, names of local variables, and the module it stands in.
"""

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, product
from pathlib import Path

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


class Klass:
    """A class: its bases, its methods by name, and the lines of its body."""

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
        self._module, self._node = module, node
        self._lines: list[tuple[ast.stmt, set[str]]] = []
        for line in _executed(node):
            if isinstance(line, Function):
                self.methods[line.name].append(module.unit(f"{node.name}.{line.name}", line))
            elif (names := set(_names_of(line))) == {TABLE}:
                self.table = _rows(line)
            elif names:
                self._lines.append((line, names))

    @property
    def names(self) -> set[str]:
        """The public names that the class defines."""
        return {name for name in self.methods.keys() | set().union(*(own for _, own in self._lines)) if name[0] != "_"}

    def members(self, abilities: Mapping[str, str]) -> "Members":
        """Its units, by when they count; ``abilities`` says so of those of a part."""
        never = {name for name, counts in abilities.items() if counts == NEVER}
        apart = {name for name, counts in abilities.items() if counts == USED} | never
        attributes = [(line, names) for line, names in self._lines if names <= apart and _is_attribute(line)]
        always, whole = [self.body([line for line, _ in attributes])], list[Unit]()
        mentioned: dict[str, list[Unit]] = defaultdict(list)
        for name in self.methods.keys() - never:
            mentioned[name] += (units := self.methods[name])
            whole += units if name not in apart else ()
            if self.inherits_elsewhere or (name.startswith("__") and name != "__repr__"):
                always += units
        for line, names in attributes:
            for name in names - never:
                mentioned[name].append(self._module.unit(f"{self._node.name}.{name}", line))
        for name, row in self.table.items():
            if (text := sorted(item for item in row.items() if item[0] != COUNTS)) and name not in never:
                unit = Unit(f"{self._node.name}.{TABLE}.{name}", _digest(repr(text)), frozenset(), frozenset())
                mentioned[name].append(unit)
        return Members(always, whole, mentioned)

    def body(self, without: Sequence[ast.stmt] = ()) -> Unit:
        """The class without its methods and without some lines."""
        node, lines = self._node, [line for line, _ in self._lines if line not in without]
        head = ast.ClassDef(node.name, node.bases, node.keywords, lines, node.decorator_list)
        return self._module.unit(node.name, head)


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
        for inner in (inner for part in ast.walk(tree) if _is_for_types(part) for inner in ast.walk(part)):
            if isinstance(inner, ast.Import | ast.ImportFrom):
                self.for_types |= self.bound(inner)
        for node in statements:
            self._add(node)

    def _add(self, node: ast.stmt) -> None:
        if isinstance(node, ast.ClassDef):
            self._add_class(node)
        elif isinstance(node, Function) or (names := list(_names_of(node))) == []:
            name = getattr(node, "name", "")
            if name or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
                self.units[name].append(self.unit(name, node))
        else:
            for name in names:
                self.units[name].append(self.unit(name, node))

    def _add_class(self, node: ast.ClassDef) -> None:
        self.classes[node.name] = klass = Klass(self, node)
        self.units[node.name].append(klass.body())

    def unit(self, name: str, node: ast.AST) -> Unit:
        """The unit of a name with the text of a node."""
        text = _Text(self, node)
        return Unit(name, _digest(text.written), frozenset(text.uses), frozenset(text.mentions))

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
        parts = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        above = parts[: len(parts) + 1 - node.level] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        return {alias.asname or alias.name: (base, alias.name) for alias in node.names}


class _Text:
    """The text of one unit, and what it uses."""

    def __init__(self, module: Module, node: ast.AST) -> None:
        self._module, self.uses, self.mentions = module, set[Symbol](), set[str]()
        self._imports: dict[str, tuple[str, str | None]] = {}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import | ast.ImportFrom):
                self._imports |= module.bound(inner)
        self._locals: dict[str, str] = {}
        self._is_local = _local_names(node) - module.defined - set(module.imports) - set(self._imports)
        self._pieces: list[str] = []
        self._write(node)
        self.written = "".join(self._pieces)

    def _write(self, node: object, in_error: bool = False) -> None:
        put = self._pieces.append
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
        self._pieces.append(f"{name} ")

    def _write_node(self, node: ast.AST, in_error: bool) -> None:
        if isinstance(node, ast.Attribute):
            if (symbol := self._module.symbol(node, self._imports)) is not None:
                self.uses.add(symbol)
            self.mentions.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            self.mentions |= {item.value for item in node.args if _is_text(item)}  # type: ignore[attr-defined]
        elif isinstance(node, ast.MatchClass):
            self.mentions |= set(node.kwd_attrs)
        self._pieces.append(f"({type(node).__name__} ")
        for name in node._fields:
            value = getattr(node, name, None)
            if name in ("ctx", "type_comment", "kind", "type_params", "returns") or value is None or value == []:
                continue
            if name == "annotation":
                self._see_types(value)
                if isinstance(node, ast.AnnAssign):
                    self._pieces.append("field ")
                continue
            if name == "name" and value in self._is_local:
                value = self._locals.setdefault(value, f"_{len(self._locals)}")
            self._pieces.append(f"{name}=")
            self._write(value, in_error)
        self._pieces.append(")")

    def _see_types(self, annotation: ast.expr) -> None:
        """The classes in an annotation are used, as objects of them come in; they are no part of the text."""
        if _is_text(annotation):
            annotation = ast.parse(annotation.value, mode="eval").body  # type: ignore[attr-defined]
        known = {**self._module.for_types, **self._imports}
        for node in ast.walk(annotation):
            if (symbol := self._module.symbol(node, known)) is not None:
                self.uses.add(symbol)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


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


def _executed(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements at the top level of a module, those below ``if`` and ``try`` included, without those for type
    checkers."""
    for child in node.orelse if _is_for_types(node) else ast.iter_child_nodes(node):  # type: ignore[attr-defined]
        if isinstance(child, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            yield from _executed(child)
        elif isinstance(child, ast.stmt):
            yield child


def _is_for_types(node: ast.AST) -> bool:
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


def digest_of(units: Iterable[bytes]) -> str:
    """SHA-256 over units, each with its name; a repeated unit counts once."""
    return hashlib.sha256(b"".join(dict.fromkeys(sorted(units)))).hexdigest()


_read = lru_cache(maxsize=None)(Module)
"""A module by its name and source."""


class Tree:
    """The modules of a package below ``root``, each read when something in it is used.

    Modules named in ``neutral`` count as those of another package.
    """

    def __init__(self, root: Path, neutral: frozenset[str] = frozenset()) -> None:
        self._root, self._neutral, self._modules = root, neutral, dict[str, Module | None]()
        self._closures: dict[tuple[tuple[Symbol, ...], Symbol | Path | bytes | None], Closure] = {}
        self._part = (f"{root.name}.base.abilities", "Part")
        self._members: dict[Symbol, Members] = {}

    def module(self, name: str) -> Module | None:
        """The module of a dotted name; None for one of another package, or none."""
        if name not in self._modules:
            place = self._root.parent.joinpath(*name.split("."))
            paths = (place.with_suffix(".py"), place / "__init__.py")
            inside = name.split(".")[0] == self._root.name and name not in self._neutral
            path = next((path for path in paths if inside and path.is_file()), None)
            self._modules[name] = None if path is None else _read(name, path.read_bytes(), path.stem == "__init__")
        return self._modules[name]

    def members(self, symbol: Symbol) -> Members:
        """The units of a class, given by the module that defines it, by when they count."""
        if symbol not in self._members:
            klass = self._class(symbol)
            assert klass is not None
            self._members[symbol] = klass.members(self._abilities(symbol))
        return self._members[symbol]

    def _abilities(self, symbol: Symbol) -> Mapping[str, str]:
        """How each ability of a part counts, from the table of its kind; empty for a class that is no part."""
        if (klass := self._class(symbol)) is None:
            return {}
        if self._part in klass.bases:  # a kind of part
            every = [klass, *([part] if (part := self._class(self._part)) is not None else [])]
            names = set().union(*(each.names for each in every))
            rows = {name: row for each in reversed(every) for name, row in each.table.items()}
            return {name: str(rows.get(name, {}).get(COUNTS, USED)) for name in names}
        return next(filter(None, map(self._abilities, klass.bases)), {})

    def _class(self, symbol: Symbol) -> Klass | None:
        """The class of a symbol, which its module defines or imports."""
        if (module := self.module(symbol[0])) is None:
            return None
        if symbol[1] not in module.classes and symbol[1] in module.imports:
            home, name = module.imports[symbol[1]]
            return None if name is None else self._class((home, name))
        return module.classes.get(symbol[1])

    def names(self, module: str) -> list[str]:
        """The names of all units at the top level of a module."""
        found = self.module(module)
        return [] if found is None else list(found.units)

    def closure(self, functions: Iterable[Symbol], classes: Iterable[Symbol] = (),
                outside: Iterable[Path | bytes] = ()) -> "Closure":  # fmt: skip
        """All units that these functions, these classes with all their methods, and the code of other packages can use,
        which is in files or given as a text."""
        if ((named := tuple(functions)), None) not in self._closures:
            of_all = self._closures[named, None] = Closure(self)
            for function in named:
                of_all.reach(function)
            of_all.settle()
        total = Closure(self, base := self._closures[named, None])
        for root in classes:
            if (named, root) not in self._closures:
                own = self._closures[named, root] = Closure(self, base)
                own.reach(root, whole=True)
                own.settle()
            total.join(self._closures[named, root])
        for code in outside:
            if (named, code) not in self._closures:
                name, text = ("__main__", code) if isinstance(code, bytes) else (code.stem, code.read_bytes())
                self._closures[named, code] = self._used_by(_read(name, text, False), base)
            total.join(self._closures[named, code])
        total.settle()
        return total

    def _used_by(self, outside: Module, base: "Closure") -> "Closure":
        """What the code of a module of another package can use of this one, beyond ``base``."""
        own = Closure(self, base)
        for module, name in outside.imports.values():
            if name is not None:
                own.reach((module, name), whole=True)
            for inner in self.names(module if name is None else f"{module}.{name}"):  # a module as a whole
                own.reach((module if name is None else f"{module}.{name}", inner), whole=True)
        units = [unit for units in outside.units.values() for unit in units]
        units += [unit for klass in outside.classes.values() for units in klass.methods.values() for unit in units]
        for unit in units:
            own.use(unit)
        own.settle()
        return own


class Closure:
    """A set of units that is complete when ``settle`` has run. Those of ``base``, which is complete, belong to it."""

    def __init__(self, tree: Tree, base: "Closure | None" = None) -> None:
        self._tree = tree
        self._layers = (self,) if base is None else (base, self)
        self._units: set[Unit] = set()
        self._symbols: set[Symbol] = set()
        self._mentions: set[str] = set()
        self._classes: dict[Symbol, Members] = {}
        self._wholes: set[str] = set()
        self._waiting: list[Unit] = []

    @property
    def units(self) -> frozenset[Unit]:
        """All units."""
        return frozenset().union(*(layer._units for layer in self._layers))

    @property
    def wholes(self) -> frozenset[str]:
        """The names of the classes whose methods all count, also those that nothing mentions."""
        return frozenset().union(*(layer._wholes for layer in self._layers))

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the names and texts of the units."""
        return digest_of(chain.from_iterable(layer._texts for layer in self._layers))  # two sorted lists: fast

    @cached_property
    def _texts(self) -> list[bytes]:
        return sorted(unit.named for unit in self._units)

    def reach(self, symbol: Symbol, whole: bool = False) -> None:
        """Add a symbol; ``whole``: with all methods, if it is a class."""
        if not whole and any(symbol in layer._symbols for layer in self._layers):
            return
        self._symbols.add(symbol)
        module = self._tree.module(symbol[0])
        if module is None:
            return
        name = symbol[1]
        if name in module.imports and name not in module.units:  # re-exported
            inner, attribute = module.imports[name]
            self.reach((inner, attribute), whole) if attribute is not None else None
            return
        if name not in module.units and module.is_package:
            home = next((found for path in self._siblings(symbol[0]) if name in (found := path).units), None)
            if home is not None:
                self.reach((home.name, name), whole)
            return
        self._enter(module.units.get("", ()))  # calls at the top level
        if (klass := module.classes.get(name)) is None:
            self._enter(module.units.get(name, ()))
            return
        members = self._classes[module.name, name] = self._tree.members((module.name, name))
        self._enter(members.always)
        for base in klass.bases:
            self.reach(base, whole)
        if whole:
            self._wholes.add(name)
            self._enter(members.whole)

    def _siblings(self, package: str) -> Iterator[Module]:
        folder = self._tree._root.parent.joinpath(*package.split("."))
        for path in sorted(folder.glob("*.py")):
            if (module := self._tree.module(f"{package}.{path.stem}")) is not None and path.stem != "__init__":
                yield module

    def _enter(self, units: Iterable[Unit]) -> None:
        for unit in units:
            if not any(unit in layer._units for layer in self._layers):
                self._units.add(unit)
                self._waiting.append(unit)

    def use(self, unit: Unit) -> None:
        """Add what a unit refers to, and the names that it mentions."""
        self._mentions |= unit.mentions.difference(*(layer._mentions for layer in self._layers))
        for symbol in unit.uses:
            self.reach(symbol)

    def join(self, other: "Closure") -> None:
        """Add another closure with the same base."""
        self._units |= other._units
        self._symbols |= other._symbols
        self._mentions |= other._mentions
        self._classes |= other._classes
        self._wholes |= other._wholes

    def settle(self) -> None:
        """Add what the units use, and the methods of the classes that any of them mentions, until nothing is new."""
        while True:
            while self._waiting:
                self.use(self._waiting.pop())
            for of_classes, of_mentions in product(self._layers, repeat=2):
                if self in (of_classes, of_mentions):  # else the base has them
                    for members in list(of_classes._classes.values()):
                        for name in members.mentioned.keys() & of_mentions._mentions:
                            self._enter(members.mentioned[name])
            if not self._waiting:
                return
