"""Digests of this package's code: of all of it, and of the part that the numbers of a run depend on, the units that can
be reached from some of them."""

import hashlib
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, product
from pathlib import Path

from robustfl_bench.base import remembered, source_code, units
from robustfl_bench.base.public import PACKAGE as PACKAGE
from robustfl_bench.base.public import real
from robustfl_bench.base.units import COUNTS, USED, Klass, Members, Module, Symbol, Unit


@cache
def known(name: str, source: bytes, is_package: bool) -> Module:
    """A module by its name and source, from its text or as an earlier process has read that."""
    reader = remembered.code_of(Path(units.__file__))
    subject = reader and reader + f"{name} {is_package}\n".encode() + hashlib.sha256(source).digest()
    if (content := remembered.recall(subject)) is not None:
        module: Module = pickle.loads(content)
    else:
        module = Module(name, source, is_package)
        remembered.remember(subject, pickle.dumps(module))
    return module


def digest_of(units: Iterable[bytes]) -> str:
    """SHA-256 over units, each with its name; a repeated unit counts once."""
    return hashlib.sha256(b"".join(dict.fromkeys(sorted(units)))).hexdigest()


class Tree:
    """The modules of a package below ``root``, each read when something in it is used.

    Modules named in ``neutral`` count as those of another package.
    """

    def __init__(self, root: Path, neutral: frozenset[str] = frozenset()) -> None:
        self._root, self._neutral = root, neutral
        self._modules: dict[str, Module | None] = {}
        self._closures: dict[tuple[tuple[Symbol, ...], Symbol | Path | bytes | None], Closure] = {}
        self._part = (f"{root.name}.base.abilities", "Part")
        self._members: dict[Symbol, Members] = {}

    def module(self, name: str) -> Module | None:
        """The module of a dotted name; None for one of another package, or none."""
        name = real(name)
        if name not in self._modules:
            place = self._root.parent.joinpath(*name.split("."))
            paths = (place.with_suffix(".py"), place / "__init__.py")
            inside = name.split(".")[0] == self._root.name and name not in self._neutral
            path = next((path for path in paths if inside and path.is_file()), None)
            self._modules[name] = None
            if path is not None:
                text = texts()[path] if path in texts() else path.read_bytes()
                self._modules[name] = known(name, text, path.stem == "__init__")
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
                name = "__main__" if isinstance(code, bytes) else code.stem
                self._closures[named, code] = self._used_by(known(name, source_code.text(code), False), base)
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
        package = real(package)
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


Outside = Iterable[Path | bytes]
"""The code of parts from outside: files or texts."""


@cache
def texts() -> dict[Path, bytes]:
    """The text of every Python file of this package, as this process first read them, in order: a later edit is not
    taken for the code that it has imported."""
    return {path: path.read_bytes() for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def package_digest() -> str:
    """SHA-256 over the names and contents of all Python files of this package."""
    total = hashlib.sha256()
    for path, content in texts().items():
        total.update(f"{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode() + content)
    return total.hexdigest()


@dataclass(frozen=True)
class Computing:
    """What computes runs: ``always`` is what every run executes, ``named`` what a run executes as well whose config has
    a word, a regular expression. ``neutral`` are modules that change no number."""

    always: tuple[Symbol, ...]
    named: tuple[tuple[str, Symbol], ...] = ()
    neutral: frozenset[str] = frozenset()

    def closure(self, config: object, outside: Outside = ()) -> Closure:
        """The code that can change the numbers of a run with this config: all that can be reached from ``always``, from
        the parts and words that the config names, and from the code of parts from outside."""
        return _closure(self, self._parts(config), frozenset(outside))

    def digest(self, config: object, outside: Outside = ()) -> str:
        """That of the closure; as an earlier process has computed it, where this one has read no module yet."""
        return _digest(self, self._parts(config), frozenset(outside))

    def _parts(self, config: object) -> frozenset[Symbol]:
        words = str(config)
        parts = set(re.findall(rf"\b({PACKAGE.name}\.\w+)\.([A-Z]\w*)", words))
        parts |= {symbol for word, symbol in self.named if re.search(word, words)}
        return frozenset(parts)


@cache
def _closure(computing: Computing, parts: frozenset[Symbol], outside: frozenset[Path | bytes]) -> Closure:
    return _tree(computing.neutral).closure(computing.always, sorted(parts), sorted(outside, key=str))


@cache
def _digest(computing: Computing, parts: frozenset[Symbol], outside: frozenset[Path | bytes]) -> str:
    if _tree.cache_info().currsize:
        return _closure(computing, parts, outside).digest
    reader = remembered.code_of(Path(__file__), Path(units.__file__))
    codes = sorted((source_code.text(code) if isinstance(code, Path) else b"", str(code)) for code in outside)
    asked = (package_digest(), computing.always, sorted(computing.neutral), sorted(parts), codes)
    subject = reader and reader + repr(asked).encode()
    if (content := remembered.recall(subject)) is not None:
        return bytes(content).decode()
    digest = _closure(computing, parts, outside).digest
    remembered.remember(subject, digest.encode())
    return digest


@cache
def _tree(neutral: frozenset[str]) -> Tree:
    return Tree(PACKAGE, neutral)


def forget() -> None:
    """Read the code of parts from outside again when a digest is asked for next."""
    for known_digests in (_closure, _digest, _tree):
        known_digests.cache_clear()
