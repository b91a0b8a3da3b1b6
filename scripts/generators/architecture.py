"""Draws ``results/architecture.svg`` and writes the wings' paragraphs into ARCHITECTURE.md, from the package's own
docstrings and imports.

Run: make architecture
"""

import ast
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "robustfl_bench"
PAGE = ROOT / "ARCHITECTURE.md"
PICTURE = ROOT / "results" / "architecture.svg"
BEGIN, END = "<!-- the wings, made by `make architecture` -->", "<!-- end -->"

WINGS = ("base", "numerics", "parts", "train", "runner", "read", "doors", "lab", "commands")
"""The wings in the order in which imports go: each may import those before it."""

WIDTH, LEFT, BAND, GAP, LINE = 720, 122, 46, 8, 17
_PER_ROW = 5  # rooms beside each other


def rooms(wing: str) -> list[str]:
    """The folders of a wing that hold code, by name."""
    return sorted(path.parent.name for path in (PACKAGE / wing).glob("*/__init__.py"))


def imported(wing: str) -> list[str]:
    """The other wings that a wing imports, in the order of WINGS; late imports and those for types count."""
    targets = {target for path in sorted((PACKAGE / wing).rglob("*.py")) for target in _targets(path)}
    return [other for other in WINGS if other in targets and other != wing]


def _targets(path: Path) -> Iterator[str]:
    """The wings that a file's import statements name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("robustfl_bench"):
            inside = (node.module or "").split(".")[1:2]
            yield from inside or [alias.name for alias in node.names]


def paragraph(wing: str) -> str:
    """What a wing is for: the docstring of its package, in one line."""
    return " ".join((ast.get_docstring(ast.parse((PACKAGE / wing / "__init__.py").read_text())) or "").split())


def picture() -> str:
    """The wings as bands, the ground at the bottom; in each its rooms, and the wings that it imports."""
    bands, top = [], GAP
    for wing in reversed(WINGS):
        names = rooms(wing)
        rows = [names[start : start + _PER_ROW] for start in range(0, len(names), _PER_ROW)] or [[]]
        height = max(BAND, 12 + len(rows) * (LINE + 4) + 18)
        bands.append(_band(wing, rows, top, height))
        top += height + GAP
    style = (
        "text{font-family:sans-serif;font-size:12px;fill:#222}.wing{font-weight:bold;font-size:14px}"
        ".below{font-size:11px;fill:#555}.band{fill:#f4f4f4;stroke:#888}.room{fill:#fff;stroke:#bbb}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img">'
    title = "<title>The wings of robustfl_bench: each imports only from those below it</title>"
    return "\n".join([head, title, f"<style>{style}</style>", *bands, "</svg>", ""])


def _band(wing: str, rows: list[list[str]], top: int, height: int) -> str:
    below = f"imports {', '.join(imported(wing))}" if imported(wing) else "imports no other wing"
    lines = [
        f'<rect class="band" x="{GAP}" y="{top}" width="{WIDTH - 2 * GAP}" height="{height}" rx="4"/>',
        f'<text class="wing" x="{GAP + 10}" y="{top + 21}">{wing}/</text>',
        f'<text class="below" x="{LEFT}" y="{top + height - 8}">{escape(below)}</text>',
    ]
    room_width = (WIDTH - LEFT - 2 * GAP) // _PER_ROW
    for row, names in enumerate(rows):
        for column, name in enumerate(names):
            x, y = LEFT + column * room_width, top + 8 + row * (LINE + 4)
            lines.append(f'<rect class="room" x="{x}" y="{y}" width="{room_width - 6}" height="{LINE}" rx="2"/>')
            lines.append(f'<text x="{x + 5}" y="{y + 13}">{name}</text>')
    return "\n".join(lines)


def page() -> str:
    """ARCHITECTURE.md with today's paragraphs."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    rows = "\n".join(f"- **`{wing}/`** {paragraph(wing).replace('``', '`')}" for wing in WINGS)
    return f"{before}{BEGIN}\n\n{rows}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    """Write the picture and the page."""
    PICTURE.write_text(picture(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
