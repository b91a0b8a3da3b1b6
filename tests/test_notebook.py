"""The page on Python and its notebook run as printed, in an empty folder."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import robustfl_bench as rb

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "results" / "PYTHON.md").read_text(encoding="utf-8")
NOTEBOOK = ROOT / "results" / "notebook.ipynb"


@pytest.mark.slow
def test_the_examples_of_the_page_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.S | re.M)
    assert len(blocks) == 9
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    (tmp_path / "page_of_python.py").write_text("\n\n".join(blocks))
    names: dict[str, Any] = vars(importlib.import_module("page_of_python"))
    printed = capsys.readouterr().out
    assert "<Result digits-pathological-ipm2-krum-s0-" in printed and "typical" in printed
    assert names["own"].path.name.startswith("arrays-iid-") and names["vector"].shape == (1000,)
    assert names["same"].accuracy == pytest.approx(names["own"].accuracy), "the same data, from a file of the user's"
    assert names["attacked"].metrics["round"].tolist() == [1, 2, 3, 4, 5] and names["place"].exists()
    assert len(names["runs"]) == 12 and set(names["runs"]["state"]) == {"finished"}


def test_the_page_names_all_that_it_says_there_is() -> None:
    named = set(re.findall(r"\brb\.([A-Za-z]\w+)", PAGE)) - {"NAME"}
    assert len(named) >= 15 and [name for name in named if not hasattr(rb, name)] == []


@pytest.mark.slow
def test_the_notebook_runs_and_shows_results_curves_and_pictures(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient, which executes notebooks, is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel, which executes a notebook's cells, is not installed")
    nbformat = importlib.import_module("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not in version control"
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    shown = [output.get("data", {}) for cell in cells for output in cell.outputs]
    results = [data["text/html"] for data in shown if "<svg" in data.get("text/html", "")]
    assert [name for result in results for name in ("-typical-", "-trimmed-", "-krum-") if name in result] == [
        "-typical-", "-trimmed-", "-krum-"]  # fmt: skip
    assert any("image/png" in data for data in shown), "a picture"
    bars = [output.text for cell in cells for output in cell.outputs if output.get("name") == "stderr"]
    assert any("20/20" in bar for bar in bars), "the bar of a run"
    assert not any("Warning" in bar for bar in bars), bars
    again = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("summary.json")}
    again.execute()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("summary.json")} == times, "nothing is made twice"
    cells[1].source = cells[1].source.replace("argsort()", "argsort(descending=True)")
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    changed = {path for path, time in times.items() if path.stat().st_mtime_ns != time}
    assert changed and all("-typical-" in str(path) for path in changed), "a changed cell is another code"
