"""The options of conf/ as plain YAML, read without Hydra."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.trees import merge
from robustfl_bench.config import outside

_PACKAGE = Path(__file__).resolve().parent.parent
CONF = _PACKAGE / "conf" if (_PACKAGE / "conf").is_dir() else _PACKAGE.parent / "conf"  # inside the package in a wheel

Search = tuple[Path, ...]
"""Config folders, ``conf/`` and those of ``--config-dir``; the first with the file counts."""

HERE: Search = (CONF,)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A safe loader that reads numbers as OmegaConf does: PyYAML reads 5e-4 as a string."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+$|^[-+]?(?:inf|nan)$"),
    list("-+0123456789.in"),
)


def parse(text: str) -> Any:
    """The value of YAML text. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_Loader)


def not_yaml(error: yaml.YAMLError, file: str | Path | None = None) -> str:
    """The error of a file that is not YAML, with its line; ``file`` is named if the error does not name one."""
    mark = getattr(error, "problem_mark", None)
    place = f"{file or getattr(mark or error, 'name', 'a config')}{f' line {mark.line + 1}' if mark else ''}"
    return f"{place}: not YAML: {getattr(error, 'problem', None) or ' '.join(str(error).split())}"


def read(file: Path, absent: str) -> Any:
    """The value in a YAML file. Raises ConfigError if it cannot be read; ``absent`` is the message if there is no
    file."""
    try:
        return parse(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(absent) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"cannot read {not_yaml(error, file)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {' '.join(str(error).split())}") from None


def find(path: str, search: Search = HERE) -> Path | None:
    """The file of a config such as ``aggregator/krum``, or None."""
    return next((file for folder in search if (file := folder / f"{path}.yaml").is_file()), None)


def is_group(name: str) -> bool:
    """Whether ``name`` is a folder of options, such as ``aggregator``."""
    return (CONF / name).is_dir()


def exists(group: str, name: str, search: Search = HERE) -> bool:
    """Whether the option ``group=name`` exists."""
    return find(f"{group}/{name}", search) is not None


def names(group: str, search: Search = HERE) -> list[str]:
    """The options of a group, in alphabetical order; presets have a folder for each paper: ``boba/mnist``."""
    found = [path.relative_to(folder / group) for folder in search for path in (folder / group).rglob("*.yaml")]
    return sorted({str(path.with_suffix("")) for path in found})


@cache
def load(path: str, search: Search = HERE) -> Mapping[str, Any]:
    """The content of a config, such as ``aggregator/krum``, as it is written; raises FileNotFoundError."""
    file = find(path, search)
    if file is None:
        raise FileNotFoundError(f"no config {path} in {', '.join(map(str, search))}")
    return read(file, absent=f"no file {file}") or {}


@cache
def option(group: str, name: str, nested: tuple[tuple[str, str], ...] = (), search: Search = HERE) -> dict[str, Any]:
    """The content of an option, merged with its defaults list (``[boba, _self_]``, ``/aggregator@rule: krum``).

    The option can be a class from outside, ``my_module:MyRule``; then its fields are the content. ``nested`` replaces
    options of the list, by the key they go to: ``(("rule", "trmean"),)``. Interpolations stay as written. Raises
    FileNotFoundError for an option that does not exist.
    """
    if outside.is_class(name):
        return outside.content(group, name)
    content = dict(load(f"{group}/{name}", search))
    chosen, merged = dict(nested), dict[str, Any]()
    listed = content.pop("defaults", [])
    for part in listed if "_self_" in listed else [*listed, "_self_"]:
        if part == "_self_":
            merged = merge(merged, content)
        elif isinstance(part, str):
            merged = merge(merged, option(group, part, nested, search))
        else:
            ((place, default),) = part.items()
            other, _, key = place.removeprefix("/").partition("@")
            merged = merge(merged, {key: option(other, chosen.get(key, default), (), search)})
    return merged


@cache
def original(group: str, name: str) -> str:
    """The option that an alias of this package stands for, ``coomed`` for ``median``; the name itself if it is none."""
    content = load(f"{group}/{name}") if name in names(group) else {}
    below = content.get("defaults", [])
    is_alias = content.keys() == {"defaults"} and len(below) == 1 and isinstance(below[0], str)
    return original(group, below[0]) if is_alias else name


@cache
def chosen(group: str, written: str, nested: tuple[tuple[str, str], ...] = (), search: Search = HERE) -> dict[str, Any]:
    """The content of a group for a choice such as ``krum``, or a list such as ``[clipping,nnm]``.

    The first line of a file can give the key in the group for its content, as in ``# @package pre_aggregation.nnm``, so
    that several options can be chosen. Raises FileNotFoundError for an option that does not exist.
    """
    content = dict[str, Any]()
    for name in listed(written):
        place = place_of(group, name, search)
        own = option(group, name, nested, search)
        content = merge(content, {place: own} if place else own)
    return content


def listed(written: str) -> list[str]:
    """The names in a choice such as ``krum`` or ``[clipping,nnm]``."""
    is_list = written.startswith("[") and written.endswith("]")
    return [name.strip() for name in written[1:-1].split(",")] if is_list else [written]


def label(group: str, written: str) -> str:
    """The readable name of a choice, one option or a list: ``my_rule`` for ``my_module:MyRule``. A class with the name
    of an option of the group is prefixed with its module's name.
    """
    readable = []
    for name in listed(written):
        own = outside.label(name) if outside.is_class(name) else name
        known = own != name and exists(group, own)
        readable.append(f"{name.partition(':')[0].rpartition('.')[2]}_{own}" if known else own)
    return f"[{','.join(readable)}]" if written.startswith("[") else "".join(readable)


def check_several(group: str, chosen: Sequence[str]) -> None:
    """Raise ConfigError when a list names an option twice: each option has one key for its settings."""
    places = [label(group, name) for name in chosen]
    if twice := next((place for place in places if places.count(place) > 1), None):
        raise ConfigError(f"{group} takes each option once, got {twice} twice in [{','.join(chosen)}]")


def has_places(group: str) -> bool:
    """Whether several options of a group can be chosen at once, each under its own key."""
    return any(place_of(group, name) for name in names(group))


@cache
def place_of(group: str, name: str, search: Search = HERE) -> str | None:
    """The key of its group to which an option's content goes, None for the group itself."""
    if outside.is_class(name):
        return label(group, name) if has_places(group) else None
    file = find(f"{group}/{name}", search)
    found = re.match(rf"# @package {group}\.(\w+)\n", file.read_text(encoding="utf-8")) if file else None
    return found[1] if found else None


@cache
def defaults() -> tuple[Mapping[str, str], Mapping[str, Any]]:
    """The default option of each group, and the default scalars, from config.yaml."""
    content = dict(load("config"))
    chosen = {group: name for part in content.pop("defaults") if isinstance(part, dict) for group, name in part.items()}
    groups = {group: name for group, name in chosen.items() if is_group(group)}
    return groups, {key: value for key, value in content.items() if key != "hydra"}


def interpolated(value: Any) -> str | None:
    """The key that a value refers to: ``num_byzantine`` for ``${num_byzantine}``; None for a plain value."""
    found = re.fullmatch(r"\$\{(\w+)\}", value) if isinstance(value, str) else None
    return found[1] if found else None


def refers(value: Any) -> bool:
    """Whether a value, or a part of it, is an interpolation ``${...}``."""
    return isinstance(value, str) and "${" in value


def as_override(key: str, value: Any) -> str:
    """``key=value`` as Hydra's command line takes it."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"{key}=[{','.join(map(_written, value))}]"
    return f"{key}={_written(value)}"


def _written(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
