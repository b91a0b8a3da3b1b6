"""The options of conf/ as plain YAML."""

import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from robustfl_bench.base import regular
from robustfl_bench.base.console import note_once
from robustfl_bench.base.errors import ConfigError, near, one_line, reason
from robustfl_bench.base.public import PACKAGE
from robustfl_bench.base.trees import is_within, merge
from robustfl_bench.runner.config import beyond, outside
from robustfl_bench.runner.config.beyond import Beyond
from robustfl_bench.runner.config.words import PRESETS, named

CONF = PACKAGE / "conf" if (PACKAGE / "conf").is_dir() else PACKAGE.parent / "conf"  # inside the package in a wheel

Search = tuple[Path, ...]
"""Config folders, ``conf/`` and those of ``--config-dir``; the first with the file counts."""

HERE: Search = (CONF,)


_LARGEST = 1 << 22
"""The most bytes that a file of YAML, or a table beside one, is read up to."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A safe loader that reads numbers as OmegaConf does: PyYAML reads 5e-4 as a string."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+$|^[-+]?(?:inf|nan)$"),
    list("-+0123456789.in"),
)


def parse(text: str) -> Any:
    """The value of YAML text. Raises yaml.YAMLError."""
    return parse_with(_Loader, text)


_MOST_LISTS, _MOST_VALUES, _DEEPEST = 5000, 10_000, 100
"""Lists and mappings within a line in one text, values and levels in what it stands for; our longest has 141 lists."""


def parse_with(loader: Any, text: str) -> Any:
    """The same by a safe loader of PyYAML, whose parser in C crashes where text is nested deeply; a few hundred bytes
    can also stand for billions of values."""
    if len(text) > _LARGEST or sum(map(text.count, ("[", "{", "- "))) > _MOST_LISTS:
        raise yaml.YAMLError("it is too long, or has too many lists")
    tree = yaml.load(text, Loader=loader)
    if not is_within(tree, _MOST_VALUES, _DEEPEST):
        raise yaml.YAMLError(f"it stands for more than {_MOST_VALUES} values, or {_DEEPEST} levels")
    return tree


class _Dumper(yaml.SafeDumper):
    """A safe dumper that quotes the strings which ``_Loader`` reads as numbers, and repeats parts in full."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


