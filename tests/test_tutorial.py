"""results/TUTORIAL.md: its commands run as printed, in their order, and print what it shows."""

import re
import shlex
from pathlib import Path

import pytest

from robustfl_bench.commands.entry import PROGRAMS, VERBS
from tests.processes import start
from tests.test_contributing import ROOT, blocks

pytestmark = pytest.mark.slow

PAGE = (ROOT / "results" / "TUTORIAL.md").read_text()
POINTS = 3  # by which numbers may differ on another machine, in percent


def printed(folder: Path, words: list[str]) -> str:
    """What a command prints; a file that it is sent to gets it as well."""
    *words, sign, file = words if ">" in words else [*words, "", ""]
    match words:
        case ["python", "-m", "pytest", *arguments]:
            module = "pytest"
        case ["robustfl-bench", verb, *arguments] if verb in VERBS:
            module = VERBS[verb]
        case [program, *arguments]:
            module = PROGRAMS[program]
    command = start(folder, *arguments, module=module)
    out, err = command.communicate()
    assert command.returncode == 0, (words, out, err)
    if sign:
        (folder / file).write_text(out)
    return out


def skeleton(text: str) -> str:
    """A text without its numbers and the widths of its columns."""
    return re.sub(r"\s+|-{3,}", " ", re.sub(r"\d+(\.\d+)?", "#", text)).strip()


def test_the_page_leads_from_nothing_to_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROBUSTFL_DATA", raising=False)
    install, *parts = blocks(PAGE, "sh")
    assert "pip install .\n" in install and "robustfl-results" not in install
    lines = [line for part in parts for line in part.splitlines()]
    outputs = {line: printed(tmp_path, shlex.split(line)) for line in lines}
    assert len(lines) > 8 and "27 finished" in outputs["robustfl-results status"]
    (shown,) = blocks(PAGE, "text")
    table = outputs["robustfl-results table"]
    assert skeleton(shown) == skeleton(table)
    numbers = [[float(number) for number in re.findall(r"\d+\.\d+", text)] for text in (shown, table)]
    assert numbers[0] == pytest.approx(numbers[1], abs=POINTS)
    for name in re.findall(r"\w+\.(?:py|pdf|tex|csv)\b", PAGE):
        assert (tmp_path / name).is_file(), name
    assert r"\label{tab:digits}" in (tmp_path / "table.tex").read_text()
    kept = printed(tmp_path, ["robustfl-results", "table", "--from", "runs.csv"])
    assert kept.split("\n\n")[-1] == table.split("\n\n")[-1], "the file that is published has the numbers of the table"
