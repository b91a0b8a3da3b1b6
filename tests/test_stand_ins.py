"""Cells measured with other settings than the paper's: which are taken, how they are marked, and where they count."""

import csv
import math
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from robustfl_bench.lab.agreement import claim_sheets, scorecard
from robustfl_bench.lab.agreement.measured import scored
from robustfl_bench.lab.agreement.verdicts import FEW, HOLDS, UNTESTED
from robustfl_bench.read.pages.figures import inventory
from robustfl_bench.read.runs import records
from robustfl_bench.read.runs.values import has_learned
from robustfl_bench.read.tables import agreement, described, layout
from robustfl_bench.read.tables.compare import compare
from robustfl_bench.read.tables.described import Paper
from robustfl_bench.read.tables.table import Table
from tests.test_paper_tables import ATTACKS, TWO, make_clean, make_run

LIKE = replace(TWO, stand_ins=(("batch_size=64",), ("scale=quick",)))
SMALL = "batch size 64 (paper: whole local sets)"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Of BOBA its own run under IPM and the stand-ins of all attacks, of Average and Krum stand-ins under IPM."""
    for settings in ({"batch_size": 64}, {"scale": "quick"}):
        make_clean(tmp_path, **settings)
    make_run(tmp_path, "boba", "ipm", accuracy=0.915)
    for attack in ATTACKS:
        make_run(tmp_path, "boba", attack, accuracy=0.90, batch_size=64)
    make_run(tmp_path, "average", "ipm", accuracy=0.10, batch_size=64)
    make_run(tmp_path, "krum", "ipm", accuracy=0.60, batch_size=64)
    make_run(tmp_path, "krum", "ipm", accuracy=0.70, scale="quick")
    make_run(tmp_path, "krum", "lie", accuracy=0.71, scale="quick")
    return tmp_path


def made(results: Path) -> Table:
    return compare(LIKE, records.load(results))


def test_a_cell_takes_its_first_stand_in_where_its_own_settings_have_no_result(results: Path) -> None:
    found = made(results)
    shown = {key[1:]: (cell.mean, cell.stand_in) for key, cell in found.cells.items() if cell.seeds}
    assert shown["boba", "ipm"] == (pytest.approx(91.5), "")
    assert shown["boba", "lie"] == shown["boba", "worst"] == (pytest.approx(90), SMALL)
    assert shown["krum", "ipm"] == (pytest.approx(60), SMALL), "of two stand-ins the first"
    assert shown["krum", "lie"][0] == pytest.approx(71)
    assert shown["krum", "lie"][1].startswith(
        "rounds 60 (paper: 200), clients 20 (paper: 100), attackers 3 (paper: 15)"
    )


def test_stand_ins_are_counted_apart(results: Path) -> None:
    found = made(results)
    assert [key[1:] for key in found.judged] == [("boba", "ipm")]
    assert len(found.judged_as(SMALL)) == 8 and len(found.stood_in) == 9
    assert found.lacking["only as stand-ins"] == 9
    lines = agreement.report(found)
    assert "1 of 1 cells are inside" in lines[0] and "1 of 105 cells are compared" in lines[0]
    assert lines[1].startswith("stand-ins, counted apart: 5 of 8 cells are inside (5 within 2 points)")
    assert lines[1].endswith(f"({SMALL})")
    assert not agreement.gaps(found)[1:], "the largest gaps are of the paper's own settings"
    ipm = [(rank.rows, rank.stand_in) for rank in agreement.correlations(found)]
    assert ipm == [], "two stand-ins and one cell of its own are no column of three"
    assert found.best(found.column("ipm"), "") == {"krum"}, "of cells of the same settings"
    entry = next(inventory(records.load(results), known={LIKE.name: LIKE}))
    assert (entry.compared, entry.inside, entry.stand_ins) == (1, 1, 9)


def test_marks_say_in_words_how_a_stand_in_differs(results: Path) -> None:
    found = made(results)
    printed = layout.render([found], "text")
    assert "90.0^a [n=1]" in printed and "71.0^b [n=1]" in printed and "91.5 [n=1]" in printed
    assert f"^a stand-in, not the paper's own settings: {SMALL}\n^b stand-in" in printed
    assert (
        "90 of 90 cells have no number" not in printed and "89 of 90 cells have no number of the paper's own" in printed
    )
    assert "not shown: 1 run made at scale=quick" in printed, "the run of a cell that has another stand-in"
    rows = list(csv.DictReader(StringIO(layout.render([found], "csv"))))
    assert {row["stand_in"] for row in rows if (row["aggregator"], row["attack"]) == ("boba", "lie")} == {SMALL}


def test_a_table_that_is_changed_as_a_whole_has_no_stand_ins(results: Path) -> None:
    changed = compare(LIKE, records.load(results), overrides=["batch_size=64"])
    assert len(changed.judged) == 9 and not changed.stood_in


def test_claims_are_judged_by_own_settings_or_by_one_stand_in_and_never_by_both(tmp_path: Path) -> None:
    make_clean(tmp_path, batch_size=64)
    for seed in range(3):
        for rule, accuracy in (("boba", 0.9), ("krum", 0.5)):
            make_run(tmp_path, rule, "ipm", seed, accuracy + 0.01 * seed, batch_size=64)
        make_run(tmp_path, "boba", "ipm", seed, 0.9)
    claims = tuple(described.about("c", "w", "p", ("boba / ipm > krum / ipm",), LIKE.name, LIKE.keys, "here"))
    (paper,) = scored({"boba": Paper("B", {LIKE.name: LIKE}, {}, claims)}, records.load(tmp_path))
    assert [verdict.word for verdict in paper.verdicts] == [UNTESTED]
    words, verdict = paper.stood_in[0]
    assert (words, verdict.word) == (SMALL, HOLDS)
    _, judged, *_ = scorecard.page(paper)
    assert [cell.text for cell in judged.rows[0]][2:] == [UNTESTED, "-", "1 of 1", "-", "holds, 1 of 1^a"]
    overview = scorecard.overview([paper])
    counts = dict(zip(overview.heading, (cell.text for cell in overview.rows[0]), strict=True))
    assert (counts[HOLDS], counts[UNTESTED], counts["decided by stand-ins"]) == ("0", "1", "1"), "counted apart"
    make_run(tmp_path, "krum", "ipm", 0, 0.5)
    (paper,) = scored({"boba": Paper("B", {LIKE.name: LIKE}, {}, claims)}, records.load(tmp_path))
    tables, judged, *_ = scorecard.page(paper)
    assert [judged.rows[0][place].text for place in (2, -1)] == [FEW, "holds, 1 of 1^a"]
    assert tables.footnotes[-1] == f"table2_mnist^a: {SMALL}", "although no cell shows it"


def test_a_published_number_counts_once_as_a_stand_in(results: Path) -> None:
    both = {LIKE.name: LIKE, "boba/again": replace(LIKE, name="boba/again")}
    (paper,) = scored({"boba": Paper("B", both, {})}, records.load(results))
    cells = [cell for cell, order_only in scorecard.stood_in(paper) if not order_only]
    assert (len(cells), agreement.inside(cells)) == (9, "5 (5 + 0 + 0)")


@pytest.mark.parametrize(("clean", "learned"), [(0.741, True), (0.739, False), (None, False)])
def test_a_stand_in_counts_and_decides_only_if_its_models_have_learned(
    tmp_path: Path, clean: float | None, learned: bool
) -> None:
    """92.5 is printed of Average without attack, of which 80% are 74."""
    if clean is not None:
        make_clean(tmp_path, clean, batch_size=64)
    for seed in range(3):
        for rule, accuracy in (("boba", 0.9), ("krum", 0.5)):
            make_run(tmp_path, rule, "ipm", seed, accuracy + 0.01 * seed, batch_size=64)
    claims = tuple(described.about("c", "w", "p", ("boba / ipm > krum / ipm",), LIKE.name, LIKE.keys, "here"))
    (paper,) = scored({"boba": Paper("B", {LIKE.name: LIKE}, {}, claims)}, records.load(tmp_path))
    table = paper.tables[LIKE.name]
    assert len(table.stood_in) == len(scorecard.stood_in(paper)) == 2 * learned
    assert [verdict.decided for _, verdict in paper.stood_in.values()] == [True] * learned
    assert {cell.stand_in for cell in table.cells.values()} == {"", SMALL} if learned else {""}
    states = [table.cells["", rule, "ipm"].state for rule in ("boba", "krum")]
    assert states == ["" if learned else "too small"] * 2
    assert table.lacking["too small a scale to say"] == (0 if learned else 2)
    overview = scorecard.overview([paper])
    assert overview.rows[0][overview.heading.index("too small")].text == ("0" if learned else "2")
    small = f"{SMALL}: too small a scale to say: without attack Average has 73.9, where 92.5 is printed"
    assert table.too_small == ({("batch_size=64",): small} if clean == 0.739 else {})
    assert (f"counted nowhere: {small}" in layout.render([table], "text")) == (clean == 0.739)
    assert (f"table2_mnist: {small}" in scorecard.page(paper)[0].footnotes) == (clean == 0.739)


def test_a_table_of_other_data_has_only_cells_that_have_learned(tmp_path: Path) -> None:
    make_run(tmp_path, "boba", "ipm", accuracy=0.7)
    elsewhere = replace(TWO, other_data=True)
    assert not compare(elsewhere, records.load(tmp_path)).judged
    make_clean(tmp_path, 0.8)
    assert [key[1:] for key in compare(elsewhere, records.load(tmp_path)).judged] == [("boba", "ipm")]


def test_where_nothing_is_printed_a_model_has_to_be_as_good_as_any_printed_one_asks() -> None:
    assert has_learned(0.8, None) and not has_learned(0.79, None) and not has_learned(math.nan, 0.5)


def test_the_cheapest_looks_at_a_stand_in_stand_beside_the_papers(tmp_path: Path) -> None:
    make_clean(tmp_path, batch_size=64)
    make_clean(tmp_path, scale="quick")
    make_run(tmp_path, "boba", "ipm", 0, 0.9)
    for rule, accuracy in (("boba", 0.9), ("krum", 0.5)):
        make_run(tmp_path, rule, "ipm", 0, accuracy, batch_size=64)
        make_run(tmp_path, rule, "ipm", 0, accuracy, scale="quick")
    table = replace(LIKE, looks=(2, 3))
    claims = tuple(described.about("c", "w", "p", ("boba / ipm > krum / ipm",), LIKE.name, LIKE.keys, "here"))
    known = {"boba": Paper("B", {LIKE.name: table}, {}, claims)}
    (paper,) = scored(known, records.load(tmp_path))
    looks = {part.overrides: claim.next for part in paper.standing_in for claim in part.open_claims}
    quick = looks["scale=quick",]
    assert quick is not None and (quick.look, len(quick.runs)) == (2, 2), "one more seed of both rules"
    (deciding,) = claim_sheets.deciding(paper)
    assert deciding.rows[0][-1].text.startswith("scale=quick, "), "of two the cheaper one, and what it still lacks"
    for rule, accuracy in (("boba", 0.91), ("krum", 0.51)):
        make_run(tmp_path, rule, "ipm", 1, accuracy, batch_size=64)
    (paper,) = scored(known, records.load(tmp_path))
    assert paper.stood_in[0][1].word == HOLDS
    assert paper.standing_in == [], "one kind of stand-ins decides the claim"
