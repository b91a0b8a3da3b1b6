"""``robustfl-data verify``: check every file of data sets, load the data and print their digest."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from robustfl_bench.base.answers import add_format, as_json
from robustfl_bench.base.console import Parser
from robustfl_bench.base.errors import ConfigError, DataError
from robustfl_bench.commands.data import shared
from robustfl_bench.commands.verb import Verb
from robustfl_bench.parts.datasets.base import Dataset
from robustfl_bench.parts.datasets.files import check


def _add(parser: Parser) -> None:
    shared.add_names(parser)
    add_format(parser)


def _run(arguments: Namespace) -> int:
    answers: list[dict[str, Any]] = []
    is_text = arguments.format == "text"

    def verify(name: str, dataset: Dataset, root: Path) -> None:
        answer: dict[str, Any] = {"name": name, "files": [], "problem": "", "remark": ""}
        answers.append(answer)
        try:
            _verify(dataset, root, answer)
        except DataError as error:
            answer["problem"] = str(error)
            raise
        finally:
            if is_text:
                print("".join(f"{line}\n" for line in _lines(answer)), end="")

    code = shared.for_each(verify, arguments)
    if not is_text:
        print(as_json(answers), end="")
    return code


def _verify(dataset: Dataset, root: Path, answer: dict[str, Any]) -> None:
    """Add the state of every file to the answer, then the origin of the data. Raises DataError for bad files."""
    for source in shared.sources(dataset):
        files = [] if source.is_drawn else check(source, root)
        answer["files"] += [{"path": file.path, "variant": file.variant, "problem": file.problem} for file in files]
        bad = sum(bool(file.problem) for file in files)
        if bad:
            raise DataError(f"{source.name}: {bad} of {len(files)} files are bad; {source.remedy(root)}")
    try:
        answer.update(shared.loaded(dataset, root).origin)
    except ConfigError as error:
        answer["remark"] = f"no digest, as the default settings do not suit these files: {error}"


def _lines(answer: dict[str, Any]) -> list[str]:
    """The answer as text, without an error, which is printed as such."""
    lines = [f"BAD {file['path']}: {file['problem']}" if file["problem"] else f"OK  {file['path']}: {file['variant']}"
             for file in answer["files"]]  # fmt: skip
    if "digest" in answer:
        samples = f"{answer['train_samples']} + {answer['test_samples']} samples ({answer['variant']})"
        return [*lines, f"{answer['name']}: {samples}, digest {answer['digest']}"]
    return [*lines, f"{answer['name']}: {answer['remark']}"] if answer["remark"] else lines


VERB = Verb("verify", "check every file, load the data and print their digest", _add, _run)
