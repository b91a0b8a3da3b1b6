"""Claims as formulas: which cells they compare, the verdict on hand-made numbers, the papers' own, and the pages."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands.results import main
from robustfl_bench.lab.agreement import claim_sheets, scorecard
from robustfl_bench.lab.agreement.measured import MeasuredPaper, scored
from robustfl_bench.lab.agreement.verdicts import FAILS, FEW, HOLDS, UNTESTED, Verdict, judge
from robustfl_bench.read.runs import records
from robustfl_bench.read.runs.statistics import level_at_each
from robustfl_bench.read.runs.values import Value
from robustfl_bench.read.tables import described as papers
from robustfl_bench.read.tables import sheets
from robustfl_bench.read.tables.claims import Claim, Key, Side, blocks, expand
from robustfl_bench.read.tables.table import Against, Cell, Column, Table
from robustfl_bench.runner.config.names import readable
from scripts.generators import agreement as script

ROWS, COLUMNS = ("mine", "krum", "mean"), ("none", "ipm 1", "ipm 2")
KEYS: list[Key] = [("", row, column) for row in ROWS for column in COLUMNS]
ACCURACY, BITS = Value("final_accuracy", "Accuracy", "%", better=1, digits=1), Value("bits", "Bits", exact=True)
WHERE = "claim x"


def claim(*formulas: str, keys: Sequence[Key] = KEYS) -> Claim:
    found = tuple(one for formula in formulas for one in expand(formula, keys, WHERE))
    return Claim("x", "p/t", "", "Mine is good", "Table 1", formulas, found)


def pairs(formula: str, keys: Sequence[Key] = KEYS) -> list[tuple[str, str]]:
    """The cells that are compared, by row and column."""

    def named(side: Side) -> str:
        cells = ", ".join("/".join(filter(None, key)) for key in side.keys) or f"{side.number:g}"
        return f"{side.extreme}({cells})" if side.extreme else cells

    return [(named(one.left), named(one.right)) for one in expand(formula, keys, WHERE)]


def table(**numbers: Sequence[float] | str) -> Table:
    """One row for each name, one column ``none``; a text is a state in place of numbers."""
    made = Table("", "", ("",), tuple(numbers), (Column("none", ACCURACY),))
    for row, found in numbers.items():
        if isinstance(found, str):
            made.cells["", row, "none"] = Cell(state=found)
        else:
            by_seed = {str(seed): number for seed, number in enumerate(found)}
            mean = sum(found) / len(found)
            made.cells["", row, "none"] = Cell(mean, 0.5, len(found), numbers=by_seed)
    return made


def verdict(formula: str, **numbers: Sequence[float] | str) -> Verdict:
    made = table(**numbers)
    return judge(claim(formula, keys=[*made.cells]), made)


# --- which cells -----------------------------------------------------------------------------------------------------


def test_formulas_name_cells_by_labels_patterns_and_the_other_side() -> None:
    assert pairs("mine / none > krum / none") == [("mine/none", "krum/none")]
    assert pairs("mine / none > others / same") == [("mine/none", "krum/none"), ("mine/none", "mean/none")]
    assert pairs("mine / ipm * > mean / same") == [("mine/ipm 1", "mean/ipm 1"), ("mine/ipm 2", "mean/ipm 2")]
    assert pairs("* but mean / none >= same / ipm 1 | ipm 2") == [
        ("mine/none", "mine/ipm 1"), ("mine/none", "mine/ipm 2"),
        ("krum/none", "krum/ipm 1"), ("krum/none", "krum/ipm 2"),
    ]  # fmt: skip
    assert pairs("krum / none < 12.5") == [("krum/none", "12.5")]
    assert pairs("min(mine / ipm *) > max(others but mean / * but none)") == [
        ("min(mine/ipm 1, mine/ipm 2)", "max(krum/ipm 1, krum/ipm 2)")
    ]


def test_a_shift_belongs_to_the_right_side() -> None:
    (up,), (down,) = (expand(f"mine / none > mean / none {shift}", KEYS, WHERE) for shift in ("+ 2", "- 1.5"))
    assert (up.shift, down.shift, up.relation) == (2, -1.5, ">")


def test_blocks_are_claims_of_their_own_unless_a_formula_names_them() -> None:
    keys = [(block, row, "none") for block in ("a", "b") for row in ROWS]
    assert blocks(["mine / none > others / none"], keys) == ["a", "b"]
    assert blocks(["a / mine / none > b / same / none"], keys) == [""]
    assert pairs("a / mine / none > b / same / none", keys) == [("a/mine/none", "b/mine/none")]
    assert ("a/mine/none", "b/krum/none") not in pairs("mine / none > krum / none", keys)


def test_a_cell_that_the_table_lacks_is_compared_with_nothing() -> None:
    keys = [key for key in KEYS if key != ("", "mean", "ipm 1")]
    assert pairs("mine / ipm 1 > others / same", keys) == [("mine/ipm 1", "krum/ipm 1")]
    with pytest.raises(ConfigError, match="compares no two cells"):
        claim("mean / ipm 1 > mine / same", keys=keys)


@pytest.mark.parametrize(("formula", "message"), [
    ("mine / none", "a formula is such as"),
    ("mine / none == mean / none", "a formula is such as"),
    ("mine > mean / none", "row / column"),
    ("boba / none > 3", "no 'boba'; there are mine, krum, mean"),
    ("mine / none > mean / nnone", "no 'nnone'; there are none, ipm 1, ipm 2"),
    ("mine / x* > 3", "no 'x\\*'"),
    ("mine / none > others but boba / none", "no 'boba'"),
    ("others / none > 3", "'others' stands on the right of cells"),
    ("3 < same / none", "'same' stands on the right of cells"),
    ("__import__('os') / none > 3", "no \"__import__"),
])  # fmt: skip
def test_a_formula_that_cannot_be_read_says_why(formula: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        claim(formula)


# --- verdicts --------------------------------------------------------------------------------------------------------


def test_a_claim_holds_when_every_interval_says_so() -> None:
    """Differences 2.0, 2.1, 1.9 and 5.0, 5.2, 4.8."""
    found = verdict("mine / none > others / none", mine=(92, 93, 94), krum=(90, 90.9, 92.1), mean=(87, 87.8, 89.2))
    assert (found.word, found.true, found.seeds) == (HOLDS, 2, (3, 3))
    low, high = stats.t.interval(0.95, 2, loc=2, scale=stats.sem([2.0, 2.1, 1.9]))
    interval = found.findings[0].interval
    assert interval and (interval.low, interval.high) == pytest.approx((low, high))
    assert verdict("mine / none > others / none + 1.9", mine=(92, 93, 94), krum=(90, 90.9, 92.1)).word == FEW


def test_pairs_decide_where_samples_would_not() -> None:
    """The seeds differ by 10 points, the pairs by 1."""
    assert verdict("mine / none > krum / none", mine=(71, 81, 91.1), krum=(70, 80, 90)).word == HOLDS


def test_a_claim_does_not_hold_when_an_interval_says_the_opposite() -> None:
    assert verdict("mine / none > krum / none", mine=(90, 91, 92), krum=(92, 93.1, 93.9)).word == FAILS
    assert verdict("mine / none < krum / none", mine=(90, 91, 92), krum=(92, 93.1, 93.9)).word == HOLDS
    assert verdict("mine / none < 80", mine=(90, 91, 92)).word == FAILS


def test_refuting_intervals_are_widened_for_their_number() -> None:
    """Differences of -2.1, -1.8, -1.3, p = 0.018: enough for a claim of one comparison, not for one of four."""
    numbers = {"krum": (92.1, 92.8, 93.3), "a": (80.0, 81, 82), "b": (80.0, 81, 82), "c": (80.0, 81, 82)}
    mine = (90.0, 91, 92)
    p = stats.ttest_1samp([-2.1, -1.8, -1.3], 0).pvalue
    assert 0.05 / 4 < p < 0.05
    assert verdict("mine / none > krum / none", mine=mine, krum=numbers["krum"]).word == FAILS
    assert verdict("mine / none > others / none", mine=mine, **numbers).word == FEW


def test_one_seed_or_too_wide_an_interval_is_too_few() -> None:
    one = verdict("mine / none > krum / none", mine=(92,), krum=(50,))
    assert (one.word, one.as_claimed, one.findings[0].interval) == (FEW, True, None)
    wide = verdict("mine / none > krum / none", mine=(92, 60), krum=(90, 90))
    assert (wide.word, wide.as_claimed) == (FEW, False)
    other_seeds = table(mine=(92, 93), krum=(80, 81))
    other_seeds.cells["", "krum", "none"] = Cell(80.5, 0.7, 2, numbers={"7": 80.0, "8": 81.0})
    assert judge(claim("mine / none > krum / none", keys=[*other_seeds.cells]), other_seeds).word == FEW


def test_without_a_number_a_claim_is_not_tested() -> None:
    assert verdict("mine / none > krum / none", mine=(92, 93), krum="missing").word == UNTESTED
    half = verdict("mine / none > others / none", mine=(92, 93, 94), krum=(90, 91, 92.1), mean="missing")
    assert (half.word, len(half.findings), half.as_claimed) == (UNTESTED, 1, False)
    refuted = verdict("mine / none > others / none", mine=(50, 51, 52), krum=(90, 91, 92.1), mean="missing")
    assert refuted.word == FAILS
    partial = table(mine=(92, 93), krum=(80, 81))
    partial.cells["", "krum", "none"] = Cell(80.5, 0.7, 2, worst=True, partial=True)
    assert judge(claim("mine / none > krum / none", keys=[*partial.cells]), partial).word == UNTESTED


def test_a_diverged_model_is_worse_than_every_other() -> None:
    assert verdict("mine / none > krum / none", mine=(92,), krum="diverged").as_claimed
    assert not verdict("mine / none > krum / none", mine="diverged 1/2", krum=(10,)).as_claimed


def test_relations_that_allow_equality_do() -> None:
    for relation, expected in ((">=", True), ("<=", True), (">", False), ("<", False)):
        assert verdict(f"mine / none {relation} krum / none", mine=(0.3,), krum=(0.1 + 0.2,)).as_claimed is expected


def test_an_extreme_is_the_cell_that_attains_it() -> None:
    made = Table("", "", ("",), ("mine",), (Column("none", ACCURACY), Column("ipm", ACCURACY)))
    made.cells = {("", "mine", "none"): Cell(90, 1, 2, numbers={"0": 89, "1": 91}),
                  ("", "mine", "ipm"): Cell(50, 1, 2, numbers={"0": 49.95, "1": 50.05})}  # fmt: skip
    least = judge(claim("min(mine / *) < 52", keys=[*made.cells]), made)
    assert (least.word, least.findings[0].left.mean) == (HOLDS, 50)
    assert judge(claim("max(mine / *) < 52", keys=[*made.cells]), made).true == 0


def test_tests_of_an_extreme_are_widened_where_one_cell_of_it_decides() -> None:
    """Student's interval of two numbers that differ by 0.2 reaches to 1.3, at half the level to 2.5."""
    made = Table("", "", ("",), ("mine",), (Column("none", ACCURACY), Column("ipm", ACCURACY)))
    made.cells = {("", "mine", "none"): Cell(90, 1, 2, numbers={"0": 89.9, "1": 90.1}),
                  ("", "mine", "ipm"): Cell(50, 1, 2, numbers={"0": 49.9, "1": 50.1})}  # fmt: skip
    words = {formula: judge(claim(formula, keys=[*made.cells]), made).word
             for formula in ("mine / ipm < 52", "min(mine / *) < 52", "max(mine / *) < 92",
                             "max(mine / *) < 88", "min(mine / *) > 52")}  # fmt: skip
    assert words == {"mine / ipm < 52": HOLDS, "min(mine / *) < 52": FEW, "max(mine / *) < 92": HOLDS,
                     "max(mine / *) < 88": FEW, "min(mine / *) > 52": FEW}  # fmt: skip


