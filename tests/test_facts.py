"""The sentences of pages have the numbers that the kept runs give; `make facts` prints those that do not."""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

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


def test_a_module_names_its_page_and_every_page_is_there() -> None:
    """Several modules, one a study, may be about one page."""
    modules = [import_module(f"{facts.__name__}.{found.name}") for found in iter_modules(facts.__path__)]
    pages = {module: getattr(module, "PAGE", None) for module in modules if hasattr(module, "FACTS")}
    assert len(pages) > 20 and [str(module) for module, page in pages.items()
                                if not module.FACTS or f"facts of {page}" not in str(module.__doc__)] == []  # fmt: skip
    assert [page for page in pages.values() if not (facts.fact.ROOT / str(page)).is_file()] == []
