"""``robustfl-bench --list [GROUP [NAME]]``: the options, as text of at most WIDTH columns."""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, asdict
from pathlib import Path
from typing import Annotated

from robustfl_bench.base.console import as_json
from robustfl_bench.base.errors import ConfigError, near, one_line
from robustfl_bench.commands.verb import Argument, JsonFormat, command
from robustfl_bench.doors.catalogue import entries as catalogue
from robustfl_bench.doors.catalogue.entries import MEASURED_GROUPS, CatalogueEntry, Key, commented, keys_at
from robustfl_bench.runner.config import options, words
from robustfl_bench.runner.config.options import CONF, Search

WIDTH = 100
USAGE = "robustfl-bench --list [GROUP [NAME]] [--config-dir FOLDER] [--format json]"


def list_(
    words: Annotated[Sequence[str], Argument("a config group and one of its options (all)", "GROUP NAME")] = (),
    *,
    config_dir: Annotated[
        Path | None, Argument("a folder with options of your own", "FOLDER", flags=("--config-dir", "-cd"))
    ] = None,
    format: JsonFormat = "text",
) -> None:
    """List the options of a run."""
    print(listing(words, config_dir, format).rstrip("\n"))


def listing(asked: Sequence[str] = (), config_dir: Path | None = None, format: str = "text") -> str:
    """What is printed for a group and an option. Raises ConfigError.

    torch, whose import takes a second, is imported only for groups whose options are measured.
    """
    search = options.search(config_dir)
    words = [word for written in asked for word in written.lstrip("+").split("=", 1)]
    if format == "json":
        return as_json(_plain(words, search))
    match words:
        case []:
            return _groups(search)
        case [group]:
            return _options(_known(group, search), search)
        case [group, name]:
            return _option(catalogue.option(_known(group, search), name, search), search)
    raise ConfigError(f"--list takes a group and a name at most, got {' '.join(asked)}; write {USAGE}")


def _plain(words: Sequence[str], search: Search) -> list[dict[str, object]]:
    """The groups, the options of a group, or one option, for a program. Raises ConfigError."""
    if not words:
        return [asdict(group) for group in catalogue.groups(search)]
    group = _known(words[0], search)
    chosen = catalogue.entries(group, search) if len(words) == 1 else [catalogue.option(group, words[1], search)]
    return [
        {"group": entry.group, "name": entry.name, "title": entry.title, "summary": entry.summary,
         "source": entry.source, "url": entry.url, "facts": _facts(entry, search),
         "keys": {key.name: key.full_text for key in _keys(entry, search)}}
        for entry in chosen
    ]  # fmt: skip


def _keys(entry: CatalogueEntry, search: Search) -> Iterable[Key]:
    """The keys of an option; none if it makes no object."""
    return (keys_at(entry.group, entry.name, search) if entry.target else {}).values()


def _known(name: str, search: Search) -> str:
    groups = [group.name for group in catalogue.groups(search)]
    if name not in groups:
        raise ConfigError(f"no group {name!r}{near(name, groups)}; there are: {', '.join(groups)}")
    return name


def _groups(search: Search) -> str:
    groups = catalogue.groups(search)
    width = max(len(group.name) for group in groups)
    lines = [f"{group.name:{width}}  {group.count:3}  {group.question}" for group in groups]
    return "\n".join([*lines, "", "robustfl-bench --list GROUP shows the options of a group, --list GROUP NAME one."])


def _options(group: str, search: Search) -> str:
    (row,) = (row for row in catalogue.groups(search) if row.name == group)
    entries = catalogue.entries(group, search)
    width = max(len(entry.name) for entry in entries) + 2
    lines = _wrapped(f"{row.question} Options: {row.count}. Default: {row.default.replace('`', '')}.", 0)
    for entry in entries:
        first, *more = _wrapped(entry.summary, width)
        lines += ["", f"{entry.name:{width}}{first.lstrip()}", *more]
        about = [*_facts(entry, search), entry.source, str(entry.file) if entry.outside else ""]
        lines += _wrapped("; ".join(filter(None, about)), width)
    return "\n".join(lines)


def _option(entry: CatalogueEntry, search: Search) -> str:
    facts = "; ".join(_facts(entry, search))
    source = ", ".join(filter(None, [entry.source, entry.url]))
    paragraphs = [" ".join(text.split()) for text in entry.doc.split("\n\n") if not text.lstrip().startswith(">>>")]
    paragraphs = [
        *([] if paragraphs[0].startswith(entry.summary) else [entry.summary]),
        *paragraphs,
        f"{facts[:1].upper()}{facts[1:]}." if facts else "",
        f"Source: {source}" if source else "",
    ]
    lines = [f"{entry.group}={entry.name}"]
    for paragraph in filter(None, paragraphs):
        lines += ["", *_wrapped(paragraph, 0)]
    keys = keys_at(entry.group, entry.name, search) if entry.target else {}
    for file in catalogue.files(entry, search):
        lines += ["", f"{file if entry.outside else file.relative_to(CONF.parent)}:"]
        lines += _explained(file.read_text(encoding="utf-8"), entry, keys.values())
    if unset := [key for key in keys.values() if key.name not in entry.content and key.default is not MISSING]:
        lines += ["", "Other keys, with their defaults:"]
        lines += _explained("".join(f"{key.name}: {words.written(key.default)}\n" for key in unset), entry, unset)
    return "\n".join(lines)


def _explained(text: str, entry: CatalogueEntry, keys: Iterable[Key]) -> list[str]:
    """The lines of a config of an option, each key with its meaning and its range."""
    meanings = {key.name: key.full_text for key in keys}
    lines = commented(text, meanings, entry.group, WIDTH - 2).splitlines()
    return [part for line in lines if not line.startswith("# @package ") for part in _commented(line)]


def _facts(entry: CatalogueEntry, search: Search) -> list[str]:
    """The needs and the cost of an option, in one phrase each."""
    if entry.group not in MEASURED_GROUPS:
        return []
    from robustfl_bench.doors.catalogue.measures import facts

    try:
        return facts(entry, search).words
    except Exception as error:  # a part from outside can raise anything
        if not entry.outside:
            raise
        return [f"cannot be measured: {one_line(error)}"]


def _commented(line: str) -> list[str]:
    """A line of YAML as lines of text; a comment that is too long is wrapped."""
    margin = " " * (2 + max(line.find("# "), 0))
    return textwrap.wrap(line, WIDTH, initial_indent="  ", subsequent_indent=f"{margin}# ", break_on_hyphens=False)


def _wrapped(text: str, indent: int) -> list[str]:
    margin, plain = " " * indent, text.replace("``", "`")
    return textwrap.wrap(plain, WIDTH, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False)


main = command(list_, "robustfl-bench --list", reads=False, usage=USAGE)
