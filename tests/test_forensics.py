"""results/forensics.md: every check of an entry, which tests/forensics.txt has under its name, gives what it says."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE, CHECKS = ROOT / "results" / "forensics.md", ROOT / "tests" / "forensics.txt"


def test_the_checks_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testfile(str(CHECKS), module_relative=False, encoding="utf-8")
    assert failed == 0
    assert tried >= 50


def test_every_check_has_the_name_of_an_entry_of_the_page() -> None:
    entries = re.findall(r"^## (.+)$|^\*\*([^*]+)\*\*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    titles = [" ".join((heading or entry).split()).rstrip(".") for heading, entry in entries]
    checked = re.findall(r"^##? (.+)$", CHECKS.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(titles) > 40 and len(checked) > 30
    assert [name for name in checked if name not in titles] == []
