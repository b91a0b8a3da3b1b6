"""The sentences of pages have the numbers that the kept runs give; `make facts` prints those that do not."""

from pathlib import Path

import pytest

from scripts.checks import facts
from scripts.checks.facts.fact import Fact


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_sentences_have_the_numbers_of_the_kept_runs(slow: bool) -> None:
    chosen = [(page, fact) for page, fact in facts.facts() if fact.slow == slow]
    assert len(chosen) > (1 if slow else 5)
    assert [problem for page, fact in chosen if (problem := fact.problem(page))] == []


def test_another_number_and_another_sentence_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.md").write_text("Of all rules 7 of\n12 end at 3.10%, the 8th.")
    monkeypatch.setattr(facts.fact, "ROOT", tmp_path)
    right = Fact("{} of {} end at {:.2f}%, the {}.", lambda: (7, 12, 3.1, "8th"))
    wrong = Fact("{} of {} end at {:.2f}%, the {}.", lambda: (7, 12, 3.2, "9th"))
    gone = Fact("{} of {} begin", lambda: (7, 12))
    assert [fact.problem("page.md") for fact in (right, wrong, gone)] == [
        None,
        "page.md: '7 of 12 end at 3.10%, the 8th.'; the runs give '7 of 12 end at 3.20%, the 9th.'",
        "page.md: no such sentence: {} of {} begin",
    ]
    text = (tmp_path / "page.md").read_text()
    assert [fact.mended(text) == text for fact in (right, gone)] == [True, True]
    assert wrong.mended(text) == "Of all rules 7 of\n12 end at 3.20%, the 9th."


def test_a_page_has_one_module() -> None:
    pages = [page for page, _ in facts.facts()]
    assert len({*pages}) == sum(page != before for page, before in zip(pages, ["", *pages], strict=False))
