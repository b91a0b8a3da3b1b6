"""``robustfl-bench docs [NAME]``: the guides that come with the package, as files or as text."""

import sys
from pathlib import Path

from robustfl_bench.base.console import Parser, reported
from robustfl_bench.runs.where import check_name

_PACKAGE = Path(__file__).resolve().parent.parent
_FILES = {
    "readme": "README.md",
    "contributing": "CONTRIBUTING.md",
    "tutorial": "results/TUTORIAL.md",
    "python": "results/PYTHON.md",
    "changelog": "CHANGELOG.md",
    "citation": "CITATION.cff",
}


def main() -> int:
    """Console entry point; returns its exit code."""
    parser = Parser(prog="robustfl-bench docs", description="List the guides with their files, or print one of them.")
    parser.add_argument("name", nargs="?", metavar="NAME", help=", ".join(_FILES))
    return reported(_show, parser.parse_args(sys.argv[1:]).name)


def guides() -> dict[str, Path]:
    """The files of the guides by name, in a wheel or in a checkout."""
    root = _PACKAGE / "docs" if (_PACKAGE / "docs").is_dir() else _PACKAGE.parent
    return {name: root / file for name, file in _FILES.items()}


def _show(name: str | None) -> None:
    if name is None:
        for guide, file in guides().items():
            print(f"{guide:<12}  {file}")
        return
    check_name(name, list(_FILES), "guide")
    print(guides()[name].read_text(encoding="utf-8"), end="")
