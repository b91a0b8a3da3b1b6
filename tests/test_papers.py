"""The papers' tables and figures as described: every printed number once, and the runs that the presets make."""

import re
from collections import Counter
from pathlib import Path

import pytest

from robustfl_bench.base.code_digest import PACKAGE
from robustfl_bench.base.errors import ConfigError
from robustfl_bench.read.pages.figures import KINDS
from robustfl_bench.read.runs import matching
from robustfl_bench.read.runs.matching import Config, sweep
from robustfl_bench.read.tables import described as papers
from robustfl_bench.read.tables.described import PaperColumn, PaperTable, Published, published
from robustfl_bench.runner.config import compose, options

TABLES, FIGURES = papers.tables(), papers.figures()
PAPERS = PACKAGE / "read" / "papers"
README = (PAPERS / "README.md").read_text(encoding="utf-8")
COUNTS = {paper: int(count) for paper, count in re.findall(r"^\| `(\w+)\.csv` \|.*\| (\d+) \|$", README, re.M)}
SHAPES = {  # how many numbers some papers print, counted there
    "boba/table1": 93, "boba/table2": 315, "boba/table3": 35, "boba/table4": 35, "boba/table7": 105,
    "boba/table8": 140, "boba/table9": 134, "raga/table2": 156, "raga/table3": 156, "raga/table4": 156,
    "raga/table5": 78, "brace/table1": 9, "brace/table2a": 70, "brace/table2b": 70, "arfl/table2": 105,
    "karimireddy/bucketing": 16, "karimireddy/clipping": 6, "byzfl/simulation": 1,
}  # fmt: skip
PRINTED = {name: table for name, table in TABLES.items() if table.numbers is not None and not table.other_data}
DIMENSIONS = {name for name in TABLES if name.startswith("brifca/dimension_k")}
"""Figures in numbers, whose presets leave out the two largest dimensions at quick scale."""


SERVER, RING = "all, to a server", "a client, on a ring"
NO_FORMULA = {("krum", RING), ("median", RING), ("trimmed_mean", RING), ("rar", SERVER), ("brace", SERVER)}
"""Of BRACE's Table 1: a ring cannot compute the first three, and the paper compares the others on a ring only."""

FORMULAS = ("brace/table1",)


def csv_of(paper: str) -> Path:
    return PAPERS / f"{paper}.csv"


@pytest.mark.parametrize("paper", COUNTS)
def test_every_printed_number_is_a_cell_of_one_table(paper: str) -> None:
    cells = [cell for name, table in PRINTED.items() if table.paper == paper and name not in FORMULAS
             for cell in table.cells]  # fmt: skip
    numbers = published(csv_of(paper))
    assert len(numbers) == COUNTS[paper] == len(cells)
    told = [(*number.key.items(), number.mean, number.sd) for number in numbers]
    assert Counter((*cell.published.key.items(), cell.published.mean, cell.published.sd) for cell in cells
                   if cell.published) == Counter(told)  # fmt: skip
    assert len(set(told)) == len(told)


def test_the_readme_counts_the_numbers_of_every_paper() -> None:
    assert set(COUNTS) == {path.stem for path in PAPERS.glob("*.csv")}


def test_tables_have_the_shape_of_the_printed_ones() -> None:
    counts: Counter[str] = Counter()
    for name, table in PRINTED.items():
        counts[name.split("_")[0]] += len(table.cells)
    assert {name: counts[name] for name in SHAPES} == SHAPES and all(counts.values())


def test_the_only_dashes_are_those_of_the_reference() -> None:
    dashes, counted = set(), {name.split("/")[0] for name in SHAPES}
    for table in TABLES.values():
        there = {(cell.block, cell.row, cell.column.label) for cell in table.cells}
        every = {(block.label, row.label, column.label) for block in table.blocks for row in table.rows
                 for column in table.columns}  # fmt: skip
        assert len(table.cells) == len(there)
        if table.paper in counted:
            dashes |= {(row, label) for _, row, label in every - there}
    assert dashes == {("average", "none mrd"), *NO_FORMULA}


