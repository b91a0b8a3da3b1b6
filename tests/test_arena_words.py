"""The templates of the arena's sentences and tables: each is used, each exists, and a missing value is an error."""

import re
from pathlib import Path

import pytest
import yaml
from jinja2 import UndefinedError

from robustfl_bench.lab.arena import words
from robustfl_bench.lab.arena.words import commas, each, ends, tabled
from robustfl_bench.read.tables.sheets import Printed

ARENA = Path(words.__file__).parent
TEMPLATES = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in ARENA.glob("templates/*.yaml")}


def test_every_template_is_asked_for_and_every_name_that_is_asked_for_has_one() -> None:
    sources = [*ARENA.rglob("*.py"), *ARENA.glob("templates/*.yaml")]
    asked = {match for file in sources for match in re.findall(
        rf"[\"']({'|'.join(TEMPLATES)})\.(\w+)[\"']", file.read_text(encoding="utf-8"))}  # fmt: skip
    assert asked == {(file, name) for file, entries in TEMPLATES.items() for name in entries} and len(asked) > 90


def test_a_table_has_a_row_for_each_record_and_no_empty_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {
        "above": ["Runs of {{who}}", "{% if more %}more{% endif %}", "*notes"],
        "columns": {"rule": None, "*parts": "numbers", "score": "score | best(score > 50)"},
        "labels": "1 + parts | length",
        "footnotes": ["{{said('made.line', who=who)}}"],
    }
    monkeypatch.setattr(words, "_entries", lambda file: {"table": entry, "line": "by {{who}}, {{HALF}}"})
    records = ["a block", {"rule": "krum", "numbers": [1.25, float("nan")], "score": 62.0}]
    sheet = tabled("made.table", records, who="me", more=False, notes=["", "a note"], parts=["x", "y"])
    assert sheet.above == ["Runs of me", "a note"] and sheet.footnotes == ["by me, 50"] and sheet.labels == 3
    assert sheet.heading == ["rule", "x", "y", "score"] and sheet.is_heading(sheet.rows[0])
    assert sheet.rows[1] == [Printed("krum"), Printed("1.2"), Printed(""), Printed("62.0", best=True)]
    with pytest.raises(UndefinedError, match="'who' is undefined"):
        each("made.line", [{"rule": "krum"}])


def test_numbers_in_words() -> None:
    assert ends([3.0, 1.0, 2.0]) == "1 to 3" and ends([0.5], "+.2f") == "+0.50"
    assert commas({"iid": 1.26, "fang": 2.0}, "{} {:.1f}") == "iid 1.3, fang 2.0" and commas([1, 2]) == "1, 2"
