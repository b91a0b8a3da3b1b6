"""The sentences of pages have the numbers that the kept runs give; `make facts` prints those that do not."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("facts", ROOT / "scripts" / "checks" / "facts.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["facts"] = module  # where its dataclass looks for its annotations
    spec.loader.exec_module(module)
    return module


FACTS = script()


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_sentences_have_the_numbers_of_the_kept_runs(slow: bool) -> None:
    chosen = [fact for fact in FACTS.FACTS if fact.slow == slow]
    assert len(chosen) > (1 if slow else 5)
    assert list(FACTS.problems(chosen)) == []


def test_another_number_and_another_sentence_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.md").write_text("Of all rules 7 of\n12 end at 3.10%, the 8th.")
    monkeypatch.setattr(FACTS, "ROOT", tmp_path)
    right = FACTS.Fact("page.md", "{} of {} end at {:.2f}%, the {}.", lambda: (7, 12, 3.1, "8th"))
    wrong = FACTS.Fact("page.md", "{} of {} end at {:.2f}%, the {}.", lambda: (7, 12, 3.2, "9th"))
    gone = FACTS.Fact("page.md", "{} of {} begin", lambda: (7, 12))
    assert list(FACTS.problems([right, wrong, gone])) == [
        "page.md: '7 of 12 end at 3.10%, the 8th.'; the runs give '7 of 12 end at 3.20%, the 9th.'",
        "page.md: no such sentence: {} of {} begin",
    ]
