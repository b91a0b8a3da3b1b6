"""Why cells lie outside: the papers' reasons are about cells that do, and stand where they say."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.lab.agreement import scorecard
from robustfl_bench.read.tables import described, sheets
from robustfl_bench.read.tables.claims import EXPLAINED, OPEN, UNEXPLAINED, Key, Reason
from scripts.generators import agreement

RESULTS = Path(__file__).parents[1] / "results"


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def wrong_reasons(reasons: Sequence[Reason], outside: Mapping[str, Sequence[Key]]) -> Iterator[str]:
    """What is wrong with reasons, one line each: a cell that is not outside (any more), or that has two of them.

    ``outside`` are the cells of each table that lie outside.
    """
    seen: dict[tuple[str, Key], str] = {}
    for reason in reasons:
        for key in reason.keys:
            cell = f"{reason.table}: {' / '.join(filter(None, key))}"
            if key not in outside.get(reason.table, ()):
                yield f"{reason.name}: {cell} is not outside"
            if other := seen.get((reason.table, key)):
                yield f"{reason.name}: {cell} has the reason {other} as well"
            seen[reason.table, key] = reason.name


def test_every_reason_is_about_cells_that_are_outside_now() -> None:
    """A reason for a cell that has come inside must go."""
    known = [name for name, paper in described.papers().items() if paper.reasons]
    assert {"boba", "raga"} <= {*known}
    for paper in map(agreement.measured, known):
        outside: dict[str, list[tuple[str, str, str]]] = {}
        for table, key, _, _ in paper.outside:
            outside.setdefault(table, []).append(key)
        assert [*wrong_reasons(paper.reasons, outside)] == []
        for reason in paper.reasons:
            page, _, anchor = reason.page.partition("#")
            assert anchor in anchors(RESULTS / paper.name / page), f"{reason.name}: no {reason.page}"
        (sheet,) = scorecard.outside(paper)
        states = [row[-1].text for row in sheet.rows]
        assert {*states} <= {EXPLAINED, OPEN, UNEXPLAINED} and len(states) == sum(map(len, outside.values()))
        assert f"]({paper.reasons[0].page})" in sheets.markdown([sheet]), "its page is a link"


def test_a_reason_for_a_cell_that_is_inside_is_an_error() -> None:
    cell, other = ("", "krum", "ipm"), ("", "krum", "lie")
    reasons = [Reason(name, "boba/t", (cell,), OPEN, "w", "../p.md#x") for name in ("first", "second")]
    assert [*wrong_reasons(reasons[:1], {"boba/t": [cell]})] == []
    assert [*wrong_reasons(reasons[:1], {"boba/t": [other]})] == ["first: boba/t: krum / ipm is not outside"]
    assert [*wrong_reasons(reasons, {"boba/t": [cell]})] == ["second: boba/t: krum / ipm has the reason first as well"]


@pytest.mark.parametrize(("entry", "message"), [
    ("{table: one, cells: krum / ipm, state: guess, reason: r, page: ../p.md}", "state must be one of explained, open"),
    ("{table: one, cells: krum / lie, state: open, reason: r, page: ../p.md}", "no 'lie'; there are ipm"),
    ("{table: two, cells: krum / ipm, state: open, reason: r, page: ../p.md}", "no table 'two'"),
    ("{table: one, cells: krum / ipm, state: open, reason: r}", "outlier far needs page"),
])  # fmt: skip
def test_a_reason_that_cannot_be_read_says_why(tmp_path: Path, entry: str, message: str) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "tables:\n  one: {base: +setting=boba/mnist, rows: [krum, boba], columns: [ipm]}\n"
        f"outliers:\n  far: {entry}\n"
    )
    with pytest.raises(ConfigError, match=message):
        described.read(mine)