@pytest.mark.parametrize(("formula", "word"), [
    ("min(mine / *) > 42", FEW),
    ("mine / none > 42", HOLDS),
    ("mine / ipm > 42", FEW),
    ("max(mine / *) < 58", FEW),
    ("min(mine / *) > 70", FAILS),
    ("min(mine / *) < 42", FEW),
])  # fmt: skip
def test_every_cell_of_an_extreme_is_tested_where_one_is_not_enough(formula: str, word: str) -> None:
    """The least on average is surely above 42; the other, whose seeds differ by 30 points, may be below."""
    made = Table("", "", ("",), ("mine",), (Column("none", ACCURACY), Column("ipm", ACCURACY)))
    made.cells = {("", "mine", "none"): Cell(50, 0.1, 3, numbers={"0": 49.9, "1": 50, "2": 50.1}),
                  ("", "mine", "ipm"): Cell(52, 15, 3, numbers={"0": 37.0, "1": 52, "2": 67})}  # fmt: skip
    assert judge(claim(formula, keys=[*made.cells]), made).word == word


def test_intervals_of_extremes_err_no_more_often_than_they_say() -> None:
    """Five seeds of two attacks, of which one that varies much is as harmful as the other rule's on average: the other
    one, which seems worse in a seventh of cases and varies little, proves nothing by itself."""
    draws = np.random.default_rng(0).normal(size=(400, 5))
    made = Table("", "", ("",), ("mine", "krum"), (Column("none", ACCURACY), Column("ipm", ACCURACY)))
    made.cells = {
        ("", "krum", label): Cell(50, 0, 5, numbers=dict.fromkeys("01234", 50.0)) for label in ("none", "ipm")
    }
    made.cells["", "mine", "none"] = Cell(55, 0, 5, numbers=dict.fromkeys("01234", 55.0))
    found = claim("min(mine / *) > min(krum / *)", keys=[*made.cells, ("", "mine", "ipm")])
    words = []
    for normal in draws.tolist():
        seen = [50 + 10 * number for number in normal]
        made.cells["", "mine", "ipm"] = Cell(sum(seen) / 5, 10, 5, numbers=dict(zip("01234", seen, strict=True)))
        words.append(judge(found, made).word)
    assert words.count(HOLDS) <= 0.05 * len(words)


