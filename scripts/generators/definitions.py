"""Prints the site's page of definitions: the source that each part follows, and where code of its authors or of ByzFL
differs. Run: python scripts/generators/definitions.py
"""

import re
from collections.abc import Iterator

from robustfl_bench.doors.catalogue.entries import CatalogueEntry, Key, entries, groups, keys_at
from robustfl_bench.runner.config.options import CONF
from robustfl_bench.train.parts import GROUPS

PAGE = "results/definitions.md"
BAR = "\\|"  # within a cell
ABOUT_CODE = re.compile(r"\b(code|notebooks|ByzFL)\b")
INTRODUCTION = """# Definitions

Where published code computes something else than its paper, or than this package: the source of each part, the
difference, and the options that choose. The sources of parts without a known difference are in
[conf/CATALOGUE.md](../conf/CATALOGUE.md). The defaults are those that reproduce published numbers.

`python scripts/generators/definitions.py` prints this page from the docstrings of the classes, in which a paragraph
about code begins with "Code:", and from the meanings of their fields.

| part | source | where code differs | options |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The table of all parts whose docstring or fields speak of code."""
    return INTRODUCTION + "\n".join(_row(*about) for about in differences()) + "\n"


def differences() -> Iterator[tuple[CatalogueEntry, str, list[Key]]]:
    """The options of conf/ that differ from code, each with the paragraph and the keys that say so."""
    for group in groups():
        for entry in entries(group.name) if group.name in GROUPS else ():
            if entry.target and not entry.same_as:
                keys = [key for key in keys_at(entry.group, entry.name).values() if ABOUT_CODE.search(key.text)]
                paragraph = about_code(entry.doc)
                if paragraph or keys:
                    yield entry, paragraph, keys


def about_code(doc: str) -> str:
    """The paragraph of a docstring that begins with "Code:", without that word; empty if there is none."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in doc.split("\n\n"))
    text = next((text.removeprefix("Code: ") for text in paragraphs if text.startswith("Code: ")), "")
    return text[:1].upper() + text[1:]


def _row(entry: CatalogueEntry, paragraph: str, keys: list[Key]) -> str:
    file = f"../conf/{entry.file.relative_to(CONF).as_posix()}"
    options = "; ".join(f"`{key.name}`: {key.text}" for key in keys)
    cells = (f"[`{entry.group}={entry.name}`]({file})", entry.citation, paragraph, options)
    return f"| {' | '.join(cell.replace('|', BAR).replace('``', '`') for cell in cells)} |"


if __name__ == "__main__":
    print(page(), end="")