def test_a_cell_runs_what_its_row_of_the_csv_says() -> None:
    checked = 0
    for name, table in PRINTED.items():
        for cell in table.cells:
            assert cell.published is not None
            key = cell.published.key
            if cell.overrides is None:
                assert key["attack"] == "worst"
                continue
            resolved = compose.resolve(cell.overrides)
            run, chosen = resolved.config, resolved.choices
            for group in ("dataset", "attack", "aggregator"):
                assert not key[group] or chosen[group] == key[group]
                checked += bool(key[group])
            real = run["num_byzantine"] if chosen["attack"] != "none" else 0
            if name in FORMULAS:
                continue
            assert not key["byzantine"] or int(key["byzantine"]) == real
            share, exact = key["attack_fraction"], float(key["attack_fraction"] or 0) * run["num_clients"]
            assert not share or real in (round(exact), int(exact))
            part, _, value = key["setting"].partition("=")
            if part in ("participation", "phi"):
                alpha = run["partition"].get("alpha")
                assert float(value) == {"participation": run["participation"], "phi": alpha}[part]
    assert checked > 3000


def test_numbers_stay_as_they_are_printed() -> None:
    first = published(csv_of("boba"))[0]
    assert (first.mean, first.sd, first.number, first.spread, first.text) == ("92.5", "0.1", 92.5, 0.1, "92.5 (0.1)")
    single = Published({}, "0.90", "")
    assert (single.text, single.spread, single.digits) == ("0.90", 0, 2)


def test_formulas_give_the_bits_of_a_round() -> None:
    """m n d to a server, 2 m d (n - 1) / n of a client on a ring, for n = 100 clients, m = 32 bits, d parameters."""
    bits = {(cell.row, cell.column.label): cell.published.number for cell in TABLES["brace/table1"].cells
            if cell.published}  # fmt: skip
    assert bits["krum", SERVER] == round(32 * 100 * 139_960 / 1e6, 3)
    assert bits["rar", RING] == round(2 * 32 * 139_960 * 99 / 100 / 1e6, 3)
    assert bits["signsgd", SERVER] == round(100 * 139_960 / 1e6, 3)
    assert bits["brace", RING] == round(139_960 * 99 * 33 / 100 / 1e6, 3)


# --- tables and presets --------------------------------------------------------------------------------------------


def cells_of(table: PaperTable, *overrides: str) -> set[frozenset[tuple[str, str]]]:
    return {settings(*cell.overrides, *overrides) for cell in table.cells if cell.overrides is not None}


def settings(*overrides: str) -> frozenset[tuple[str, str]]:
    config: Config = matching.config(compose.resolve(overrides).identity)
    return frozenset(config.items())


def extras_of(table: PaperTable, *overrides: str) -> set[frozenset[tuple[str, str]]]:
    """The runs of BRACE's Table 1 that the product of its rules with star and ring has too much."""
    if table.name not in FORMULAS:
        return set()
    places = {SERVER: "protocol=star", RING: "protocol=ring"}
    return {settings(*table.base, f"+method=brace/{rule}", places[place], *overrides) for rule, place in NO_FORMULA}


def check_preset(table: PaperTable, scale: str) -> None:
    """The preset of the table makes the runs of its cells, in full what they are, and no others."""
    made = set(sweep(table.preset, *table.changes, f"scale={scale}"))
    wanted = cells_of(table, f"scale={scale}")
    if scale == "quick" and table.name in DIMENSIONS:
        assert made < wanted and len(made) == 3 / 5 * len(wanted)
        return
    extras = extras_of(table, f"scale={scale}")
    assert wanted and wanted <= made, f"{len(wanted - made)} cells have no run in the preset"
    assert made - wanted == extras, f"{len(made - wanted)} runs of the preset have no cell"


@pytest.mark.parametrize("scale", ["paper", "quick"])
@pytest.mark.parametrize("name", TABLES)
def test_the_cells_of_a_table_are_the_runs_of_its_preset(name: str, scale: str) -> None:
    check_preset(TABLES[name], scale)