def test_a_worst_case_is_the_attack_with_the_least_mean_where_some_models_diverged() -> None:
    attacks = (Column("ipm", ACCURACY, attacked=True), Column("lie", ACCURACY, attacked=True))
    made = Table("", "", ("",), ("mine",), attacks)
    some = {"0": 90.0, "1": 91.0, "2": math.nan}
    made.cells = {("", "mine", "ipm"): Cell(state="diverged 1/3", numbers=some),
                  ("", "mine", "lie"): Cell(10, 1, 3, numbers=dict.fromkeys("012", 10.0))}  # fmt: skip
    worst = Column("worst", ACCURACY, worst=True)
    made.add_worst(worst)
    assert made.cells["", "mine", "worst"].mean == 10
    assert made.cells["", "mine", "worst"].ended, "of both attacks is known what they do"
    made.cells["", "mine", "lie"] = Cell(80, 1, 3, numbers=dict.fromkeys("012", 80.0))
    made.add_worst(worst)
    assert made.cells["", "mine", "worst"].state == "diverged", "0 for the model that diverged: 60.3 on average"
    assert made.cells["", "mine", "worst"].ended and not made.cells["", "mine", "worst"].partial
    made.cells["", "mine", "lie"] = Cell(state="missing")
    made.add_worst(worst)
    assert not made.cells["", "mine", "worst"].ended, "the missing attack may be below 60.3"
    keys = [("", "mine", "worst")]
    made.columns += (worst,)
    assert judge(claim("mine / worst > 50", keys=keys), made).word == UNTESTED
    made.cells["", "mine", "ipm"] = Cell(state="diverged", numbers=dict.fromkeys("012", math.nan))
    made.add_worst(worst)
    assert made.cells["", "mine", "worst"].ended, "nothing is below 0"
    assert judge(claim("mine / worst > 50", keys=keys), made).word == FAILS


