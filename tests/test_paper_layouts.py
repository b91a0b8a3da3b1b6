"""Tables in the layout of their paper: every printed number in its place, in all formats, and what cannot be."""

import json
import re
import shutil
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.read.runs.records import nothing
from robustfl_bench.read.runs.values import describe
from robustfl_bench.read.tables import described, sheets
from robustfl_bench.read.tables.described import PaperTable
from robustfl_bench.read.tables.filling import key_of
from robustfl_bench.read.tables.printed import PRINTED, arrange
from robustfl_bench.read.tables.sheets import Sheet
from robustfl_bench.read.tables.table import Against, Cell, Column, Table
from tests.conftest import run_cli
from tests.test_table_layout import typeset

KEPT = ("--from", "results/boba/table4_quick.csv")
TABLE_2_BOBA = (
    "92.5 (0.1) 91.6 (0.2) 92.5 (0.2) 91.7 (0.4) 92.0 (0.3) 92.0 (0.6) 91.6",
    "71.9 (0.5) 70.1 (0.6) 69.2 (0.7) 69.3 (1.1) 71.2 (0.5) 71.4 (0.5) 69.2",
    "88.3 (0.1) 87.7 (0.7) 88.4 (0.1) 87.3 (0.3) 88.1 (0.1) 88.3 (0.2) 87.3",
)
"""The last row of the paper's table."""
RULES = [
    "Average",
    "Server",
    "CooMed",
    "TrMean",
    "Krum",
    "MKrum",
    "GeoMed",
    "SelfRej",
    "AvgRej",
    "Zeno",
    "FLTrust",
    "ByGARS",
    "B-Krum",
    "B-MKrum",
    "RAGE",
    "BOBA",
]


def as_published(table: PaperTable) -> Table:
    """A table whose three seeds have the published numbers."""
    columns = [Column(column.label, describe(table.value(column.metric), nothing()), column.worst)
               for column in table.columns]  # fmt: skip
    cells = {}
    for cell in table.cells:
        assert cell.published is not None
        number, noted = (
            cell.published.number,
            Against(cell.published.text, cell.published.number, cell.published.number, 2),
        )
        seeds = {str(seed): number for seed in range(3)}
        cells[key_of(cell)] = Cell(number, 0.0, 3, against=noted, numbers=seeds, worst=cell.column.worst, note=1)
    blocks, rows = tuple(block.label for block in table.blocks), tuple(row.label for row in table.rows)
    return Table(
        table.title, "rule", blocks, rows, tuple(columns), cells, notes=[f"a note of {table.name}"], compared=True
    )


@cache
def of_paper(name: str, published: bool = True) -> Sheet:
    shown = described.layouts()[name]
    tables = {part: as_published(described.tables()[part]) for part in shown.tables}
    for table in tables.values() if not published else ():
        table.forget_published()
    return arrange(shown, tables, {})


@pytest.mark.parametrize("name", described.layouts())
def test_every_number_that_a_paper_prints_has_its_place(name: str) -> None:
    sheet, shown = of_paper(name), described.layouts()[name]
    lines = [row for row in sheet.rows if row[sheet.labels - 1].text == PRINTED]
    words = [cell.text.replace(shown.spread or " (", " (") for row in lines for cell in row[sheet.labels :]]
    found = Counter(number for several in words for number in several.split(" / ") if number != "-")
    cells = [cell for part in shown.tables for cell in described.tables()[part].cells]
    texts = ((cell.published, cell.column.worst) for cell in cells if cell.published)
    printed = Counter(number.mean if worst else number.text for number, worst in texts)
    without_end = Counter({number.removesuffix(")"): count for number, count in printed.items()})
    assert Counter({number.removesuffix(")"): count for number, count in found.items()}) == without_end
    assert len({len(row) for row in sheet.rows} | {len(sheet.heading)}) == 1


def test_tables_of_boba_are_as_printed() -> None:
    sheet = of_paper("boba/table2")
    names = [row[0].text for row in sheet.rows]
    assert names[::2] == [rule for rule in RULES if rule != "Server"] and set(names[1::2]) == {PRINTED}
    assert " ".join(cell.text for cell in sheet.rows[-1][1:]) == " ".join(TABLE_2_BOBA)
    assert sheet.heading == ["Method", *3 * ["Gauss", "IPM", "LIE", "Mimic", "MinMax", "MinSum", "Wst"]]
    assert [(words, end - first) for words, first, end in sheet.spans][1:] == [
        ("MNIST (|H| = 100, |B| = 15)", 7), ("CIFAR-10 (|H| = 100, |B| = 15)", 7), ("AG-News (|H| = 160, |B| = 54)", 7)
    ]  # fmt: skip
    unbiased = of_paper("boba/table1", published=False)
    assert [row[0].text for row in unbiased.rows] == RULES and unbiased.heading[1:3] == ["Acc ↑", "MRD ↓"]
    assert unbiased.rows[0][2].text == "-", "Average has no drop"
    parts = of_paper("boba/table7")
    assert [row[0].text for row in parts.rows if row[0].text] == [
        "MNIST (|H| = 100)", "CIFAR-10 (|H| = 100)", "AG-News (|H| = 160)"
    ]  # fmt: skip
    assert [row[1].text for row in parts.rows[:3]] == ["Average", PRINTED, "MKrum"]


