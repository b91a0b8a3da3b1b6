"""The units of a source file as an earlier process has read them, in place of reading them from its text again."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robustfl_bench.base import remembered, units
from robustfl_bench.base.units import COUNTS, Members, Module, Symbol, Unit

_READER = Path(units.__file__), Path(__file__)

Places = Callable[[Iterable[Unit]], list[int]]
"""The places of units in the list of all that a record has."""


class KnownModule:
    """What closures ask of a ``Module``. Its text is read where there is no record, or one without an answer."""

    def __init__(self, name: str, source: bytes, is_package: bool) -> None:
        self.name, self.is_package, self._source = name, is_package, source
        reader = remembered.code_of(*_READER)
        self._subject = reader and reader + f"{name} {is_package}\n".encode() + hashlib.sha256(source).digest()
        self._parsed: Module | None = None
        self.is_new = False
        self.imports: Mapping[str, tuple[str, str | None]]
        if (content := remembered.recall(self._subject)) is None:
            self.imports, self.units = self.parsed.imports, self.parsed.units
            self.classes = {name: KnownClass(self, name) for name in self.parsed.classes}
            return
        record = json.loads(bytes(content))
        pool = [
            Unit(name, bytes.fromhex(digest), frozenset(map(tuple, uses)), frozenset(mentions))
            for name, digest, uses, mentions in record["pool"]
        ]
        self.imports = {name: tuple(home) for name, home in record["imports"].items()}
        self.units = {name: [pool[place] for place in places] for name, places in record["units"].items()}
        self.classes = {name: KnownClass(self, name, of, pool) for name, of in record["classes"].items()}

    @property
    def parsed(self) -> Module:
        """The module as its text has it."""
        if self._parsed is None:
            self._parsed = Module(self.name, self._source, self.is_package)
            self.is_new = True
        return self._parsed

    def remember(self) -> None:
        """Write a record, if the text was read since the last one."""
        if not self.is_new:
            return
        self.is_new = False
        pool: dict[Unit, int] = {}

        def places(of: Iterable[Unit]) -> list[int]:
            return [pool.setdefault(unit, len(pool)) for unit in of]

        record: dict[str, object] = {
            "imports": self.imports,
            "units": {name: places(of if name not in self.classes else ()) for name, of in self.units.items()},
            "classes": {name: klass.record(places) for name, klass in self.classes.items()},
        }
        record["pool"] = [(unit.name, unit.digest.hex(), [*unit.uses], [*unit.mentions]) for unit in pool]
        remembered.remember(self._subject, json.dumps(record).encode())


class KnownClass:
    """What closures ask of a ``Klass``; its members for the abilities that were asked for last."""

    def __init__(self, module: KnownModule, name: str, record: Any = None, pool: Sequence[Unit] = ()) -> None:
        self._module, self._name = module, name
        self._members: tuple[Mapping[str, str], Members] | None = None
        self.bases: tuple[Symbol, ...]
        if record is None:
            klass = module.parsed.classes[name]
            self.bases, self.names = klass.bases, klass.names
            self.table = {name: {COUNTS: row[COUNTS]} if COUNTS in row else {} for name, row in klass.table.items()}
            return
        self.bases = tuple((home, name) for home, name in record["bases"])
        self.names, self.table = set(record["names"]), record["table"]
        if record["members"] is not None:
            asked, always, whole, mentioned = record["members"]
            of = {name: [pool[place] for place in places] for name, places in mentioned.items()}
            self._members = asked, Members([pool[i] for i in always], [pool[i] for i in whole], of)

    def members(self, abilities: Mapping[str, str]) -> Members:
        """As ``Klass.members``."""
        asked = {name: abilities[name] for name in abilities.keys() & (self.names | self.table.keys())}
        if self._members is None or self._members[0] != asked:
            self._members = asked, self._module.parsed.classes[self._name].members(abilities)
            self._module.is_new = True
        return self._members[1]

    def record(self, places: Places) -> Mapping[str, object]:
        """What makes it again."""
        members = None
        if self._members is not None:
            asked, of = self._members
            mentioned = {name: places(units) for name, units in of.mentioned.items()}
            members = asked, places(of.always), places(of.whole), mentioned
        return {"bases": self.bases, "names": sorted(self.names), "table": self.table, "members": members}
