"""Parts from outside this package that are chosen by their class: ``aggregator=my_package.my_module:MyRule``.

The fields of the class are the options: ``aggregator.stretch=2``. A field without a default takes its value from the
setting of the same name, if one exists; otherwise it must be given. A function, a network of PyTorch, or the rule of
another package is used through an adapter; its arguments are the options: ``attack.function.strength=2``.
"""

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from inspect import Parameter
from typing import Any

from robustfl_bench.base import public
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.trees import merge
from robustfl_bench.parts.adapters import signatures
from robustfl_bench.runner.config import targets


def is_class(option: str) -> bool:
    """Whether an option is a class, ``module:Class``, and not a file of ``conf/``."""
    return ":" in option


def content(group: str, option: str) -> dict[str, Any]:
    """The content of a config group for the class ``option``: its ``_target_`` and its options.

    Imports the module. Raises ConfigError unless the class is a part of this group.
    """
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*", option):
        raise ConfigError(f"{group} takes an option, or a class such as my_package.my_module:MyClass, got {option!r}")
    target = option.replace(":", ".")
    found = targets.found_part(group, target)
    if (adapter := signatures.adapter(group, found)) is not None:
        return _adapted(group, adapter, target, found)
    options: list[Field[Any]] = [field for field in fields(found) if field.init] if is_dataclass(found) else []
    values = {field.name: _value(group, field) for field in options}
    return {"_target_": target, **{name: value for name, value in values.items() if value is not MISSING}}


def _adapted(group: str, adapter: str, target: str, found: Any) -> dict[str, Any]:
    """The content for what is no part: the adapter, and below ``rule`` or ``function`` what it is called with."""
    settings = targets.from_settings(group)
    settings |= dict.fromkeys(signatures.DECLARED, settings["num_byzantine"])
    arguments = {"_target_": target}
    for name, default in signatures.options(group, found).items():
        value = MISSING if default is Parameter.empty else plain(default)
        if name in signatures.DECLARED or default is Parameter.empty:
            value = settings.get(name, targets.REQUIRED)
        if value is not MISSING:
            arguments[name] = value
    asks = {} if adapter.endswith(("FlowerRule", "PlainModel")) else {"array": signatures.array(group, found)}
    return {"_target_": adapter, "rule" if group == "aggregator" else "function": arguments, **asks}


def adapted(content: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """What the content of a group adapts, with its key; None if it builds a part itself."""
    if not str(content.get("_target_")).startswith("robustfl_bench.adapters."):
        return None
    inner = (item for item in content.items() if isinstance(item[1], Mapping) and "_target_" in item[1])
    return next(inner, None)


def whole(group: str, part: Any) -> Any:
    """The content of a group with the classes that its lists name as ``module:Class``, and without Hydra's
    ``_partial_``: false says nothing, and of a function of a matrix true says that it is called later, as an adapter
    does. Raises ConfigError for a class or function that cannot be imported."""
    if not isinstance(part, Mapping):
        return part
    part = {name: [content(group, item) if isinstance(item, str) and is_class(item) else item for item in value]
            if isinstance(value, list) else value for name, value in part.items()}  # fmt: skip
    if "_partial_" not in part:
        key, inner = adapted(part) or ("", {})
        return {**part, key: whole(group, inner)} if "_partial_" in inner else part
    rest = {key: item for key, item in part.items() if key != "_partial_"}
    if part["_partial_"] is False:
        return rest
    target = str(part.get("_target_"))
    found = targets.found_part(group, target)
    if (adapter := signatures.adapter(group, found)) is None:
        return part
    around = _adapted(group, adapter, target, found)
    key, _ = adapted(around) or ("rule", {})
    return merge(around, {key: rest})


def word(target: str) -> str:
    """The option ``module:Class`` that chooses the class of a dotted name."""
    return ":".join(target.rsplit(".", 1))


def label(option: str) -> str:
    """The readable name of a class: ``cosine_vote`` for ``my_rules:CosineVote``."""
    name = option.rpartition(":")[2]
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def label_of(target: str) -> str:
    """The readable name of the part that a config builds: its option in ``conf/``, else its class."""
    if (module := public.home(target)) is not None:
        return module.rpartition(".")[2]
    return label(word(target))


def label_of_part(content: Mapping[str, Any]) -> str:
    """The readable name of the part that the content of a group builds; of an adapter, that of what it adapts."""
    _, part = adapted(content) or ("", content)
    return label_of(part["_target_"])


def _value(group: str, field: Field[Any]) -> Any:
    """The default of a field as a config holds it; MISSING if a config cannot."""
    if field.default is not MISSING:
        return plain(field.default)
    if field.default_factory is not MISSING:
        return plain(field.default_factory())
    return targets.from_settings(group).get(field.name, targets.REQUIRED)


def plain(value: Any) -> Any:
    """A value as YAML holds it, or MISSING."""
    if isinstance(value, list | tuple):
        items = [plain(item) for item in value]
        return MISSING if any(item is MISSING for item in items) else items
    if isinstance(value, dict):
        pairs = {key: plain(item) for key, item in value.items()}
        return MISSING if any(item is MISSING for item in pairs.values()) else pairs
    return value if value is None or type(value) in (bool, int, float, str) else MISSING