def test_what_follows_from_the_settings_needs_one_run() -> None:
    made = Table("", "", ("",), ("mine", "krum"), (Column("none", BITS),))
    made.cells = {("", row, "none"): Cell(bits, math.nan, 1, numbers={"0": bits})
                  for row, bits in (("mine", 4.0), ("krum", 8.0))}  # fmt: skip
    for formula, word in (("mine / none < krum / none - 3", HOLDS), ("mine / none < krum / none - 4", FAILS),
                          ("mine / none < 5", HOLDS)):  # fmt: skip
        assert judge(claim(formula, keys=[*made.cells]), made).word == word


def test_the_papers_own_numbers_are_judged_too() -> None:
    made = table(mine=(92,), krum=(93,))
    for row, printed in (("mine", 90.0), ("krum", 80.0)):
        cell = made.cells["", row, "none"]
        made.cells["", row, "none"] = Cell(cell.mean, cell.sd, 1, against=Against(str(printed), printed, printed, 2))
    found = judge(claim("mine / none > krum / none", keys=[*made.cells]), made)
    assert ([one.true for one in found.findings], [one.true for one in found.published]) == ([False], [True])


def test_a_diverged_model_counts_as_the_worst_that_there_can_be() -> None:
    """So that it has an interval, and several of its seeds decide: an accuracy of 0."""
    made = table(mine=(92.0, 93, 91), krum="diverged 1/3")
    made.cells["", "krum", "none"] = replace(made.cells["", "krum", "none"], numbers={"0": math.nan, "1": 10, "2": 20})
    found = judge(claim("mine / none > krum / none", keys=[*made.cells]), made)
    assert (found.word, found.findings[0].right.mean, found.findings[0].looks) == (HOLDS, 10, ((92, 83, 71),))
    error = Value("test_error", "Test error", "fraction", better=-1)
    assert (ACCURACY.worst, error.worst, Value("distance", "d", better=-1).worst) == (0, 1, math.inf)


