"""The table of definitions: the page has what docstrings say, and what it says of options is so."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from robustfl_bench.base.fields import options_of
from robustfl_bench.runner.config import targets
from robustfl_bench.train.parts import GROUPS

SCRIPT = Path(__file__).parents[1] / "scripts" / "generators" / "definitions.py"
spec = importlib.util.spec_from_file_location("definitions_script", SCRIPT)
assert spec is not None and spec.loader is not None
script: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

DIFFERENCES = {f"{entry.group}={entry.name}": (entry, text, keys) for entry, text, keys in script.differences()}


def test_the_page_has_a_row_for_each_difference_with_its_source() -> None:
    rows = [line for line in script.page().splitlines() if line.startswith("| [`")]
    assert [re.findall(r"`([^`]+)`", row)[0] for row in rows] == [*DIFFERENCES]
    sources = [entry.citation.replace("|", script.BAR) for entry, _, _ in DIFFERENCES.values()]
    assert [source for source, row in zip(sources, rows, strict=True) if source not in row] == []


def test_the_parts_whose_definition_differs_from_code_are_there() -> None:
    rules = {
        f"aggregator={name}" for name in ("signguard", "lasa", "krum", "caf", "smea", "mda", "rfa", "boba", "zeno")
    }
    attacks = {f"attack={name}" for name in ("opt_alie", "opt_ipm", "minsum", "mimic")}
    assert rules | attacks <= set(DIFFERENCES) and len(DIFFERENCES) >= 25


@pytest.mark.parametrize("option", DIFFERENCES)
def test_a_difference_has_a_source_and_names_values_that_an_option_takes(option: str) -> None:
    entry, text, keys = DIFFERENCES[option]
    assert entry.source and (text or keys)
    fields = options_of(targets.found_part(entry.group, entry.target))
    for name, value in re.findall(r"``(\w+)=(\w+)``", text):
        if name not in fields:
            assert name in GROUPS, f"{option} has no field {name}"
            continue
        allowed, _ = fields[name]
        known = value in (allowed.choices or ("true", "false", "null")) or allowed.allows(float(value))
        assert known, f"{option}: {name} does not take {value}"


def test_a_paragraph_about_code_begins_so() -> None:
    assert script.about_code("First.\n\nCode: the authors\n  draw.\n\nLast.") == "The authors draw."
    assert script.about_code("The authors' code draws.") == ""
