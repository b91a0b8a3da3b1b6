"""Answers of reading verbs that are given again: the same words, and never where anything has changed."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from robustfl_bench.base import remembered
from robustfl_bench.commands import answered, entry

Ask = Callable[..., tuple[str, bool]]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands for the package and its kept runs, written long ago."""
    for name in ("package/reader.py", "results/paper/runs.csv", "results/runs/mine/metrics.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        edit(tmp_path / name)
    monkeypatch.setattr(answered, "_FOLDERS", (tmp_path / "package", tmp_path / "results"))
    monkeypatch.setenv(remembered.VARIABLE, str(tmp_path / "cache"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path


def edit(path: Path, age: float = 60) -> None:
    """Write another content than ever, some seconds before this process began."""
    path.write_text(f"{path} {age}")
    os.utime(path, (remembered.STARTED - age, remembered.STARTED - age))


@pytest.fixture
def ask(tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Call ``robustfl-results`` with words: its output, and whether the verb was asked for it."""

    def call(*words: str, code: int = 0, error: str = "") -> tuple[str, bool]:
        asked = list[bool]()

        def main() -> int:
            asked.append(True)
            print("one \xb1 line\n", end="")
            print("another", end="")
            sys.stderr.write(error)
            return code

        monkeypatch.setattr(entry, "_imported", lambda _: SimpleNamespace(main=main))
        monkeypatch.setattr(sys, "argv", ["robustfl-results", *words])
        with pytest.raises(SystemExit) as end:
            entry.results()
        assert (end.value.code or 0) == code
        return capsys.readouterr().out, bool(asked)

    return call


SAID = "one \xb1 line\nanother"


def test_the_same_words_are_answered_again(ask: Ask, tree: Path) -> None:
    assert ask("list", "--format", "json") == (SAID, True)
    assert ask("list", "--format", "json") == (SAID, False)
    assert ask("list", "--format=json") == (SAID, True), "they are other words"
    edit(tree / "results" / "runs" / "mine" / "metrics.csv", 30)
    assert ask("list", "--format", "json") == (SAID, False), "runs of the user elsewhere"


@pytest.mark.parametrize(
    "words",
    [("table", "boba"), ("list", "--from", "runs.csv"), ("agreement", "scale=quick"), ("arena", "--plot", "a.png"),
     ("list", "--results-dir=results"), ("arena", "--allow", "mine"), ("list", "mine:Rule"), ("list", "-h"), ()],
)  # fmt: skip
def test_words_that_may_read_or_write_something_else_are_not(ask: Ask, words: tuple[str, ...]) -> None:
    assert ask(*words) == ask(*words) == (SAID, True)


def test_files_and_runs_of_the_user_are_read_each_time(ask: Ask) -> None:
    ask("agreement", "mine")
    Path("mine").write_text("a paper")
    assert ask("agreement", "mine") == (SAID, True)
    ask("list")
    Path("results/runs").mkdir(parents=True)
    assert ask("list") == (SAID, True)


@pytest.mark.parametrize("outcome", [{"code": 1}, {"error": "a warning"}])
def test_only_an_answer_without_warnings_is_remembered(ask: Ask, outcome: dict[str, object]) -> None:
    assert ask("list", **outcome) == ask("list", **outcome) == (SAID, True)


@pytest.mark.parametrize("name", ["package/reader.py", "results/paper/runs.csv", "results/paper/new.csv"])
def test_an_edit_ends_an_answer(ask: Ask, tree: Path, name: str) -> None:
    ask("list")
    edit(tree / name, 50)
    assert ask("list") == (SAID, True)
    assert ask("list") == (SAID, False)


def test_what_is_written_while_a_process_runs_is_not_remembered(ask: Ask, tree: Path) -> None:
    edit(tree / "package" / "reader.py", -1)
    assert ask("list") == ask("list") == (SAID, True), "its code may be that of before"


def test_an_answer_is_that_of_a_language_and_of_versions(ask: Ask, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask("list")
    monkeypatch.setenv("LC_ALL", "tlh")
    assert ask("list") == (SAID, True)
    (tree / "site" / "numpy-3.0.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(tree / "site")
    assert ask("list") == (SAID, True)
    assert ask("list") == (SAID, False)
