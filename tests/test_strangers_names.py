"""Names in somebody else's run folders: no format lets them steer a terminal, run as a formula or as TeX."""

import csv
import io
import json
from pathlib import Path

import pytest

from robustfl_bench.base.console import printable
from robustfl_bench.read.runs import archive, records
from robustfl_bench.runner.store import folders
from robustfl_bench.runner.store.lines import guarded, unguarded
from tests.conftest import run_cli
from tests.test_results import make_run

EVIL = {
    "terminal": "\x1b]0;owned\x07\x1b[31mred",
    "lines": "a\nresult: 99.9\r\u2028b",
    "direction": "abc\u202edef",
    "formula": "=HYPERLINK(\"http://x\",\"y\")",
    "command": "-1+cmd|' /C calc'!A0",
    "tex": "\\input{/etc/passwd}^^5cwrite18{ls}%",
    "markup": "<script>alert(1)</script>|*b*",
    "money": "$x_$",
}  # fmt: skip


def of_a_stranger(results: Path) -> Path:
    """Run folders whose choices, settings and errors are EVIL; their configs are fine."""
    for number, name in enumerate(EVIL.values()):
        folder = make_run(results, "krum", "ipm", number, variant=name)
        summary = json.loads((folder / "summary.json").read_text())
        summary["choices"] |= {"aggregator": name, "model": name}
        (folder / "summary.json").write_text(json.dumps(folders.seal(summary)))
        make_run(results, "boba", "ipm", 100 + number, status="failed", error=name)
    return results


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "csv", "html"])
def test_a_table_of_strange_names_is_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    asked = ("--rows", "aggregator", "--columns", "variant", "--where", "state=finished", "--format", form)
    code, out, err = run_cli(capsys, "table", "--results-dir", of_a_stranger(tmp_path), *asked)
    assert (code, err) == (0, "")
    assert all(line.isprintable() for line in out.split("\n"))
    assert len(out) > 500 and "result: 99.9" not in {line.strip() for line in out.splitlines()}
    if form == "csv":
        cells = [cell for row in csv.reader(io.StringIO(out)) for cell in row]
        assert not [cell for cell in cells if cell[:1] in ("=", "+", "@") or cell.startswith("-1+")]
        assert f"'{EVIL['formula']}" in cells
    if form == "latex":
        told = [line for line in out.splitlines() if not line.startswith("%")]
        assert not any("\\input" in line or "^^" in line or "\\write" in line for line in told)
    if form == "html":
        assert "<script>alert" not in out


def test_no_line_steers_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_a_stranger(tmp_path)
    for words in ("status --all", "table", "table --where aggregator=x", "plot weights --output x.png"):
        _, out, err = run_cli(capsys, *words.split(), "--results-dir", tmp_path)
        assert (out or err) and all(line.isprintable() for line in (out + err).split("\n")), words
    assert printable("krum ± 0.3") == "krum ± 0.3" and printable("\x1b[0m\n\u202e") == "\\x1b[0m\\n\\u202e"


def test_files_of_runs_hold_no_formula_and_are_read_as_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_a_stranger(tmp_path / "results")
    for option, name in (("--summary", "runs.csv"), ("--output", "rounds.csv")):
        assert run_cli(capsys, "export", option, tmp_path / name, "--results-dir", tmp_path / "results")[0] == 0
        with open(tmp_path / name, newline="", encoding="utf-8") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in cells if cell[:1] in ("=", "@") or cell.startswith("-1+")]
    there, back = records.load(tmp_path / "results"), archive.read(str(tmp_path / "runs.csv"))
    for name in ("aggregator", "variant"):
        assert set(back[name]) == set(there.loc[there["state"] == "finished", name]) == set(EVIL.values())


@pytest.mark.parametrize("word", [*EVIL.values(), "-", "-1e-05", "+1.2 [0.1, 2.3]*", "-0.3 OUT", "'=x", "''=x", "krum"])
def test_a_guarded_word_is_read_as_it_was(word: str) -> None:
    assert unguarded(guarded(word)) == word
    formulas = {EVIL["formula"], EVIL["command"], "'=x", "''=x"}
    assert (guarded(word) == word) == (word not in formulas)
