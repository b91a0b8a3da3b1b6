"""Tables of kept runs that are remembered: the same to the bit, and never those of other files or code."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from robustfl_bench.base import remembered
from robustfl_bench.base.errors import DataError
from robustfl_bench.read.runs import archive, frames
from robustfl_bench.runner.store import evidence, kept

SHIPPED = kept.FOLDER / "demo.csv"
NAN = np.array([0x7FF8000000000001], "i8").view(float)[0]  # another nan than Python's


def assert_same(first: pd.DataFrame, second: pd.DataFrame) -> None:
    """Values, their types, and what a table is besides."""
    assert list(first) == list(second) and first.columns.dtype == second.columns.dtype
    assert first.index.equals(second.index) and type(first.index) is type(second.index) and first.attrs == second.attrs
    for name, column in first.items():
        assert repr(column.dtype) == repr(second[name].dtype), name
        if column.to_numpy().dtype == object:
            pairs = list(zip(column, second[name], strict=True))
            assert all(type(left) is type(right) and repr(left) == repr(right) for left, right in pairs), name
        else:
            assert column.to_numpy().tobytes() == second[name].to_numpy().tobytes(), name


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which nothing is remembered yet."""
    monkeypatch.setenv(remembered.VARIABLE, str(tmp_path))
    return tmp_path / "remembered"


@pytest.mark.parametrize("rows", [0, 1, 6, 300])
def test_every_kind_of_column_comes_back_to_the_bit(rows: int) -> None:
    columns = {
        "floats": [math.nan, NAN, 0.0, -0.0, 1e308, math.inf],
        "integers": [3, -1, 2**62, 0, 0, 1],
        "truths": [True, False, True, True, False, False],
        "texts": ["a", "", "null", "ä\n,\u2028", "a", "1"],
        "absent": ["a", math.nan, "b", "a", math.nan, "a"],
        "mixed": [1, 1.0, True, "1", None, -0.0],
        "objects": pd.Series([0.5, math.nan, 0.5, -0.0, 0.0, 1e-300], dtype=object),
        "lists": [[0.1, math.nan], None, [], [0.1], [-0.0], [1.0]],
        "maps": [{"a": 1.0}, {}, {"b": 2.0, "a": math.nan}, {"a": 1.0}, {"a": 3.0, "b": 4.0}, {}],
    }
    few = pd.DataFrame(columns)
    nothing = pd.DataFrame({"run": pd.Series(dtype=object)})
    table = few.iloc[np.arange(rows) % 6].reset_index(drop=True) if rows else nothing
    assert_same(frames.unpacked(memoryview(b"".join(frames.packed(table)))), table)


def test_a_value_of_another_type_is_not_remembered() -> None:
    with pytest.raises(TypeError, match="mixed has values of"):
        frames.packed(pd.DataFrame({"mixed": [1, Path()]}))


def test_files_are_read_once(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    papers = [path for path in kept.files() if path.parent.name in ("brace", "fedbuff")]
    with_parts = [path for path in kept.files() if len(evidence.index_of(kept.FOLDER).parts(path)) > 1]
    paths = [*map(str, papers[:4]), str(min(with_parts, key=lambda path: path.stat().st_size))]
    slow = archive.join([archive.nothing(), archive._read_all(paths)])

    def read() -> pd.DataFrame:
        return frames.read_once(paths, lambda: slow)

    read()
    (file,) = empty.iterdir()
    with monkeypatch.context() as again:
        again.setattr(frames, "packed", lambda _: pytest.fail("a table was read again"))
        assert_same(read(), slow)
        again.setattr(frames, "_sealed", lambda _: ["other content"])
        with pytest.raises(pytest.fail.Exception):
            read()
    file.write_bytes(file.read_bytes()[:-1])
    assert_same(read(), slow)
    monkeypatch.setattr(frames, "code", lambda: None)  # a file of code was written since
    file.unlink()
    assert_same(read(), slow)
    assert not list(empty.iterdir())


def test_a_table_is_that_of_its_files(empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "results"
    (folder / "paper").mkdir(parents=True)
    monkeypatch.setattr(kept, "FOLDER", folder)
    path = folder / "paper" / "runs.csv"
    path.write_bytes(SHIPPED.read_bytes())
    with pytest.warns(UserWarning, match="older version"):
        before = archive.read(str(path), unsealed=True)
    assert not empty.exists(), "no index seals it"
    evidence.add(folder, [path])
    assert_same(archive.read(str(path)), before)
    assert_same(archive.read(str(path)), before)
    assert len(list(empty.iterdir())) == 1
    path.write_bytes(SHIPPED.read_bytes().replace(b"0", b"1", 1))
    with pytest.raises(DataError, match="is not what was written"):
        archive.read(str(path))
    path.unlink()
    with pytest.raises(DataError):
        archive.read(str(path))