def written(value: Any) -> str:
    """A value as YAML text, which ``parse`` reads."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf)
    return text


def not_yaml(error: yaml.YAMLError, file: str | Path | None = None) -> str:
    """The error of a file that is not YAML, with its line; ``file`` is named if the error does not name one."""
    mark = getattr(error, "problem_mark", None)
    place = f"{file or getattr(mark or error, 'name', 'a config')}{f' line {mark.line + 1}' if mark else ''}"
    return f"{place}: not YAML: {getattr(error, 'problem', None) or one_line(error)}"


def read(file: Path, absent: str, follow: bool = False) -> Any:
    """The value in a YAML file, also of one that a link points to if it is to ``follow``. Raises ConfigError if it
    cannot be read; ``absent`` is the message if there is no file."""
    text = read_text(file, absent, follow)
    try:
        return parse(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"cannot read {not_yaml(error, file)}") from None


def read_text(file: Path, absent: str, follow: bool = False) -> str:
    """The same of any text."""
    try:
        return regular.read_text(file, _LARGEST, follow)
    except FileNotFoundError:
        raise ConfigError(absent) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {file}: {reason(error)}") from None


_note = note_once()


def search(config_dir: str | Path | None = None) -> Search:
    """The folders of options: ``conf/``, then that of ``--config-dir``. Raises ConfigError if that is no folder."""
    if config_dir is None:
        return HERE
    own = Path(config_dir).expanduser().resolve()
    if not own.is_dir():
        raise ConfigError(f"--config-dir must be a folder with groups such as aggregator/ in it, got {config_dir}")
    for group in CONF.iterdir():
        for file in sorted((own / group.name).rglob("*.yaml")):
            shipped = group / file.relative_to(own / group.name)
            if shipped.is_file() and shipped.read_bytes() != file.read_bytes():
                _note(f"{file} is not read: the option of this package with that name counts, as in Hydra")
    return (*HERE, own)


def find(path: str, search: Search = HERE) -> Path | None:
    """The file of a config such as ``aggregator/krum``, or None; none outside of the folders."""
    if ".." in path.split("/"):
        return None
    try:
        return next((file for folder in search if (file := folder / f"{path}.yaml").is_file()), None)
    except (OSError, ValueError):  # no file can have this name
        return None


def is_group(name: str) -> bool:
    """Whether ``name`` is a folder of options, such as ``aggregator``."""
    return (CONF / name).is_dir()


def exists(group: str, name: str) -> bool:
    """Whether ``conf/`` has the option ``group=name``."""
    return find(f"{group}/{name}") is not None


def names(group: str, search: Search = HERE) -> list[str]:
    """The options of a group, in alphabetical order; presets have a folder for each paper: ``boba/mnist``."""
    found = [path.relative_to(folder / group) for folder in search for path in (folder / group).rglob("*.yaml")]
    return sorted({str(path.with_suffix("")) for path in found})


def unknown(group: str, name: str, search: Search = HERE) -> ConfigError:
    """The error for an option that is in no file: Beyond if Hydra has it, else one that names those that exist."""
    if beyond.is_option(f"{group}/{name}"):
        return Beyond(f"{group}={name} is in Hydra's ConfigStore")
    known = names(group, search)
    there = f"; there are: {', '.join(known)}" if known else ""
    return ConfigError(f"unknown {group} {name!r}{near(name, known)}{there}")


@cache
def load(path: str, search: Search = HERE) -> Mapping[str, Any]:
    """The content of a config, such as ``aggregator/krum``, as it is written. Raises ConfigError if there is none."""
    file = find(path, search)
    if file is None:
        group, _, name = path.partition("/")
        raise unknown(group, name, search)
    content = read(file, absent=f"no file {file}", follow=True) or {}
    if not isinstance(content, dict):
        raise ConfigError(f"{file} must hold KEY: VALUE, got {content!r}")
    return content


class Entry(NamedTuple):
    """An entry of a defaults list: ``/group@place: name``; with ``override``, the choice of an option.

    An empty ``place`` stands for the group itself.
    """

    group: str
    place: str
    name: str | None
    override: bool = False


@cache
def entries(path: str, search: Search = HERE) -> tuple[Entry | None, ...]:
    """The defaults list of a config such as ``aggregator/b_krum``; None stands for its own content, ``_self_``. Raises
    Beyond for what is not read here."""
    listed = load(path, search).get("defaults", [])
    if not isinstance(listed, list):
        raise ConfigError(f"{find(path, search)}: defaults must be a list, got {listed!r}")
    whole = listed if "_self_" in listed else [*listed, "_self_"]
    return tuple(None if entry == "_self_" else _entry(path, entry, search) for entry in whole)


_NAME = re.compile(r"[\w-]+")

_KEY = re.compile(r"(?P<override>override\s+)?(?P<slash>/?)(?P<group>[\w/]+)(?:@(?P<place>[\w.]+))?")


def _entry(path: str, entry: Any, search: Search) -> Entry:
    """An entry of a defaults list. In an option, what has no place of its own goes to one that depends on its folder,
    which Hydra knows."""
    own, _, option = path.partition("/")
    is_preset, is_nested = own in PRESETS, "/" in option
    if isinstance(entry, str) and is_preset and entry.startswith("/") and _NAME.fullmatch(entry[1:].replace("/", "")):
        group, _, option = entry[1:].partition("/")
        return Entry(group, "", option)
    if isinstance(entry, str) and not is_nested and _NAME.fullmatch(entry):
        return Entry(own, "", entry)
    (key, value), *others = entry.items() if isinstance(entry, dict) and entry else [("", None)]
    match, readable = _KEY.fullmatch(str(key)), not others and (value is None or isinstance(value, str | list))
    if match and readable and not refers(value):
        place, name = match["place"] or "", None if value is None else named(value)
        if match["override"]:
            if is_preset and re.fullmatch(r"_global_\.[\w.]+|", place):  # elsewhere Hydra has other places for it
                return Entry(match["group"], place.removeprefix("_global_."), name, override=True)
        elif (match["slash"] or not is_nested) and re.fullmatch(r"[a-z]\w*|" if is_preset else r"[a-z]\w*", place):
            return Entry(match["group"] if match["slash"] else f"{own}/{match['group']}", place, name)
    raise Beyond(f"{find(path, search)}: cannot read {entry!r} in its defaults; write /GROUP: NAME")


Nested = tuple[tuple[str, str | None], ...]
"""Options inside an option, by ``group@place``: ``(("aggregator@rule", "trmean"),)``; None for no option there."""


def within(nested: Nested, place: str) -> Nested:
    """Those at a place inside ``place``, by the rest of it."""
    inner = ((key.replace(f"@{place}.", "@", 1), option) for key, option in nested if f"@{place}." in key)
    return tuple(inner)


def option(group: str, name: str, nested: Nested = (), search: Search = HERE) -> dict[str, Any]:
    """The content of an option, merged with its defaults list (``[boba, _self_]``, ``/aggregator@rule: krum``).

    The option can be a class from outside, ``my_module:MyRule``; then its fields are the content, read anew each time
    because a cell of a notebook can define the class again. ``nested`` replaces options of the list. Interpolations
    stay as written. Raises ConfigError for an option that does not exist.
    """
    return outside.content(group, name) if outside.is_class(name) else _of_file(group, name, nested, search)


@cache
def _of_file(group: str, name: str, nested: Nested, search: Search) -> dict[str, Any]:
    place_of(group, name, search)
    merged = dict[str, Any]()
    for entry in entries(f"{group}/{name}", search):
        if entry is None:
            content = load(f"{group}/{name}", search)
            merged = merge(merged, {key: value for key, value in content.items() if key != "defaults"})
        elif not entry.place:  # of the same group
            merged = merge(merged, option(group, str(entry.name), nested, search))
        elif (inner := dict(nested).get(f"{entry.group}@{entry.place}", entry.name)) is not None:
            content = option(entry.group, inner, within(nested, entry.place), search)
            merged = merge(merged, {entry.place: content})
    return merged


@cache
def original(group: str, name: str) -> str:
    """The option that an alias of this package stands for, ``coomed`` for ``median``; the name itself if it is none."""
    content = load(f"{group}/{name}") if name in names(group) else {}
    below = content.get("defaults", [])
    is_alias = content.keys() == {"defaults"} and len(below) == 1 and isinstance(below[0], str)
    return original(group, below[0]) if is_alias else name


@cache
def inside(group: str, name: str, nested: Nested = (), search: Search = HERE) -> dict[str, str | None]:
    """The options inside an option, or inside those of a list ``[a,b]``, by ``group@place``: as its files choose them,
    but for ``nested``."""
    found = dict[str, str | None]()
    for one in listed(name):
        if outside.is_class(one):
            continue
        prefix = f"{place}." if (place := place_of(group, one, search)) else ""
        for entry in entries(f"{group}/{one}", search):
            if entry is None:
                continue
            if not entry.place:
                found |= inside(entry.group, str(entry.name), nested, search)
                continue
            key = f"{entry.group}@{prefix}{entry.place}"
            inner = found[key] = dict(nested).get(key, entry.name)
            if inner is not None:
                deeper = inside(entry.group, inner, within(nested, f"{prefix}{entry.place}"), search)
                found |= {other.replace("@", f"@{prefix}{entry.place}.", 1): chosen for other, chosen in deeper.items()}
    return found


def chosen(group: str, written: str, nested: Nested = (), search: Search = HERE) -> dict[str, Any]:
    """The content of a group for a choice such as ``krum``, or a list such as ``[clipping,nnm]``.

    The first line of a file can give the key in the group for its content, as in ``# @package pre_aggregation.nnm``, so
    that several options can be chosen. Nobody must write into it. Raises ConfigError for an option that does not exist.
    """
    content = dict[str, Any]()
    for name in listed(written):
        place = place_of(group, name, search)
        own = option(group, name, within(nested, place) if place else nested, search)
        content = merge(content, {place: own} if place else own) if content or place else own
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


def has_places(group: str) -> bool:
    """Whether several options of a group can be chosen at once, each under its own key."""
    return any(place_of(group, name) for name in names(group))


@cache
def place_of(group: str, name: str, search: Search = HERE) -> str | None:
    """The key of its group to which an option's content goes, None for the group itself. Raises ConfigError for a file
    whose content would go elsewhere."""
    if outside.is_class(name):
        return label(group, name) if has_places(group) else None
    if (package := package_of(f"{group}/{name}", search)) in (None, group):
        return None
    if (found := re.fullmatch(rf"{group}\.(\w+)", str(package))) is None:
        file = find(f"{group}/{name}", search)
        raise ConfigError(f"{file}: an option of {group} cannot have # @package {package}; leave that line out")
    return found[1]


@cache
def package_of(path: str, search: Search = HERE) -> str | None:
    """The package that the first line of a config names, ``# @package _global_``; None if it does not."""
    file = find(path, search)
    text = read_text(file, absent=f"no file {file}", follow=True) if file else ""
    found = re.match(r"\s*#\s*@package\s+(\S+)", text)
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