# --- looks -----------------------------------------------------------------------------------------------------------


def test_between_looks_the_seeds_of_the_last_look_count() -> None:
    numbers = {"mine": (92.0, 93, 94, 0), "krum": (90.0, 91.1, 91.9, 99)}
    made = table(**numbers)
    found = judge(claim("mine / none > krum / none", keys=[*made.cells]), made, looks=(3, 5))
    (finding,) = found.findings
    assert finding.level == level_at_each((3, 5)) > 0.95
    assert finding.looks == (pytest.approx((2, 1.9, 2.1)),) and found.word == HOLDS
    assert not finding.true, "the means are those of all seeds"
    early = judge(claim("mine / none > krum / none", keys=[*made.cells]), made.of_first(2), looks=(3, 5))
    assert (early.word, early.findings[0].looks) == (FEW, ())


def test_intervals_of_few_seeds_keep_nearly_the_level_over_all_looks() -> None:
    """Of normal numbers whose mean is 0, at looks at 3 and 5: 2.7% are false alarms on either side."""
    draws, level = np.random.default_rng(0).normal(size=(100_000, 5)), level_at_each((3, 5))
    above = np.zeros(len(draws), dtype=bool)
    for look in (3, 5):
        t = stats.ttest_1samp(draws[:, :look], 0, axis=1).statistic
        above |= t > stats.t.ppf((1 + level) / 2, look - 1)
    assert above.mean() == pytest.approx(0.027, abs=0.002)


def test_what_a_look_has_shown_stays_shown() -> None:
    made = table(mine=(92.0, 93, 94, 50, 95), krum=(90.0, 91.1, 91.9, 90, 90))
    word = {looks: judge(claim("mine / none > krum / none", keys=[*made.cells]), made, looks).word
            for looks in ((3, 5), (5,))}  # fmt: skip
    assert word == {(3, 5): HOLDS, (5,): FEW}