def test_other_papers_have_their_forms() -> None:
    arfl = of_paper("arfl/table2")
    assert [row[0].text for row in arfl.rows if arfl.is_heading(row)] == ["CIFAR-10", "FEMNIST", "Shakespeare"]
    assert arfl.rows[2][1].text == "73.59 ± 0.44"
    brace = of_paper("brace/table2a", published=False)
    backdoor = next(row for row in brace.rows if row[0].text == "Backdoor attack")
    assert brace.heading[1:3] == ["RAR", "Krum"] and backdoor[1].text == "0.200 (0.000) / 0.940 (0.000)"
    assert "of its row" in brace.bold


def test_groups_are_above_their_columns_in_all_formats() -> None:
    sheet = of_paper("boba/table3")
    above, heading, rule = sheets.text([sheet]).partition("\n\n")[2].splitlines()[:3]
    assert above.index("|B| = 15") == heading.index("Gauss") and set(rule) == {"-"}
    assert "| Method | \\|B\\| = 0<br>Acc ↑ |" in sheets.markdown([sheet])
    latex = sheets.latex([sheet])
    assert r"\multicolumn{2}{c}{\textbar{}B\textbar{} = 0}" in latex and r"\cmidrule(lr){4-10}" in latex
    assert r"Acc $\uparrow$ & MRD $\downarrow$" in latex and r"\caption{Performance (mean (s.d.) \%" in latex
    assert sheets.plain_csv([sheet]).startswith("Method,|B| = 0 Acc ↑,|B| = 0 MRD ↓,|B| = 15 (Acc ↑) Gauss")
    assert json.loads(sheets.plain_json([sheet]))[0]["columns"][1] == "|B| = 0 Acc ↑"
    assert '<th scope="colgroup" colspan="7">|B| = 15 (Acc ↑)</th>' in sheets.page([sheet])


def test_notes_of_several_tables_are_numbered_together() -> None:
    sheet = of_paper("boba/table1", published=False)
    notes = [
        f"[{number}] a note of boba/table1_{data}" for number, data in enumerate(("mnist", "cifar10", "ag_news"), 1)
    ]
    assert sheet.footnotes[0] == "here: mean (sample sd) over 3 seeds" and list(sheet.footnotes[1:4]) == notes
    assert [cell.note for cell in sheet.rows[1][1:]] == [1, 1, 2, 2, 3, 3]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex, of a TeX distribution")
def test_latex_of_all_layouts_compiles_and_fits_a_page(tmp_path: Path) -> None:
    wide = [of_paper(name) for name in described.layouts()]
    told = typeset(sheets.latex([sheets.replace(sheet, width="page") for sheet in wide]), tmp_path)
    assert max(map(float, re.findall(r"Overfull \\hbox \(([\d.]+)pt", told)), default=0) < 1, told


def test_a_layout_is_asked_for_by_its_name_or_by_a_table_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("scale=quick", *KEPT, "--layout", "paper", "--no-published")
    code, out, _ = run_cli(capsys, "table", "boba/table4", *asked, "--labels", "boba=Ours")
    assert code == 0 and re.search(r"^BOBA w.o. stage 1  +\d\d\.\d", out, re.M) and re.search(r"^Ours  +8", out, re.M)
    for words, told in (
        (
            ("boba/table2",),
            "or boba/table2_mnist? --layout paper prints it",
        ),
        (
            ("karimireddy/clipping", "--layout", "paper"),
            "karimireddy/clipping has no layout of its paper; these have: arfl/",
        ),
        (("--layout", "paper"), "--layout paper takes a paper's table, without --rows"),
        (("boba/table2", "--layout", "paper", "--versus", "boba"), "without --rows, --columns, --versus"),
        (("boba/table22", "--layout", "paper"), "did you mean boba/table2"),
    ):
        code, out, err = run_cli(capsys, "table", *words)
        assert (code, out, err.count("\n")) == (2, "", 1) and told in err, err


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("{caption: a, rows: [krum], groups: [{table: t, columns: {lie: LIE}}]}", "no cell of mine/t / lie"),
        ("{caption: a, rows: [krum]}", "needs groups"),
        ("{caption: a, rows: [krum], groups: [{table: t}]}", "needs columns"),
        ("{caption: a, row: [krum]}", "has no key 'row'; known: caption, corner, rows"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(entry: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    table = "{base: +setting=boba/mnist, rows: [krum], columns: [ipm]}"
    path.write_text(f"tables:\n  t: {table}\nlayouts:\n  p: {entry}\n")
    with pytest.raises(ConfigError, match=re.escape(told)):
        described.read(path)


def test_a_layout_of_ones_own_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    table = "{base: +setting=boba/mnist, rows: [krum], columns: [ipm]}"
    groups = "[{label: MNIST, table: t, columns: {ipm: Inner product}}]"
    path.write_text(
        f"tables:\n  t: {table}\nlayouts:\n  p: {{caption: Mine, rows: {{krum: The Krum}}, groups: {groups}}}\n"
    )
    code, out, _ = run_cli(capsys, "table", f"{path}:p", "--layout", "paper", *KEPT)
    assert code == 0 and "Inner product" in out and re.search(r"^The Krum +missing", out, re.M)
