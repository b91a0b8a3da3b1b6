"""results/TUTORIAL.md: after its installation, its commands run as printed, in their order, and print what it shows."""

import re
import shlex
from pathlib import Path

import pytest

from tests.installed import Installed
from tests.test_contributing import ROOT, blocks

pytestmark = pytest.mark.slow

PAGE = (ROOT / "results" / "TUTORIAL.md").read_text()
POINTS = 3  # by which numbers may differ on another machine, in percent


def skeleton(text: str) -> str:
    """A text without its numbers and the widths of its columns."""
    return re.sub(r"\s+|-{3,}", " ", re.sub(r"\d+(\.\d+)?", "#", text)).strip()


def test_the_page_leads_from_nothing_to_a_table(tmp_path: Path) -> None:
    pytest.importorskip("hatchling.build", reason="hatchling, which builds the wheel, is not installed")
    install, *parts = blocks(PAGE, "sh")
    (extras,) = re.findall(r"^pip install \.(.*)$", install, re.M)
    environment = Installed(tmp_path / "venv", *shlex.split(extras))
    environment.run(install.splitlines()[-1], tmp_path)
    lines = [line for part in parts for line in part.splitlines()]
    outputs = {line: environment.run(line, tmp_path) for line in lines}
    assert len(lines) > 8 and "27 finished" in outputs["robustfl-results status"]
    (shown,) = blocks(PAGE, "text")
    table = outputs["robustfl-results table"]
    assert skeleton(shown) == skeleton(table)
    numbers = [[float(number) for number in re.findall(r"\d+\.\d+", text)] for text in (shown, table)]
    assert numbers[0] == pytest.approx(numbers[1], abs=POINTS)
    for name in re.findall(r"\w+\.(?:py|pdf|tex|csv)\b", PAGE):
        assert (tmp_path / name).is_file(), name
    assert "2 passed" in outputs["python -m pytest -q test_typical_mean.py"]
    assert r"\label{tab:digits}" in (tmp_path / "table.tex").read_text()
    kept = environment.run("robustfl-results table --from runs.csv", tmp_path)
    assert kept.split("\n\n")[-1] == table.split("\n\n")[-1], "the file that is published has the numbers of the table"


def test_the_lines_after_a_new_part_begin_with_what_they_need(tmp_path: Path) -> None:
    """``pip install .`` brings no pytest."""
    pytest.importorskip("hatchling.build", reason="hatchling, which builds the wheel, is not installed")
    environment = Installed(tmp_path / "venv")
    lines = environment.run("robustfl-bench new aggregator cosine_vote", tmp_path).splitlines()
    assert [line.strip() for line in lines[1:3]] == [
        "python -m pip install pytest",
        "python -m pytest test_cosine_vote.py",
    ]
    environment.run(lines[3], tmp_path)
    assert "1 finished" in environment.run("robustfl-results status", tmp_path)
