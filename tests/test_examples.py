"""The examples in the docstrings of the main public names give what they say."""

import doctest
from pathlib import Path

import pytest

import robustfl_bench


@pytest.mark.parametrize(
    "name",
    [
        "Aggregate",
        "Aggregator",
        "Attack",
        "CooMed",
        "Data",
        "GeoMed",
        "Krum",
        "Option",
        "Partition",
        "PreAggregation",
        "Result",
        "TrMean",
        "Updates",
        "results",
        "run",
        "sweep",
    ],
)
def test_the_example_of_a_public_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    public = getattr(robustfl_bench, name)
    (example,) = doctest.DocTestFinder(recurse=False).find(public, name, globs={})
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
