"""results/forensics.md: every check on the page gives what the page says."""

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_checks_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testfile(str(ROOT / "results" / "forensics.md"), module_relative=False, encoding="utf-8")
    assert failed == 0
    assert tried >= 50