def test_the_worst_case_of_a_look_is_that_of_its_seeds() -> None:
    columns = (Column("a", ACCURACY, attacked=True), Column("b", ACCURACY, attacked=True),
               Column("worst", ACCURACY, worst=True))  # fmt: skip
    made = Table("", "", ("",), ("mine",), columns)
    made.cells = {("", "mine", label): Cell(sum(seen) / 3, 1, 3, numbers=dict(zip("012", seen, strict=True)))
                  for label, seen in (("a", (10.0, 10, 40)), ("b", (20.0, 20, 20)))}  # fmt: skip
    made.add_worst(columns[2])
    worst = {seeds: made.of_first(seeds).cells["", "mine", "worst"].mean for seeds in (2, 3)}
    assert worst == {2: 10, 3: 20} and made.of_first(4).cells["", "mine", "worst"].state == "-"
    made.cells["", "mine", "a"] = replace(made.cells["", "mine", "a"], stand_in="other rounds")
    assert made.of_first(2).cells["", "mine", "worst"].mean == 20, "a stand-in is no number of the table's own"


def test_a_number_may_stand_on_the_left() -> None:
    made = table(krum=(20,))
    found = judge(claim("50 < krum / none", keys=[*made.cells]), made)
    (against,) = claim_sheets.against(MeasuredPaper("p", "P", {"p/t": made}, [found]))
    assert [[cell.text for cell in row[1:4]] for row in against.rows] == [["t", "", "50.0"]] and [
        cell.text for cell in against.rows[0][4:]
    ] == ["krum / none", "20.0"]


# --- the papers' claims, and the pages -------------------------------------------------------------------------------

FIVE = ("boba", "raga", "brace", "arfl", "brifca")


def test_the_five_papers_have_claims_about_all_their_printed_tables() -> None:
    for name in FIVE:
        paper = papers.papers()[name]
        assert len({one.name for one in paper.claims}) >= 5
        assert {one.table for one in paper.claims} == set(paper.tables)
        assert all(one.words and one.place and one.comparisons for one in paper.claims)


