"""The base class of all parts of an experiment, and what is said once of each ability of a kind of part.

A kind of part is a base class such as ``Attack``. Its public names are the abilities that others may ask for, each with
a default. Its table, ``abilities``, says the rest: in which runs an ability counts in the digest of their code, what a
wrapper does with it, and of which other ability it is a form. Digests, wrappers, the engine and ``testing`` read it.
"""

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from robustfl_bench.base import misspelt
from robustfl_bench.base.fields import check_options
from robustfl_bench.base.read_only import guarded, is_outside

Wrapper = TypeVar("Wrapper", bound="type[Part]")

COUNTS = ("used", "always", "never")
WRAPPER = ("forward", "own", "combine")


@dataclass(frozen=True)
class Ability:
    """What a table says of an ability; without a row in it, what the defaults here say.

    ``counts``: a part's ability belongs to the code digest of runs whose code mentions its name (``used``), of all runs
    that name the part (``always``), or of none (``never``), if it only explains, refuses or estimates memory. So a new
    ability changes no digest of a run that does not use it. Of attributes this holds where they are no fields:
    ``name = value`` or annotated as ``ClassVar``.

    ``wrapper``: a part around another one of its kind, see ``passes_on``, has the ability of the part within
    (``forward``), the default or what it defines itself (``own``), or must define how both go together (``combine``).

    ``form_of``: the ability does in another way what that ability does. A class that overrides that one, and not this
    one, has the default of this one again.

    ``default`` is that of the kind.
    """

    counts: str = "used"
    wrapper: str = "forward"
    form_of: str | None = None
    default: Any = None


Table = Mapping[str, Ability]
"""What is said of the abilities of a kind of part, by their names."""


class Part(ABC):  # noqa: B024 (its subclasses have the abstract methods)
    """The common base class of the classes in ``interfaces.py``, one for each config group, and so of every part.

    A part may override the abilities of its kind, and may have dataclass fields and methods of its own. Any other
    public class attribute or property, and any method with a name similar to an ability, raises TypeError. So does
    ``__call__`` if the kind has its own, which calls the method that a part defines. An intermediate class may declare
    an attribute for its subclasses: ``mean: ClassVar[float]``, without a value.

    When a part is built, fields annotated with an ``Option`` are checked first; then its ``__post_init__``, if it has
    one, checks what several fields must satisfy together. Methods of parts from outside this package raise
    BrokenContract if they write into what they are given or end the process.
    """

    abilities: ClassVar[Table] = {
        "depends_on": Ability(counts="never", wrapper="own"),
        "whole_matrices": Ability(counts="never", wrapper="own"),  # those of the part within are counted as its own
    }

    depends_on: ClassVar[tuple[str, ...]] = ()
    """What the numbers of a part depend on besides its code: files beside its module, by name, and environment
    variables, ``$NAME``. Files that it opens are found without."""
    whole_matrices: ClassVar[int] = 0
    """The most matrices of the size of all updates that a part holds in memory beside them, which counts where the
    updates are in a file."""

    def __post_init__(self) -> None:
        check_options(self)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__post_init__" in vars(cls):
            cls.__post_init__ = _after_options(vars(cls)["__post_init__"])  # type: ignore[method-assign, assignment]
        if Part in cls.__bases__:
            cls.abilities = _table(cls)
            return
        if is_outside(cls):
            for name, method in guarded(cls).items():
                setattr(cls, name, method)
        misspelt.check(cls, next(base for base in cls.__mro__ if Part in base.__bases__))
        for name, ability in cls.abilities.items():
            if ability.form_of in vars(cls) and name not in vars(cls):
                setattr(cls, name, ability.default)


def overrides(part: Part, name: str) -> bool:
    """Whether a part has an ability in another way than by default; of a wrapper that passes it on, the part within."""
    ability = getattr(type(part), name)
    if isinstance(ability, _Passed):
        return overrides(getattr(part, ability.field), name)
    return ability is not part.abilities[name].default


def passes_on(field: str) -> Callable[[Wrapper], Wrapper]:
    """A class decorator for parts around another part of their kind, which is in ``field``: the class passes on to it
    what the table of the kind says. Raises TypeError if the class lacks an ability that it must define itself."""

    def passing(cls: Wrapper) -> Wrapper:
        for name, ability in cls.abilities.items():
            if name in vars(cls):
                continue
            if ability.wrapper == "combine":
                raise TypeError(f"{cls.__name__} must define {name}, around that of its {field}")
            if ability.wrapper == "forward":
                setattr(cls, name, _Passed(field, name))
        return cls

    return passing


@dataclass(frozen=True)
class _Passed:
    """An ability that is that of the part in a field."""

    field: str
    name: str

    def __get__(self, part: object, cls: type) -> Any:
        return self if part is None else getattr(getattr(part, self.field), self.name)


def _table(kind: type[Part]) -> Table:
    """What is said of each ability of a kind of part. Raises TypeError for what cannot be said."""
    said = {**Part.abilities, **vars(kind).get("abilities", {})}
    names = misspelt.public((*vars(Part), *vars(kind), *misspelt.annotations(kind))) - {"abilities"}
    for name, ability in said.items():
        if {name, ability.form_of or name} - names:
            raise TypeError(f"{kind.__name__}.abilities: {name} or what it is a form of is no ability of the class")
        if ability.counts not in COUNTS or ability.wrapper not in WRAPPER:
            raise TypeError(f"{kind.__name__}.abilities: {name} takes {', '.join(COUNTS)} and {', '.join(WRAPPER)}")
    rows = {name: replace(said.get(name, Ability()), default=getattr(kind, name, None)) for name in sorted(names)}
    return MappingProxyType(rows)


def _after_options(post_init: Callable[[Part], None]) -> Callable[[Part], None]:
    """The ``__post_init__`` of a class, which may rely on its options."""

    @wraps(post_init)
    def check(self: Part) -> None:
        check_options(self)
        post_init(self)

    return check