def test_the_check_of_presets_finds_what_is_wrong(tmp_path: Path) -> None:
    whole = (PAPERS / "boba.yaml").read_text()
    yaml = re.sub(r"^outliers:\n(?: .*\n|\n)+", "", whole, flags=re.MULTILINE)  # they name the rules of the tables
    (tmp_path / "boba.csv").write_text(csv_of("boba").read_text())
    wrong = {
        "a rule less": ("[average, mkrum, fltrust, boba]", "[average, mkrum, boba]"),
        "another severity": ("corruption.severity=3]\n    rows: &few", "corruption.severity=2]\n    rows: &few"),
        "an attack less": ("    - &lie lie\n", "    - &lie {label: lie, run: attack=ipm}\n"),
        "another rate": ("base: [+setting=boba/cifar10,", "base: [+setting=boba/cifar10, lr=0.1,"),
    }
    for there, instead in [("", ""), *wrong.values()]:
        assert there in yaml
        file = tmp_path / "boba.yaml"
        file.write_text(yaml.replace(there, instead).replace("  table3:\n", "  table3:\n    preset: boba/table3\n"))
        table = papers.read(file).tables["boba/table3"]
        if there:
            with pytest.raises(AssertionError):
                check_preset(table, "paper")
        else:
            check_preset(table, "paper")


def test_every_preset_of_a_paper_is_a_table_or_a_figure() -> None:
    known = {entry.preset for entry in (*TABLES.values(), *FIGURES.values())}
    conf = options.CONF / "experiment"
    there = {str(path.relative_to(conf).with_suffix("")) for path in conf.glob("*/*.yaml")
             if path.parent.name in papers.papers()}  # fmt: skip
    ours = there - known
    assert known <= there and "brifca/rotated" in ours
    for name in ours:
        assert not re.search(r"Table|Fig\.", (conf / f"{name}.yaml").read_text(encoding="utf-8")), name
    for name, figure in FIGURES.items():
        assert figure.draw in KINDS, name
        number = re.search(r"/fig(\d+)", name)
        assert number is None or f"Fig. {number[1]}" in figure.title


# --- a description of one's own --------------------------------------------------------------------------------------

MINE = """
title: Mine
every_table: {rows: [average, boba]}
tables:
  one:
    base: +setting=boba/mnist
    column: {run: ["attack={0}", "num_byzantine={1}"], published: {attack: "{0}"}}
    columns: [ipm 5, {label: clean, run: attack=none, published: {attack: none}}, {label: worst, worst: true}]
"""


def test_labels_fill_the_pattern_of_their_overrides(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MINE)
    table = papers.read(tmp_path / "mine.yaml").tables["mine/one"]
    assert [cell.overrides for cell in table.cells[:3]] == [
        ("+setting=boba/mnist", "aggregator=average", "attack=ipm", "num_byzantine=5"),
        ("+setting=boba/mnist", "aggregator=average", "attack=none"),
        None,
    ]
    assert table.columns[0] == PaperColumn("ipm 5", ("attack=ipm", "num_byzantine=5"), {"attack": "ipm"})
    assert {cell.published for cell in table.cells} == {None} and table.preset == "" and table.title == "Mine, one"


@pytest.mark.parametrize(
    ("there", "instead", "told"),
    [
        ("    base:", "    bse:", "table one has no key 'bse'; known: title, published"),
        ("worst: true", "wrst: true", "table one has no key 'wrst'; known: label, run"),
        ("ipm 5", "ipm", "table one: the label 'ipm' has no word {1}"),
        ("    columns:", "    formulas: {bits: {boba: n * exit()}, where: {n: 1}}\n    columns:", "got exit()"),
        ("rows: [average, boba]", "values: {}", "table one needs rows and columns"),
        ("title: Mine", "title: [Mine", "cannot read"),
        ("  one:\n", "  one: 3\n  two:\n", "table one must hold `key: value` lines, got 3"),
    ],
)
def test_a_description_that_is_wrong_is_reported_in_one_line(
    tmp_path: Path, there: str, instead: str, told: str
) -> None:
    assert there in MINE
    (tmp_path / "mine.yaml").write_text(MINE.replace(there, instead))
    with pytest.raises(ConfigError) as caught:
        papers.read(tmp_path / "mine.yaml")
    assert told in str(caught.value) and "\n" not in str(caught.value)