def test_a_claim_needs_its_keys_and_a_table(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    head = "tables:\n  one: {base: +setting=boba/mnist, rows: [krum, boba], columns: [ipm]}\nclaims:\n  good:\n"
    for body, message in [
        ("    {claim: c, place: p, table: one}", "claim good needs holds"),
        ("    {claim: c, place: p, table: two, holds: boba / ipm > 1}", "no table 'two'; there are mine/one"),
        ("    {claim: c, place: p, table: one, holds: boba / lie > 1}", "no 'lie'"),
        ("    {claim: c, place: p, table: one, holds: boba / ipm > 1, extra: 1}", "has no key 'extra'"),
        ("    {claim: c, place: p, table: one, holds: 5}", "table and holds are words"),
        ("    {claim: c, place: p, table: 7, holds: boba / ipm > 1}", "table and holds are words"),
        ("    5", "must hold `key: value` lines"),
    ]:
        mine.write_text(head + body)
        with pytest.raises(ConfigError, match=message):
            papers.read(mine)
    mine.write_text("claims: 3")
    with pytest.raises(ConfigError, match="claims must hold"):
        papers.read(mine)
    mine.write_text(head + "    {claim: c, place: p, table: one, holds: boba / ipm > krum / ipm}")
    assert [one.table for one in papers.read(mine).claims] == ["mine/one"]


def test_the_committed_overviews_are_what_the_kept_runs_say() -> None:
    files, front = script.filled(), script.FRONT
    assert {*files} == {front, script.README, *map(script.home, papers.papers())}
    for path, text in files.items():
        assert path.read_text(encoding="utf-8") == text, f"{path} is out of date: run `make agreement`"


def test_the_pages_of_papers_and_descriptions_have_every_table_and_claim() -> None:
    pages = {name: maker() for name, maker in script.pages().items()}
    described = {path.with_suffix(".md"): papers.read(path) for path in script.RESULTS.glob("*/*.yaml")}
    assert script.RESULTS / "fedbuff" / "attacked.md" in described
    whole = {f"results/{name}/agreement.md": paper for name, paper in papers.papers().items()}
    whole |= {path.relative_to(script.RESULTS.parent).as_posix(): paper for path, paper in described.items()}
    for name, paper in whole.items():
        page = pages[name].replace("\\", "")
        rows = page.split("| seeds |\n")[1].split("\n\n")[0].splitlines()[1:]
        assert len(rows) == len(paper.tables), name
        assert [claim.words for claim in paper.claims if claim.words not in page] == [], name
    numbers = {*pages} - {*whole}
    assert len(numbers) >= 6 and all("- agreement: " in pages[name] for name in numbers), "tables with printed numbers"


def test_the_overview_in_the_readme_is_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # where no results/ are
    assert main(["agreement", "--format", "markdown"]) == 0
    printed = capsys.readouterr().out
    assert printed in script.README.read_text(encoding="utf-8")
    assert all(f"| {readable(name)} |" in printed for name in papers.papers())


def test_a_page_says_what_is_measured_and_what_is_claimed() -> None:
    runs = script.evidence()
    tables, claims, _, deciding, outside, columns = scorecard.pages_of(runs, "brace")
    lines = {sheet.above[0]: [[cell.text for cell in row] for row in sheet.rows] for sheet in (tables, claims, columns)}
    (score,) = scored({"brace": papers.papers()["brace"]}, runs)
    inside = [cell.inside for cell in score.tables["brace/table2a"].cells.values() if cell.inside is not None]
    (counts,) = (row for row in lines["BRACE: tables, measured and published"] if row[0] == "table2a")
    total, parts = counts[3].removesuffix(")").split(" (")
    assert int(total) == sum(inside) == sum(map(int, parts.split(" + ")))  # in two points, in the spread, diverged
    assert counts[:3] == ["table2a", "70", str(len(inside))] and counts[4:] == ["-", "-", "1 to 5 of 1"]
    still_open = {(row[0].text, row[1].text) for row in deciding.rows}
    assert ("cost", "table1") not in still_open and ("least_error", "table2a") in still_open
    assert ["cost", "table1", HOLDS, "5 of 5", "5 of 5", "1"] in lines["BRACE: claims"]
    (flipped,) = (row for row in lines["BRACE: column by column"] if row[:2] == ["table2a", "label_flip"])
    assert flipped[2] == "7" and 5 <= int(flipped[3].split(" ")[0]) <= 7 and 0.5 < float(flipped[4]) < 1
    largest = [row for row in outside.rows if row[0].text == "table2a"]
    assert (largest[0][1].text, largest[0][4].text) == ("brace / backdoor success", "+0.43")
    assert len(largest) == len(inside) - sum(inside)
    assert not [row for row in outside.rows if row[0].text == "table1"]  # which agrees in every decimal
    for form in sheets.FORMATS.values():
        assert "least worst error" in form([claims]).replace("\\", "").replace("_", " ")
    alone = scorecard.pages_of(records.nothing(), "brifca")
    assert {row[2].text for row in alone[1].rows} == {UNTESTED} and len(alone) == 3, "and what would decide them"


def test_tables_without_printed_numbers_stand_on_the_page() -> None:
    _, judged, _, _, *tables = scorecard.pages_of(script.evidence(), "brifca")
    assert {row[1].text for row in judged.rows} == {name.partition("/")[2] for name in papers.papers()["brifca"].tables}
    assert len(tables) == 6 and not any(sheet.todos for sheet in tables)
    fair, published = ({row[0].text: row[-1].text for row in sheet.rows} for sheet in tables[:2])
    assert float(fair["Three-Stage"][:5]) < 0.4 < 1 < float(published["Three-Stage"][:5])


@pytest.mark.parametrize(("words", "message"), [
    (["agreement", "boab"], "boba"),
    (["agreement", "none.yaml"], "no file none.yaml"),
])  # fmt: skip
def test_an_unknown_paper_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
