"""What overrides choose and change: the option of each group, the options inside it, and settings, as presets change
them, and as overrides set, add and remove them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from robustfl_bench.base import public
from robustfl_bench.base.errors import ConfigError, did_you_mean, near
from robustfl_bench.base.trees import flatten, merge
from robustfl_bench.runner.config import options, outside
from robustfl_bench.runner.config.beyond import Beyond
from robustfl_bench.runner.config.options import Entry, Nested, Search
from robustfl_bench.runner.config.words import OWN, PRESETS, Override, named
from robustfl_bench.train.parts import FOLLOWING, GROUPS
from robustfl_bench.train.settings import SCALARS


def chosen(
    asked: Sequence[Override], base: Mapping[str, Any] | None, search: Search
) -> tuple[dict[str, Any], dict[str, str]]:
    """The content of each group, and its option: from the overrides that choose one, else from the ``base``, the config
    of a run folder, else the default."""
    written: dict[str, str | None] = dict(options.defaults()[0])
    if base is not None:
        written |= {group: None for group in written if group not in FOLLOWING or group in base}
    for one in (one for one in asked if not one.place):
        if one.sign == "~":
            if one.key not in written or (one.written is not None and named(one.value) != written[one.key]):
                raise ConfigError(f"{one.text} deletes nothing: {one.key} is {written.get(one.key, 'none')}")
            del written[one.key]
        elif one.sign:
            raise ConfigError(f"{one.key} is there already: write {one.key}={one.written}")
        else:
            check_names(one, search)
            written[one.key] = named(one.value)
    nested, added = _inside([one for one in asked if one.place], written, search)
    tree, choices = dict[str, Any](), {group: nothing(group) for group in GROUPS}
    for group, name in written.items():
        if name is None:
            tree[group] = (base or {}).get(group) or {}
            choices[group] = _label(group, tree[group])
        else:
            tree[group] = options.chosen(group, name, nested[group], search)
            choices[group] = options.label(group, name)
    for place, content in added.items():
        for part in reversed(place.split(".")):
            content = {part: content}
        tree = merge(tree, content)
    return tree, choices


def _inside(
    asked: Sequence[Override], written: Mapping[str, str | None], search: Search
) -> tuple[dict[str, Nested], dict[str, dict[str, Any]]]:
    """The options that ``group@place=option`` puts in the place of others inside the option of a group, by that group,
    and the content that ``+group@place=option`` adds, by place."""
    nested: dict[str, Nested] = dict.fromkeys(written, ())
    added: dict[str, dict[str, Any]] = {}
    for one in asked:
        owner, _, rest = str(one.place).partition(".")
        option, key = written.get(owner), f"{one.key}@{rest}"
        if owner == OWN:
            raise Beyond(f"{one.text} is an option in a key of the user")
        known = {} if option is None else options.inside(owner, option, nested[owner], search)
        if option is None or not rest or one.key not in GROUPS:
            raise ConfigError(f"{one.text} has no place: write GROUP@{owner}.KEY=OPTION, with {owner}=... before it")
        if one.sign.startswith("+"):
            if key in known or one.place in added:
                raise ConfigError(f"{one.key}@{one.place} is there already: write {one.text.lstrip('+')}")
            (name,) = check_names(one, search)
            added[str(one.place)] = options.option(one.key, name, (), search)
        elif key not in known:
            there = ", ".join(name.replace("@", f"@{owner}.") for name in known) or "none"
            raise ConfigError(f"{owner}={option} has no {one.key}@{one.place}; there are: {there}; + adds one")
        elif one.sign == "~" and one.written is not None and named(one.value) != known[key]:
            raise ConfigError(f"{one.text} deletes nothing: {one.key}@{one.place} is {known[key]}")
        else:
            chosen = None if one.sign == "~" else check_names(one, search)[0]
            nested[owner] = (*((other, name) for other, name in nested[owner] if other != key), (key, chosen))
    return nested, added


def check_names(one: Override, search: Search) -> list[str]:
    """The options that an override of a group chooses. Raises ConfigError unless all of them exist."""
    group, value, is_preset = one.key, one.value, one.root in PRESETS
    if is_preset and (one.sign != "+" or one.place):
        raise ConfigError(f"{group} is a group of presets: write +{group}={one.written or '...'}")
    several = isinstance(value, list) and value and not one.place and (is_preset or options.has_places(group))
    names = value if several else [value]
    if not all(isinstance(name, str) for name in names):
        hint = f"; for none write {group}=none" if value == [] and options.exists(group, "none") else ""
        raise ConfigError(f"{group} takes the name of an option, got {one.written}{hint}")
    for name in names:
        if is_preset or not outside.is_class(name):
            options.load(f"{group}/{name}", search)
    places = [options.label(group, name) for name in names] if several else []
    if twice := next((place for place in places if places.count(place) > 1), None):
        raise ConfigError(f"{group} takes each option once, got {twice} twice in [{','.join(names)}]")
    return names


def labels(chosen: Mapping[str, str | None], config: Mapping[str, Any]) -> dict[str, str]:
    """The readable name of the option of each group, as it was chosen if that is known, else of its content."""
    return {
        group: _label(group, config[group]) if (name := chosen.get(group)) is None else options.label(group, name)
        for group in GROUPS
    }


def _label(group: str, content: Mapping[str, Any] | None) -> str:
    """The readable name of the part, or of several, that the content of a group builds."""
    if not content:
        return nothing(group)
    if "_target_" not in content:
        return next(iter(content)) if len(content) == 1 else f"[{','.join(content)}]"
    return outside.label_of_part(content)


def nearest(group: str, content: Mapping[str, Any]) -> str:
    """The option of a group of the same class that differs in the fewest fields; else the class itself."""

    def distance(name: str) -> tuple[int, bool, bool]:
        given = options.option(group, name)
        differing = [key for key in unlike(given, content) if not options.refers(given.get(key))]
        return len(differing), options.original(group, name) != name, options.defaults()[0][group] != name

    alike = [
        name for name in options.names(group) if options.option(group, name).get("_target_") == content["_target_"]
    ]
    return min(alike, key=distance, default=outside.word(content["_target_"]))


def unlike(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """The fields in which two contents of the same class differ; one that is absent has the default of the class."""
    first = {**public.defaults(str(wanted["_target_"])), **given}
    return [name for name, value in wanted.items() if name not in first or first[name] != value]


@cache
def nothing(group: str) -> str:
    """The option of a group that stands for no part: ``none``, or ``synchronous`` of protocols."""
    usual = options.defaults()[0][group]
    return "none" if options.exists(group, "none") or options.option(group, usual) else usual


OTHER_NAMES = {"learning_rate": ("lr",), "f": ("num_byzantine",), "epochs": ("local_update.epochs", "rounds")}
"""What settings are called elsewhere, with the keys that they have in this package."""


def change(tree: dict[str, Any], one: Override, key: str, value: Any, search: Search) -> None:
    """Set, add or remove the setting ``key`` as an override does, without changing mappings that others share. Raises
    ConfigError.

    ``key=value`` needs the setting, ``+key=value`` needs that it is absent or null; the items of a mapping are set one
    by one.
    """
    *path, last = key.split(".")
    node, adds = tree, one.sign.startswith("+")
    for depth, name in enumerate(path):
        below = node.get(name, {} if adds else None)
        if not isinstance(below, Mapping):
            raise _absent(node, path[:depth], one, search)
        node[name] = node = dict(below)  # assigned from left to right
    present = node.get(last)
    if one.sign == "~":
        if last not in node:
            raise _absent(node, path, one, search)
        if one.written is not None and present != value:
            raise ConfigError(f"{one.text} deletes nothing: {key} is {present!r}")
        del node[last]
    elif isinstance(value, Mapping) and isinstance(present, Mapping):
        for name, item in value.items():
            change(tree, one, f"{key}.{name}", item, search)
    elif last not in node and not adds:
        raise _absent(node, path, one, search)
    elif one.sign == "+" and present is not None and not isinstance(value, list):
        raise ConfigError(f"{key} is there already: write {one.text[1:]}")
    else:
        node[last] = value


def _absent(node: Mapping[str, Any], path: list[str], one: Override, search: Search) -> ConfigError:
    """The error for a setting that does not exist beside those in ``node``, which stands at ``path``."""
    known, group = _settings(search), one.key.partition(".")[0]
    if one.key in known and one.sign == "":
        return ConfigError(f"the chosen option of {group} has no setting {one.key!r}; take another {group}=... with it")
    beside = [".".join([*path, str(name)]) for name in node if name != "_target_"]
    meant = did_you_mean(OTHER_NAMES.get(one.key) or _ending(one.key, (key for key, _ in flatten(node))))
    meant = meant or near(one.key, beside) or did_you_mean(_ending(one.key, known)) or near(one.key, known)
    removing = " to delete" if one.sign == "~" else ""
    return ConfigError(f"no setting {one.key!r}{removing}{meant}; robustfl-bench --cfg job shows all")


def _ending(name: str, known: Iterable[str]) -> list[str]:
    """The known keys of which ``name`` is the last part: ``partition.alpha`` for ``alpha``."""
    return sorted(key for key in known if key.endswith(f".{name}"))


@cache
def _settings(search: Search) -> frozenset[str]:
    """The keys of all settings that an override can set, with all options."""
    keys = {*SCALARS, *GROUPS}
    for group in GROUPS:
        for name in options.names(group, search):
            content = options.chosen(group, name, (), search)
            keys |= {f"{group}.{key}" for key, _ in flatten(content) if "_target_" not in key}
    return frozenset(keys)


# Presets: the options of ``setting``, ``method``, ``threat`` and ``experiment``, which change settings of other
# groups.


_SWEEPING = ("hydra/launcher", "hydra/sweeper")
"""Groups of Hydra that change no single run."""


def bodies_of(group: str, name: str, search: Search) -> Iterator[Mapping[str, Any]]:
    """The settings of a preset and of the presets that it builds on, in merge order. Raises ConfigError."""
    for entry in _entries(group, name, search):
        if entry is None:
            content = options.load(f"{group}/{name}", search)
            if others := [key for key in content.get("hydra") or {} if f"hydra/{key}" not in _SWEEPING]:
                raise Beyond(f"{group}={name} sets hydra.{others[0]}")
            yield {key: value for key, value in content.items() if key != "defaults"}
        elif not entry.override:
            yield from bodies_of(entry.group, str(entry.name), search)


def chosen_by(group: str, name: str, search: Search) -> dict[str, str]:
    """The options that a preset chooses, by ``group`` or ``group@place``; they come before those of the presets that
    it builds on. Raises ConfigError."""
    own: dict[str, str] = {}
    entries = [entry for entry in _entries(group, name, search) if entry is not None]
    for entry in reversed(entries):
        if not entry.override:
            own |= chosen_by(entry.group, str(entry.name), search)
    return own | {_key(entry): str(entry.name) for entry in entries if entry.override and entry.group in GROUPS}


def _key(entry: Entry) -> str:
    return f"{entry.group}@{entry.place}" if entry.place else entry.group


def _entries(group: str, name: str, search: Search) -> list[Entry | None]:
    """The defaults list of a preset, without empty entries."""
    path = f"{group}/{name}"
    entries = options.entries(path, search)
    if (package := options.package_of(path, search)) != "_global_":
        raise ConfigError(f"{options.find(path, search)}: a preset begins with # @package _global_, not {package}")
    for entry in filter(None, entries):
        if entry.override and entry.group.startswith("hydra/"):
            if entry.group not in _SWEEPING:
                raise Beyond(f"{group}={name} sets {entry.group}")
        elif entry.override and entry.group not in GROUPS:
            meant = near(entry.group, GROUPS)
            raise ConfigError(f"{options.find(path, search)}: override /{entry.group} is no group of options{meant}")
        if not entry.override and (entry.group.partition("/")[0] not in PRESETS or entry.place):
            raise ConfigError(
                f"{options.find(path, search)}: a preset builds on presets; "
                f"for an option write override /{_key(entry)}: {entry.name}"
            )
    return [entry for entry in entries if entry is None or entry.name is not None]
