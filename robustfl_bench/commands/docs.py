"""``robustfl-bench docs [NAME]``: the guides that come with the package, as files or as text."""

import sys
from pathlib import Path

from robustfl_bench.base.answers import add_format, as_json
from robustfl_bench.base.console import Parser, reported
from robustfl_bench.read.runs.where import check_name

_PACKAGE = Path(__file__).resolve().parent.parent
_FILES = {
    "readme": "README.md",
    "contributing": "CONTRIBUTING.md",
    "tutorial": "results/TUTORIAL.md",
    "python": "results/PYTHON.md",
    "howto": "results/HOWTO.md",
    "glossary": "results/GLOSSARY.md",
    "changelog": "CHANGELOG.md",
    "citation": "CITATION.cff",
}


def main() -> int:
    """Console entry point; returns its exit code."""
    parser = Parser(prog="robustfl-bench docs", description="List the guides with their files, or print one of them.")
    parser.add_argument("name", nargs="?", metavar="NAME", help=", ".join(_FILES))
    add_format(parser)
    asked = parser.parse_args(sys.argv[1:])
    return reported(_show, asked.name, asked.format)


def guides() -> dict[str, Path]:
    """The files of the guides by name, in a wheel or in a checkout."""
    root = _PACKAGE / "docs" if (_PACKAGE / "docs").is_dir() else _PACKAGE.parent
    return {name: root / file for name, file in _FILES.items()}


def _show(name: str | None, form: str) -> None:
    if name is not None:
        check_name(name, list(_FILES), "guide")
        text = guides()[name].read_text(encoding="utf-8")
        print(as_json({"name": name, "text": text}) if form == "json" else text, end="")
    elif form == "json":
        print(as_json({guide: str(file) for guide, file in guides().items()}), end="")
    else:
        for guide, file in guides().items():
            print(f"{guide:<12}  {file}")
