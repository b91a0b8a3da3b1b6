"""Runs as Parquet with Croissant metadata: what is written is what the metadata say, and bad input is one line."""

import hashlib
import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.read.runs import croissant, records
from robustfl_bench.read.runs.records import NoRuns
from tests.test_results import make_run

CITATION = (
    "{title: T, version: 0.1.0, date-released: 2026-11-25, license: Apache-2.0, authors: [{name: A}], keywords: [k]}"
)
REQUIRED = {"@context", "@type", "conformsTo", "name", "description", "license", "url", "creator", "datePublished"}


def test_each_column_is_a_field_with_its_kind(tmp_path: Path) -> None:
    for seed in (0, 1):
        make_run(tmp_path, "krum", seed=seed, accuracy=0.9)
    table = croissant.columns(records.load(tmp_path))
    assert not {"folder", "last", "command"} & {*table.columns}, "places on this machine"
    about = croissant.metadata(table, b"content", "https://example.org/runs", yaml.safe_load(CITATION))
    assert REQUIRED | {"citeAs", "version"} <= {*about} and len([key for key in about if key.startswith("rai:")]) == 7
    assert "http://mlcommons.org/croissant/1.1" in about["conformsTo"] and about["datePublished"] == "2026-11-25"
    (file,), (runs,) = about["distribution"], about["recordSet"]
    assert (file["sha256"], file["contentSize"]) == (hashlib.sha256(b"content").hexdigest(), "7 B")
    kinds = {field["source"]["extract"]["column"]: field["dataType"] for field in runs["field"]}
    assert [*kinds] == [*table.columns] and kinds["final_accuracy"] == "sc:Float" and kinds["run"] == "sc:Text"
    assert runs["key"]["@id"] in {field["@id"] for field in runs["field"]}
    assert {field["source"]["fileObject"]["@id"] for field in runs["field"]} == {file["@id"]}


def test_what_is_written_is_what_was_read(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra `parquet`")
    make_run(tmp_path, "krum", accuracy=0.9)
    folder, runs = tmp_path / "out", records.load(tmp_path)
    assert croissant.publish(runs, folder, "https://example.org/runs", CITATION) == 1
    read, about = pd.read_parquet(folder / croissant.RUNS), json.loads((folder / croissant.METADATA).read_text())
    assert read["final_accuracy"].tolist() == [0.9] and read["aggregator"].tolist() == ["krum"]
    assert about["distribution"][0]["sha256"] == hashlib.sha256((folder / croissant.RUNS).read_bytes()).hexdigest()
    with pytest.raises(NoRuns, match="none of these runs is finished"):
        croissant.publish(runs[:0], folder, "https://example.org/runs", CITATION)


def test_bad_input_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robustfl_bench.base.errors.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'pyarrow is not installed: pip install "robustfl-bench\[parquet\]"'):
        croissant.publish(records.nothing(), tmp_path, "https://example.org", CITATION)
    monkeypatch.setattr(croissant, "check_package", lambda *names: None)
    with pytest.raises(ConfigError, match="--url must be the address of the data set"):
        croissant.publish(records.nothing(), tmp_path, "here", CITATION)
