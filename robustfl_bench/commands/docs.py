"""``robustfl-bench docs [NAME]``: the guides that come with the package, as files or as text."""

from pathlib import Path
from typing import Annotated

from robustfl_bench.base.console import as_json
from robustfl_bench.base.public import PACKAGE
from robustfl_bench.commands.verb import Argument, JsonFormat, command
from robustfl_bench.read.runs.where import check_name

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


def guides() -> dict[str, Path]:
    """The files of the guides by name, in a wheel or in a checkout."""
    root = PACKAGE / "docs" if (PACKAGE / "docs").is_dir() else PACKAGE.parent
    return {name: root / file for name, file in _FILES.items()}


def docs(
    name: Annotated[str | None, Argument(", ".join(_FILES), "NAME")] = None, *, format: JsonFormat = "text"
) -> None:
    """List the guides with their files, or print one of them."""
    if name is not None:
        check_name(name, list(_FILES), "guide")
        text = guides()[name].read_text(encoding="utf-8")
        print(as_json({"name": name, "text": text}) if format == "json" else text, end="")
    elif format == "json":
        print(as_json({guide: str(file) for guide, file in guides().items()}), end="")
    else:
        for guide, file in guides().items():
            print(f"{guide:<12}  {file}")


main = command(docs, "robustfl-bench docs", reads=False)
