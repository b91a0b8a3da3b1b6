"""The API pages: every public name has one, with its docstring, and nothing is amiss when they are built."""

import importlib.util
import re
import warnings
from html import unescape
from pathlib import Path

import pytest

import robustfl_bench
from robustfl_bench.aggregators.krum import Krum

SCRIPT = Path(__file__).parents[1] / "scripts" / "generators" / "docs.py"


def test_the_pages_are_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("pdoc", reason="pdoc, which makes the pages, is not installed")
    spec = importlib.util.spec_from_file_location("docs", SCRIPT)
    assert spec and spec.loader
    docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(docs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        docs.build(tmp_path)
    whole = (tmp_path / "robustfl_bench.html").read_text()
    assert {name for name in robustfl_bench.__all__ if f'id="{name}"' not in whole} <= {"results", "plot"}
    assert (tmp_path / "robustfl_bench" / "api" / "plot.html").exists(), "a module has a page of its own"
    rule = (tmp_path / "robustfl_bench" / "aggregators" / "krum.html").read_text()
    words = " ".join(unescape(re.sub("<[^>]*>", "", rule)).split())
    sentences = " ".join(str(Krum.__doc__).replace("``", "").split()).split(". ")
    assert len(sentences) > 5 and [sentence for sentence in sentences if sentence not in words] == []
