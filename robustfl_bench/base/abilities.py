"""The base class of all parts of an experiment; a misspelt ability raises an error when its class is defined."""

import difflib
from abc import ABC
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, get_origin

from robustfl_bench.base.fields import check_options
from robustfl_bench.base.read_only import guarded, is_outside

CLOSE = 0.8  # similarity of names (0 to 1) above which a method is reported as a misspelt ability


class Part(ABC):  # noqa: B024 (its subclasses have the abstract methods)
    """The common base class of the classes in ``interfaces.py``, one for each config group, and so of every part.

    The public names of a base class are the abilities that the engine reads, each with a default. A part may override
    them and may have dataclass fields and methods of its own. Any other public class attribute or property, and any
    method with a name similar to an ability, raises TypeError. So does ``__call__`` if the base class has its own,
    which calls the method that a part defines. An intermediate class may declare an attribute for its subclasses:
    ``mean: ClassVar[float]``, without a value.

    When a part is built, fields annotated with an ``Option`` are checked first; then its ``__post_init__``, if it has
    one, checks what several fields must satisfy together. Methods of parts from outside this package raise
    BrokenContract if they write into what they are given or end the process.
    """

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
            return  # a base class, whose names are the abilities
        if is_outside(cls):
            for name, method in guarded(cls).items():
                setattr(cls, name, method)
        base = _kind(cls)
        if "__call__" in vars(cls) and (calls := vars(base).get("__call__")) and not _is_abstract(calls):
            defined = " and ".join(name for name, ability in vars(base).items() if _is_abstract(ability))
            raise TypeError(f"{cls.__name__} must define {defined}, which {base.__name__}.__call__ calls, not __call__")
        known = _public(name for base in cls.__mro__[1:] for name in (*vars(base), *_annotations(base)))
        for name in _public(vars(cls)) - known:
            if name in _annotations(cls) and not _is_class_variable(_annotations(cls)[name]):
                continue  # a field
            method = callable(vars(cls)[name]) or isinstance(vars(cls)[name], classmethod | staticmethod)
            near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=CLOSE if method else 0)
            if near or not method:
                meant = f"; is {near[0]!r} meant?" if near else ""
                raise TypeError(f"{cls.__name__}.{name} is no ability of {_kind(cls).__name__}{meant}")


def _after_options(post_init: Callable[[Part], None]) -> Callable[[Part], None]:
    """The ``__post_init__`` of a class, which may rely on its options."""

    @wraps(post_init)
    def check(self: Part) -> None:
        check_options(self)
        post_init(self)

    return check


def _kind(cls: type) -> type:
    """The base class of the part's config group."""
    return next(base for base in cls.__mro__ if Part in base.__bases__)


def _is_abstract(method: Any) -> bool:
    return bool(getattr(method, "__isabstractmethod__", False))


def _public(names: Any) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def _annotations(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = vars(cls).get("__annotations__", {})
    return found


def _is_class_variable(annotation: Any) -> bool:
    text = annotation if isinstance(annotation, str) else getattr(get_origin(annotation), "__name__", repr(annotation))
    return "ClassVar" in text.split("[")[0]
