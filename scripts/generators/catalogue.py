"""Writes the comments behind the keys in conf/, and the table of groups in conf/README.md. Run: make catalogue

The site has the whole catalogue, which `robustfl-bench --list` prints group by group.
"""

from collections.abc import Iterator
from dataclasses import MISSING
from pathlib import Path

from robustfl_bench.doors.catalogue.entries import (
    MEASURED_GROUPS,
    CatalogueEntry,
    Group,
    commented,
    entries,
    groups,
    keys_at,
    keys_of,
)
from robustfl_bench.doors.catalogue.measures import facts
from robustfl_bench.runner.config import options, words
from robustfl_bench.runner.config.options import CONF
from robustfl_bench.train.parts import GROUPS
from robustfl_bench.train.settings import Settings

PAGE, README = "conf/CATALOGUE.md", CONF / "README.md"
BAR = "\\|"  # within a cell
BEGIN, END = "<!-- the groups, made by `make catalogue` -->", "<!-- end -->"
INTRODUCTION = """# Every option

`robustfl-bench --list` prints this page group by group, with your own options if you add `--config-dir FOLDER`, from
the files in `conf/` and the classes that they build. `robustfl-bench --list aggregator krum` prints the whole
description of one option and its keys. The presets are not here: `--list setting`, `method`, `threat` and `experiment`
show them.

Needs and cost are measured on one round, with the settings of the option. n is the number of clients in a round, f the
number of Byzantine clients that the server assumes (`num_byzantine_declared`). The cost is in Gram matrices (the inner
products of all pairs of updates) and sorts (of every coordinate's values); linear means a few passes over the updates.
"""


def page() -> str:
    """The catalogue of all groups whose options are parts of a run."""
    return "\n".join([INTRODUCTION, *(_table(group) for group in groups() if group.name in GROUPS)])


def explained() -> Iterator[tuple[Path, str]]:
    """The files of options and of the scalars, each with its text as it should be: a comment behind every key."""
    places = [(group, f"{group}/{name}", keys_at(group, name)) for group in GROUPS for name in options.names(group)]
    for group, path, keys in (("", "config", keys_of(Settings)), *places):
        file, meanings = CONF / f"{path}.yaml", {key.name: key.text for key in keys.values()}
        yield file, commented(file.read_text(encoding="utf-8"), meanings, group)


def listed() -> str:
    """``conf/README.md`` with the table of the groups as they are now."""
    before, begin, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    rows = [f"| `{group.name}` | {group.question} | {group.count} | {group.default} |" for group in groups()]
    table = "\n".join(["| group | question | options | default |", "| --- | --- | ---: | --- |", *rows])
    return f"{before}{begin}\n\n{table}\n\n{END}{rest.partition(END)[2]}"


def _table(group: Group) -> str:
    measured = group.name in MEASURED_GROUPS
    columns = ["option", "in one line", *(["needs and cost"] if measured else []), "source"]
    lines = [f"## `{group.name}` ({group.count}): {group.question}", "", f"Default: {group.default}.", ""]
    lines += [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for entry in entries(group.name):
        about = ["; ".join(facts(entry).words)] if measured else []
        cells = (_linked(entry), entry.summary, *about, entry.citation)
        lines.append(f"| {' | '.join(cell.replace('|', BAR).replace('``', '`') for cell in cells)} |")
    return "\n".join([*lines, "", *_keys(group)])


def _keys(group: Group) -> list[str]:
    """The table of the keys of a group's options; a class that several options build is shown once."""
    rows, shown = [], set[str]()
    for entry in entries(group.name):
        if not entry.same_as and entry.target not in shown:
            rows += [f"| `{entry.name}` {row}" for row in key_rows(entry)]
            shown.add(entry.target)
    return ["| option | key | default | range | meaning |", f"|{' --- |' * 5}", *rows, ""] if rows else []


def key_rows(entry: CatalogueEntry) -> list[str]:
    """A row of a table for each key of an option: its name, default, range and meaning."""
    rows = []
    for key in keys_at(entry.group, entry.name).values():
        value = entry.parts.get(key.name, entry.content.get(key.name, key.default))
        default = "" if value is MISSING else f"`{value if options.refers(value) else words.written(value)}`"
        allowed = "" if key.option.choices else key.option.allowed
        cells = (f"`{key.name}`", default, allowed, key.text)
        rows.append(f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |")
    return rows


def _linked(entry: CatalogueEntry) -> str:
    """An option with its name for readers, unless that is the same word."""
    name = "" if entry.title.lower() == entry.name.replace("_", " ") else f", {entry.title}"
    return f"[`{entry.name}`]({entry.file.relative_to(CONF).as_posix()}){name}"


if __name__ == "__main__":
    README.write_text(listed(), encoding="utf-8")
    for file, text in explained():
        file.write_text(text, encoding="utf-8")
