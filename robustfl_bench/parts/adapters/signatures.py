"""What somebody else's rule is called with, read from its signature: its options, and how it is made. Imports nothing
heavy."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from robustfl_bench.base.abilities import Part

DECLARED = ("f", "num_byzantine", "n_byzantine", "nb_byzantine", "byzantine", "num_attackers", "num_malicious_clients")
"""Arguments that are the number of attackers which the server assumes."""

CLIENTS = ("n", "num_clients", "n_clients")
"""Arguments that are the number of updates; they are given at each call."""

METHODS = ("__call__", "aggregate")
"""The methods of an object that take a matrix, the first that exists."""

_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)


def adapter(found: Any) -> str | None:
    """The adapter, by its public name, for what a dotted name stands for; None if it is no rule of another package."""
    if isinstance(found, type) and issubclass(found, Part):
        return None
    if isinstance(found, type) and callable(getattr(found, "aggregate_fit", None)):
        return "robustfl_bench.adapters.FlowerRule"
    return None if _asked(found) is None else "robustfl_bench.adapters.Foreign"


def options(found: Any) -> dict[str, Any]:
    """The arguments that a config gives, with their defaults, ``inspect.Parameter.empty`` for none."""
    makes = isinstance(found, type) and _class_method(found) is None
    parameters = list(_parameters(found if makes else _asked(found)).values())
    given = parameters if makes else [one for one in parameters[1:] if one.name not in CLIENTS]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {one.name: one.default for one in given if one.kind in kinds}


def array(found: Any) -> str:
    """``torch`` for a rule that is annotated with tensors, or else uses torch; ``numpy`` for all others."""
    asked = _asked(found)
    function = getattr(asked, "__func__", asked)
    annotations = " ".join(map(str, getattr(function, "__annotations__", {}).values()))
    if "ndarray" in annotations or "Tensor" in annotations:
        return "numpy" if "ndarray" in annotations else "torch"
    known, code = getattr(function, "__globals__", {}), getattr(function, "__code__", None)
    used = [getattr(known.get(name), "__name__", "") for name in (code.co_names if code else ())]
    return "torch" if any(name.split(".")[0] == "torch" for name in used) else "numpy"


@dataclass(frozen=True)
class FunctionCall:
    """A function and the arguments that a config gives; ``counted`` is the argument for the number of updates."""

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    counted: str | None

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__qualname__", self.function))

    def __call__(self, matrix: Any) -> Any:
        """The aggregate of the rows of a matrix."""
        count = {} if self.counted is None else {self.counted: len(matrix)}
        return self.function(matrix, **count, **self.arguments)


def built(found: Any, arguments: Mapping[str, Any]) -> Any:
    """A rule of another package with the arguments of a config: an object of a class, else a ``FunctionCall``."""
    if isinstance(found, type) and _class_method(found) is None:
        return found(**arguments)
    asked = _asked(found)
    names = list(_parameters(asked))[1:]
    return FunctionCall(asked, arguments, next((name for name in CLIENTS if name in names), None))


def _asked(found: Any) -> Any:
    """What is called with a matrix: a function, a class method ``aggregate``, or one of METHODS of an object; else
    None."""
    if isinstance(found, _FUNCTIONS):
        return found
    if isinstance(found, type):
        methods = (vars(base)[name] for name in METHODS for base in found.__mro__ if name in vars(base))
        return _class_method(found) or next(methods, None)
    return None


def _class_method(found: type) -> Any:
    """The class or static method ``aggregate`` of a class that needs no object, None if it has none."""
    own = inspect.getattr_static(found, "aggregate", None)
    return found.aggregate if isinstance(own, classmethod | staticmethod) else None  # type: ignore[attr-defined]


def _parameters(asked: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(asked).parameters
    except (TypeError, ValueError):  # of a function in C
        return {}
