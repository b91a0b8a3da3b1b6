"""``--format json``: what commands print for programs."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from robustfl_bench.base.console import as_json
from robustfl_bench.commands import data, results
from robustfl_bench.commands.listing import listing
from robustfl_bench.commands.verb import parser_of
from robustfl_bench.read.tables.sheets import FORMATS, Printed, Sheet, Todo


def test_json_has_numbers_and_null() -> None:
    assert json.loads(as_json({"a": math.nan, 1: [np.float64(0.5), np.int64(2), None, True]})) == {
        "a": None, "1": [0.5, 2, None, True],
    }  # fmt: skip


def test_a_table_as_json() -> None:
    sheet = Sheet(["title", "remark"], ["rule", "x"], [[Printed("krum"), Printed("1.0", best=True)]], bold="the best")
    sheet = Sheet(**{**vars(sheet), "todos": [Todo("missing", "a run", "make it")]})
    (table,) = json.loads(FORMATS["json"]([sheet]))
    assert (table["title"], table["remarks"], table["columns"]) == ("title", ["remark"], ["rule", "x"])
    assert table["rows"] == [["krum", "1.0"]] and table["best"] == [[False, True]]
    assert table["notes"] == ["best: the best"] and table["todos"][0]["command"] == "make it"


def test_data_sets_and_options_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert data.main(["list", "--data-dir", str(tmp_path), "--format", "json"]) == 0
    states = {row["name"]: row["state"] for row in json.loads(capsys.readouterr().out)}
    assert states["digits"] == "ready" and states["mnist"] == "missing"
    groups = {group["name"]: group["count"] for group in json.loads(listing(format="json"))}
    assert groups["attack"] == len(json.loads(listing(["attack"], format="json")))
    (option,) = json.loads(listing(["partition", "dirichlet"], format="json"))
    assert "alpha" in option["keys"]


def test_every_verb_that_prints_what_it_reads_has_json() -> None:
    printing = {"status", "list", "table", "agreement", "arena", "recommend", "tune", "figure", "diff"}
    for verbs, names in ((results.VERBS, printing), (data.VERBS, {"list", "partition", "topology", "verify"})):
        (parsers,) = (action for action in parser_of("", "", verbs)._actions if isinstance(action.choices, dict))
        for name in names:
            (form,) = (action for action in parsers.choices[name]._actions if "--format" in action.option_strings)
            assert "json" in (form.choices or ()), name
