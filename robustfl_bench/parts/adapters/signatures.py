"""What somebody else's function or class is called with, read from its signature: its options, and how it is made.
Imports nothing heavy."""

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

SIZES = ("in_features", "num_features", "input_dim", "input_size")
"""Arguments of a network that are the number of numbers in a sample."""

OUTPUTS = ("num_classes", "n_classes", "num_outputs", "out_features", "output_dim")
"""Arguments of a network that are the number of its outputs."""

GIVEN: Mapping[str, tuple[str, ...]] = {
    "aggregator": CLIENTS,
    "attack": (*CLIENTS, *DECLARED, "params", "previous", "round", "lr", "rng", "own", "mean", "std", "ask"),
    "poison": (*OUTPUTS, "rng", "attacker"),
    "partition": (*CLIENTS, "rng"),
    "local_update": ("gradient", "lr", "round", "rng", "num_samples"),
    "model": ("input_shape", *SIZES, "in_channels", *OUTPUTS),
}
"""The arguments that the engine gives at each call, besides the first ones, by what is adapted; the others are
options."""

METHODS = ("__call__", "aggregate")
"""The methods of a rule's object that take a matrix, the first that exists."""

_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)
_ADAPTERS = {
    "attack": "PlainAttack", "poison": "PlainPoison", "partition": "PlainPartition",
    "local_update": "PlainUpdate", "model": "PlainModel",
}  # fmt: skip


def adapter(group: str, found: Any) -> str | None:
    """The adapter, by its public name, for what a dotted name stands for as an option of a group; None if it cannot be
    adapted."""
    if group not in GIVEN or (isinstance(found, type) and issubclass(found, Part)):
        return None
    if group == "aggregator" and isinstance(found, type) and callable(getattr(found, "aggregate_fit", None)):
        return "robustfl_bench.adapters.FlowerRule"
    if _asked(group, found) is None:
        return None
    return f"robustfl_bench.adapters.{_ADAPTERS.get(_kind(group, found), 'Foreign')}"


def options(group: str, found: Any) -> dict[str, Any]:
    """The arguments that a config gives, with their defaults, ``inspect.Parameter.empty`` for none."""
    given = list(_parameters(found if _is_made(group, found) else _asked(group, found)).values())
    kind = _kind(group, found)
    if not _is_made(group, found):
        given = [one for one in given[_NUMBER_FIRST.get(kind, 1) :] if one.name not in GIVEN[kind]]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {one.name: one.default for one in given if one.kind in kinds}


_NUMBER_FIRST = {"poison": 2, "model": 0}
"""How many first arguments are what is adapted; one for all others."""


def array(group: str, found: Any) -> str:
    """``torch`` for what is annotated with tensors, or else uses torch; ``numpy`` for all others."""
    asked = _asked(group, found)
    function = getattr(asked, "__func__", asked)
    annotations = " ".join(map(str, getattr(function, "__annotations__", {}).values()))
    if "ndarray" in annotations or "Tensor" in annotations:
        return "numpy" if "ndarray" in annotations else "torch"
    known, code = getattr(function, "__globals__", {}), getattr(function, "__code__", None)
    used = [getattr(known.get(name), "__name__", "") for name in (code.co_names if code else ())]
    return "torch" if any(name.split(".")[0] == "torch" for name in used) else "numpy"


@dataclass(frozen=True)
class FunctionCall:
    """A function, or the class of a network, and the arguments that a config gives."""

    function: Callable[..., Any]
    arguments: Mapping[str, Any]

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__qualname__", self.function))

    def __call__(self, *first: Any, **given: Any) -> Any:
        """What it returns for the ``first`` arguments, those that the engine gives, and those of the config."""
        return self.function(*first, **given, **self.arguments)


def call(asked: Any, *first: Any, **given: Callable[[], Any]) -> Any:
    """What a function or an object returns for the ``first`` arguments; of those that are ``given``, each as a function
    that makes it, it gets the ones that it names."""
    names = _parameters(asked.function if isinstance(asked, FunctionCall) else asked)
    fixed = asked.arguments if isinstance(asked, FunctionCall) else {}
    return asked(*first, **{name: make() for name, make in given.items() if name in names and name not in fixed})


def required(asked: Any) -> list[str]:
    """The arguments without a default that can be given by name."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [
        name for name, one in _parameters(asked).items() if one.kind in kinds and one.default is inspect.Parameter.empty
    ]


def built(adapter: str, found: Any, arguments: Mapping[str, Any]) -> Any:
    """What an adapter, by its public name, calls, with the arguments of a config: an object of a class, or a
    ``FunctionCall``."""
    method = _class_method(found) if adapter.endswith(".Foreign") and isinstance(found, type) else None
    if isinstance(found, type) and method is None and not adapter.endswith(".PlainModel"):
        return found(**arguments)
    return FunctionCall(method or found, arguments)


def _is_made(group: str, found: Any) -> bool:
    """Whether a config gives the arguments of a class, whose objects are called."""
    return isinstance(found, type) and group != "model" and not (group == "aggregator" and _class_method(found))


def _kind(group: str, found: Any) -> str:
    """What of a group is adapted: an attack whose first arguments are samples ``x`` and labels ``y`` poisons."""
    first = list(_parameters(_asked(group, found)))[_is_made(group, found) :][:2]
    return "poison" if group == "attack" and first == ["x", "y"] else group


def _asked(group: str, found: Any) -> Any:
    """What is called: a function, the class of a network, a rule's class method ``aggregate``, or a method of objects;
    else None."""
    if isinstance(found, _FUNCTIONS):
        return found
    if not isinstance(found, type) or (group == "model") != _is_network(found):
        return None
    if group == "model":
        return found
    names = METHODS if group == "aggregator" else METHODS[:1]
    methods = (vars(base)[name] for name in names for base in found.__mro__ if name in vars(base))
    return (group == "aggregator" and _class_method(found)) or next(methods, None)


def _is_network(found: Any) -> bool:
    """Whether it is the class of a network, by the names of its base classes, so that torch is not imported."""
    bases = getattr(found, "__mro__", ())
    return any((base.__module__, base.__name__) == ("torch.nn.modules.module", "Module") for base in bases)


def _class_method(found: type) -> Any:
    """The class or static method ``aggregate`` of a class that needs no object, None if it has none."""
    own = inspect.getattr_static(found, "aggregate", None)
    return found.aggregate if isinstance(own, classmethod | staticmethod) else None  # type: ignore[attr-defined]


def _parameters(asked: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(asked).parameters
    except (TypeError, ValueError):  # of a function in C
        return {}
