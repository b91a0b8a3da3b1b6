"""Tab completion of the overrides of ``robustfl-bench``, from the files of conf/ alone."""

from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

from robustfl_bench.base.trees import flatten
from robustfl_bench.runner.config import options, stored, words
from robustfl_bench.train.settings import CHOICES, DEVICES

_FOLDERS = ("data_dir", "results_dir", *stored.FORMS)


def overrides(prefix: str, parsed_args: Namespace, **_: object) -> list[str]:
    """The overrides that can stand where ``prefix`` is, as ``argcomplete`` asks for them.

    A key ends in ``=``. Of several values the last is completed: ``aggregator=krum,bo`` becomes
    ``aggregator=krum,boba``. The keys of a part are those of the option that an earlier override chooses.
    """
    key, equals, value = prefix.partition("=")
    if not equals:
        return [f"{name}=" for name in _keys(key, getattr(parsed_args, "overrides", None) or ())]
    done, comma, last = value.rpartition(",")
    return [f"{key}={done}{comma}{name}" for name in _values(key.lstrip("+").partition("@")[0], last)]


def _keys(prefix: str, given: Sequence[str]) -> Iterable[str]:
    groups, scalars = options.defaults()
    group = prefix.partition(".")[0]
    if "." in prefix and group in groups:
        chosen = {**groups, **dict(word.split("=", 1) for word in given if "=" in word)}
        content = {group: options.chosen(group, chosen[group])}
        return [name for name, _ in flatten(content) if not name.endswith("._target_")]
    return [*groups, *scalars, *(f"+{name}" for name in words.PRESETS)]


def _values(key: str, begun: str) -> Iterable[str]:
    if key in _FOLDERS:
        inside = Path(begun if begun.endswith("/") else f"{begun}*").parent
        return [f"{path}/" for path in inside.iterdir() if path.is_dir()] if inside.is_dir() else []
    return DEVICES if key == "device" else CHOICES.get(key) or options.names(key)
