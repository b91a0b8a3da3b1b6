"""What can be asked of a table: one line for each row, differences to a row, an order, LaTeX that fits its column."""

import dataclasses
import math
import re
import shutil
import statistics
import subprocess
from pathlib import Path

import pytest

from robustfl_bench.read.runs import records
from robustfl_bench.read.runs.values import describe
from robustfl_bench.read.tables import layout, sheets
from robustfl_bench.read.tables.table import Cell, Column, Table
from tests import test_paper_tables, test_results
from tests.conftest import run_cli

KEPT = ("--from", str(Path(__file__).parent.parent / "results" / "boba" / "runs.csv"))
PAPER = ("table", "boba/table2_mnist", *KEPT)


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Three rules, two attacks, three seeds: boba is better than krum by 1, 2 and 3 points under ipm."""
    for seed, hardness in enumerate((0.0, 0.2, 0.1)):
        for attack in ("ipm", "lie"):
            test_results.make_run(tmp_path, "krum", attack, seed, 0.8 - hardness)
            extra = 0.01 * (seed + 1) if attack == "ipm" else 0.001 * (-1) ** seed
            test_results.make_run(tmp_path, "boba", attack, seed, 0.8 - hardness + extra)
            test_results.make_run(tmp_path, "average", attack, seed, 0.1)
    return tmp_path


def test_differences_to_a_row_have_paired_intervals(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_cli(capsys, "table", "--versus", "krum", "--format", "markdown", "--results-dir", sweep)
    (boba,) = [line for line in out.splitlines() if line.startswith("| BOBA")]
    cells = [cell.strip() for cell in boba.split("|")][2:-1]
    assert cells[0] == r"+2.0 \[-0.5, 4.5\]", "1, 2, 3: Student's t has 4.30 sd / sqrt(3)"
    assert cells[1].startswith("+0.0") or cells[1].startswith("-0.0")
    (average,) = [line for line in out.splitlines() if line.startswith("| average")]
    assert "**-60.0" in average and "| Krum" not in out


def test_a_difference_of_an_incomplete_worst_case_has_a_star_and_is_not_bold(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (sweep / "runs").glob("*-average-lie-*"):
        shutil.rmtree(folder)
    _, out, _ = run_cli(capsys, "table", "--versus", "krum", "--format", "markdown", "--results-dir", sweep)
    (average,) = [line for line in out.splitlines() if line.startswith("| average")]
    ipm, _, worst = [cell.strip() for cell in average.split("|")][2:-1]
    assert ipm.startswith("**-60.0") and worst.startswith("-60.0") and worst.endswith(r"\*")
    assert r"\* not complete" in out
    (boba,) = [line for line in out.splitlines() if line.startswith("| BOBA")]
    assert "*" not in boba


def test_numbers_that_are_not_finite_can_be_compared_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, loss in enumerate((0.5, float("nan"))):
        test_results.make_run(tmp_path, "boba", seed=seed, metrics={"train_loss": loss})
        test_results.make_run(tmp_path, "krum", seed=seed, metrics={"train_loss": 0.2})
    asked = ("--value", "train_loss", "--results-dir", tmp_path)
    code, out, _ = run_cli(capsys, "table", "--versus", "krum", "--format", "markdown", *asked)
    (boba,) = [line for line in out.splitlines() if line.startswith("| BOBA")]
    assert code == 0 and "nan" in boba and "**" not in boba
    assert run_cli(capsys, "report", "--output", tmp_path / "page.html", *asked)[0] == 0


def test_bold_is_all_that_cannot_be_told_from_the_best(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_cli(capsys, "table", "--format", "markdown", "--results-dir", sweep)
    rows = {line.split("|")[1].strip(): line for line in out.splitlines() if line.startswith("|")}
    assert rows["BOBA"].count("**") == 6 and rows["Krum"].count("**") == 6 and "**" not in rows["average"]
    assert "bold: tied with the best of its column" in out


def test_few_seeds_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, accuracy in (("krum", 0.8), ("boba", 0.9)):
        test_results.make_run(tmp_path, name, accuracy=accuracy)
    _, one, _ = run_cli(capsys, "table", "--format", "markdown", "--results-dir", tmp_path)
    assert "with one seed, differences cannot be told from noise" in one and one.count("**90.0**") == 2
    for seed, words in ((1, "with 2 seeds, differences cannot"), (2, "with 3 seeds few differences can be told")):
        for name, accuracy in (("krum", 0.8), ("boba", 0.9)):
            test_results.make_run(tmp_path, name, seed=seed, accuracy=accuracy)
        _, out, _ = run_cli(capsys, "table", "--format", "markdown", "--results-dir", tmp_path)
        assert words in out and out.count("**90.0 (0.0)**") == 2


def test_bold_by_the_mean_alone_has_a_mark() -> None:
    """A column whose cells have two seeds at most cannot be tested, where others can; the best mean has a mark."""
    accuracy = describe("final_accuracy", records.nothing())
    columns = tuple(Column(label, accuracy) for label in ("tested", "few"))
    numbers = {"tested": ((90.0, 90.4, 90.2), (80.0, 80.3, 80.5)), "few": ((70.0, 71.0), (60.0, 61.0))}
    cells = {}
    for label, of_rules in numbers.items():
        for rule, of_seeds in zip(("a", "b"), of_rules, strict=True):
            seeds = {str(seed): number for seed, number in enumerate(of_seeds)}
            cells["", rule, label] = Cell(statistics.fmean(of_seeds), 0.3, len(seeds), numbers=seeds)
    table = Table("t", "rule", ("",), ("a", "b"), columns, cells)
    (first, second) = layout.sheet(table).rows
    assert [cell.text for cell in first[1:]] == ["90.2 (0.3)", "70.5 (0.3)?"] and all(cell.best for cell in first[1:])
    assert not any(cell.best for cell in second) and "?" not in second[2].text
    assert layout.sheet(table).bold.endswith("; ?: the best mean alone, fewer than 3 seeds")
    for key in (("", "a", "few"), ("", "b", "few")):
        table.cells[key] = dataclasses.replace(table.cells[key], seeds=0, state="missing", numbers={})
    assert "?" not in layout.sheet(table).bold


def test_a_stand_in_that_is_compared_with_none_is_not_the_best_of_its_column() -> None:
    column = Column("ipm", describe("final_accuracy", records.nothing()))
    own, other = {"0": 80.0, "1": 80.2, "2": 80.1}, {"0": 30.0}
    cells = {("", "a", "ipm"): Cell(80.1, 0.1, 3, numbers=own), ("", "b", "ipm"): Cell(79.0, 0.1, 3, numbers=own),
             ("", "c", "ipm"): Cell(30.0, math.nan, 1, numbers=other, stand_in="scale=quick")}  # fmt: skip
    table = Table("t", "rule", ("",), ("a", "b", "c"), (column,), cells)
    table.stand_ins = {"scale=quick": table}
    assert table.best(column, "") == {"a", "b"} and "stand-ins among themselves" in layout.sheet(table).bold
    alone = dataclasses.replace(table, rows=("c",))
    assert alone.best(column, "") == {"c"}, "the only number of a column is its best"


def test_five_columns_have_mean_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for attack in ("ipm", "lie", "gauss", "mimic", "minmax"):
        for name, accuracy in (("average", 0.1), ("krum", 0.8), ("boba", 0.9)):
            test_results.make_run(tmp_path, name, attack, accuracy=accuracy)
    _, out, _ = run_cli(capsys, "table", "--results-dir", tmp_path)
    assert "mean rank by final_accuracy over 5 columns: boba 1.0, krum 2.0, average 3.0" in out
    assert "methods within 1.5 cannot be told apart (Nemenyi, 95%" in out


def test_a_compact_table_has_one_line_for_each_row(capsys: pytest.CaptureFixture[str], sweep: Path) -> None:
    _, out, _ = run_cli(capsys, *PAPER, "--layout", "compact")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "boba 92.6 (92.5) 91.9 (91.6) 92.6 (92.5) 92.5 (91.7) 92.1 (92.0) 92.1 (92.0) 91.9 (91.6)" in lines
    assert lines[0] == "BOBA, Table 2: under attack, MNIST: measured mean of 1 seed (published)"
    _, out, _ = run_cli(capsys, "table", "--layout", "compact", "--results-dir", sweep)
    assert re.search(r"^krum +70.0±10.0", out, re.M)


def test_published_numbers_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_cli(capsys, *PAPER, "--no-published")
    assert "published" not in out and "agreement" not in out and re.search(r"^boba +92.6 \[n=1\]", out, re.M)
    code, out, err = run_cli(capsys, "table", "--no-published")
    assert (code, out) == (2, "") and "--no-published is for a paper's table" in err


def test_a_condition_drops_the_rows_and_columns_that_do_not_meet_it(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_cli(
        capsys, *PAPER, "--where", "aggregator=krum,boba", "--where", "attack=ipm", "--layout", "compact"
    )
    body = re.split("-{9,}\n", out)[1].split("\n[1]")[0].splitlines()
    assert [line.split()[0] for line in body] == ["krum", "boba"] and "have no number" not in out
    code, _, err = run_cli(capsys, *PAPER, "--where", "aggregator=fltrust2")
    assert code == 3 and err.count("\n") == 1


def test_the_order_of_rows_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, err = run_cli(capsys, *PAPER, "--layout", "compact", "--order", "boba,krum")
    assert not err
    body = [line.split()[0] for line in re.split("-{9,}\n", out)[1].splitlines()[:3]]
    assert body == ["boba", "krum", "average"]
    code, _, err = run_cli(capsys, *PAPER, "--order", "bobba")
    assert code == 2 and "did you mean boba" in err


def test_a_part_of_ones_own_comes_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("boba", "zeno"):
        test_results.make_run(tmp_path, name)
    config = test_results.make_run(tmp_path, "abc") / "config.yaml"
    config.write_text(config.read_text().replace("robustfl_bench.aggregators.abc.Part", "abc.rules.Abc"))
    test_results.reseal(config.parent)
    _, out, _ = run_cli(capsys, "table", "--results-dir", tmp_path)
    assert [line.split()[0] for line in re.split("-{9,}\n", out)[1].splitlines()[:3]] == ["zeno", "boba", "abc"]


def test_two_settings_can_make_the_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, accuracy in (("krum", 0.7), ("mkrum", 0.8), ("average", 0.5)):
        test_results.make_run(tmp_path, name, accuracy=accuracy)
    code, out, err = run_cli(capsys, "table", "--rows", "aggregator,aggregator.num_selected", "--results-dir", tmp_path)
    assert (code, err) == (0, "")
    rows = [" ".join(line.split()) for line in re.split("-{9,}\n", out)[1].splitlines()[:3]]
    assert rows == ["average 50.0 50.0", "krum 1 70.0 70.0", "mkrum 5 80.0 80.0"]
    code, _, err = run_cli(capsys, "table", "--rows", "aggregator,attack", "--results-dir", tmp_path)
    assert code == 2 and "rows and columns must differ" in err


def test_cells_of_one_seed_each_are_complete(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_cli(capsys, "table", "--rows", "aggregator,seed", "--results-dir", sweep)
    assert (code, err) == (0, "") and "*" not in out and "missing" not in out
    assert re.search(r"^krum 1 +60.0 +60.0 +60.0$", out, re.M)


def test_a_minus_is_one_and_settings_are_comments(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("table", "--versus", "krum", "--results-dir", sweep)
    named = ("--caption", r"Mine \& theirs.", "--label", "tab:mine")
    _, out, _ = run_cli(capsys, *asked, *named, "--format", "latex")
    assert "$-$60.0" in out and " -60" not in out
    assert r"\caption{Mine \& theirs.}" in out and r"\label{tab:mine}" in out
    assert "% dataset digits" in out and "dataset digits" not in out.replace("% dataset digits", "")
    _, page, _ = run_cli(capsys, *asked, "--format", "html")
    assert "\N{MINUS SIGN}60.0" in page
    code, out, err = run_cli(capsys, *asked, *named, "--format", "html")
    assert (code, out) == (2, "") and "--caption is for a LaTeX table; add --format latex" in err
    code, out, err = run_cli(capsys, *asked, *named, "--format", "latex", "--value", "mrd", "--value", "seconds")
    assert (code, out) == (2, "") and "--caption and --label are of one table" in err


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex, of a TeX distribution")
@pytest.mark.parametrize("width", ["column", "page"])
def test_latex_fits_its_width(width: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, table, _ = run_cli(capsys, *PAPER, "--format", "latex", "--width", width, "--label", "tab:all")
    told = typeset(table + r"Table~\ref{tab:all}.", tmp_path)
    wide = [float(amount) for amount in re.findall(r"Overfull \\hbox \(([\d.]+)pt", told)]
    assert max(wide, default=0) < 1, told


def test_latex_labels_may_begin_with_brackets_and_stars(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [[sheets.Printed(label), sheets.Printed("1")] for label in ("[10,5]", "*", "*[2]", "a")]
    table = sheets.latex([sheets.Sheet(["Title"], ["[rows]", "[%]"], rows)])
    assert all(f"    {row} & " in table for row in ("{}[rows]", "{}[10,5]", "{}*", "{}*[2]", "a"))
    if shutil.which("pdflatex"):
        typeset(table, tmp_path)


def typeset(words: str, folder: Path) -> str:
    """What pdflatex says of a page with these words."""
    begin = r"\documentclass[twocolumn]{article}\usepackage{booktabs,graphicx}\begin{document}\sloppy"
    (folder / "paper.tex").write_text("\n".join([begin, words, r"\end{document}"]))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_runs_kept_with_the_package_are_shown_without_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _, out, _ = run_cli(capsys, "list", "raga/table3")
    assert re.search(r"^raga/table3 +156/156 +\d+ +156 +0 +156 ", out, re.M)
    _, out, _ = run_cli(capsys, "table", "raga/table3", "--where", "partition.alpha=0.6")
    assert "78 of 78 cells are compared" in out
    _, out, _ = run_cli(capsys, "table", "raga/table3", "--from", str(Path(KEPT[1]).parents[1] / "boba" / "runs.csv"))
    assert "0 of 156 cells are compared" in out, "a file that is named is all that counts"


def test_a_run_that_ended_here_comes_before_the_kept_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    test_paper_tables.make_run(tmp_path / "results", "boba", "ipm", 0, accuracy=0.5)
    test_paper_tables.make_run(tmp_path / "results", "krum", "ipm", 0, status=None)
    conditions = ("--where", "attack=ipm", "--where", "seed=0")
    _, out, _ = run_cli(capsys, "table", "boba/table2_mnist", "--layout", "compact", *conditions)
    assert re.search(r"^boba +50.0 \(91.6\)", out, re.M) and re.search(r"^krum +49.1 \(42.6\)", out, re.M)
