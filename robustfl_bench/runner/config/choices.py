"""The option of each group, and the options inside it, as overrides choose them."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from robustfl_bench.base import public
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.base.trees import merge
from robustfl_bench.runner.config import options, outside
from robustfl_bench.runner.config.beyond import Beyond
from robustfl_bench.runner.config.options import Nested, Search
from robustfl_bench.runner.config.words import OWN, PRESETS, Override, named
from robustfl_bench.train.parts import FOLLOWING, GROUPS


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
    if several:
        options.check_several(group, names)
    return names


def labels(chosen: Mapping[str, str | None], config: Mapping[str, Any]) -> dict[str, str]:
    """The readable name of the option of each group, as it was chosen if that is known, else of its content."""
    names = {group: chosen.get(group) for group in GROUPS}
    return {
        group: _label(group, config[group]) if name is None else options.label(group, name)
        for group, name in names.items()
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
