"""Writes conf/CATALOGUE.md, and the numbers of options in conf/README.md. Run: make catalogue"""

import re

from robustfl_bench.catalogue.entries import MEASURED_GROUPS, CatalogueEntry, Group, entries, groups
from robustfl_bench.catalogue.measures import facts
from robustfl_bench.config.options import CONF
from robustfl_bench.engine.parts import GROUPS

PAGE, README = CONF / "CATALOGUE.md", CONF / "README.md"
BAR = "\\|"  # within a cell
INTRODUCTION = """# Every option

`make catalogue` writes this page from the files of this folder and the docstrings of the classes that they build; a
test keeps it true. `robustfl-bench --list` prints the same, with your own options if you add `--config-dir FOLDER`;
`robustfl-bench --list aggregator krum` prints the whole description of one option and its keys. The presets are not
here: `--list setting`, `method`, `threat` and `experiment` show them.

Needs and cost are measured on one round, with the settings of the option. n is the number of clients in a round, f the
number of Byzantine clients that the server assumes (`num_byzantine_declared`). The cost is in Gram matrices (the inner
products of all pairs of updates) and sorts (of every coordinate's values); linear means a few passes over the updates.
"""


def page() -> str:
    """The catalogue of all groups whose options are parts of a run."""
    return "\n".join([INTRODUCTION, *(_table(group) for group in groups() if group.name in GROUPS)])


def counted() -> str:
    """``conf/README.md`` with the numbers of options as they are now."""
    text = README.read_text(encoding="utf-8")
    for group in groups():
        text = re.sub(rf"(?m)^(\| `{group.name}` \| [^|]+ \| )\d+ ", rf"\g<1>{group.count} ", text)
    return text


def _table(group: Group) -> str:
    measured = group.name in MEASURED_GROUPS
    columns = ["option", "in one line", *(["needs and cost"] if measured else []), "source"]
    lines = [f"## `{group.name}` ({group.count}): {group.question}", "", f"Default: {group.default}.", ""]
    lines += [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for entry in entries(group.name):
        source = f"[{entry.source}]({entry.url})" if entry.url else entry.source
        about = ["; ".join(facts(entry).words)] if measured else []
        cells = (_linked(entry), entry.summary, *about, source)
        lines.append(f"| {' | '.join(cell.replace('|', BAR).replace('``', '`') for cell in cells)} |")
    return "\n".join([*lines, ""])


def _linked(entry: CatalogueEntry) -> str:
    return f"[`{entry.name}`]({entry.file.relative_to(CONF).as_posix()})"


if __name__ == "__main__":
    README.write_text(counted(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
