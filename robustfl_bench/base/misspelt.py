"""Names of a part that are no abilities of its kind, though they look like one; changes no number."""

import difflib
from typing import Any, get_origin

CLOSE = 0.8  # similarity of names (0 to 1) above which a method is reported as a misspelt ability


def check(cls: type, kind: type) -> None:
    """Raise TypeError for a class of this kind with an attribute or a property that is no ability and no field, with a
    method of a name similar to an ability, or with a ``__call__`` in place of the method that its kind's calls."""
    if "__call__" in vars(cls) and (calls := vars(kind).get("__call__")) and not _is_abstract(calls):
        abstract = " and ".join(name for name, ability in vars(kind).items() if _is_abstract(ability))
        raise TypeError(f"{cls.__name__} must define {abstract}, which {kind.__name__}.__call__ calls, not __call__")
    if "abilities" in vars(cls):
        raise TypeError(f"{cls.__name__}.abilities: what is said of abilities stands in the table of {kind.__name__}")
    allowed = public(name for base in cls.__mro__[1:] for name in (*vars(base), *annotations(base)))
    for name in public(vars(cls)) - allowed:
        if name in annotations(cls) and not _is_class_variable(annotations(cls)[name]):
            continue  # a field
        is_method = callable(vars(cls)[name]) or isinstance(vars(cls)[name], classmethod | staticmethod)
        near = difflib.get_close_matches(name, sorted(allowed), n=1, cutoff=CLOSE if is_method else 0)
        if near or not is_method:
            meant = f"; is {near[0]!r} meant?" if near else ""
            raise TypeError(f"{cls.__name__}.{name} is no ability of {kind.__name__}{meant}")


def public(names: Any) -> set[str]:
    """The names that do not begin with an underscore."""
    return {name for name in names if not name.startswith("_")}


def annotations(cls: type) -> dict[str, Any]:
    """The annotations of a class, without those of its bases."""
    annotated: dict[str, Any] = vars(cls).get("__annotations__", {})
    return annotated


def _is_abstract(method: Any) -> bool:
    return bool(getattr(method, "__isabstractmethod__", False))


def _is_class_variable(annotation: Any) -> bool:
    text = annotation if isinstance(annotation, str) else getattr(get_origin(annotation), "__name__", repr(annotation))
    return "ClassVar" in text.split("[")[0]
