"""Something else than a file in its place: every verb that takes a path says so in one line, and at once."""

import argparse
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from robustfl_bench.base import regular
from robustfl_bench.commands import results, verb
from tests.conftest import Bench, run_cli
from tests.test_results import make_run

SECONDS = 60
READ = {  # the words that name a path, by verb and argument; PATH has the ending that the argument needs
    ("table", "name"): "table PATH.yaml",
    ("agreement", "paper"): "agreement PATH.yaml",
    ("arena", "entries"): "arena silos --entries PATH",
    ("diff", "first"): "diff PATH RUN",
    ("diff", "second"): "diff RUN PATH",
    ("arena", "labels"): "arena digits --plot a.png --labels PATH.yaml",
    ("export", "summary"): "export --results-dir results --summary PATH.csv",
    **{(name, "archives"): f"{words} --from PATH.csv" for name, words in {
        "list": "list", "table": "table", "agreement": "agreement boba", "arena": "arena", "recommend":
        "recommend --partition iid --attackers 5 --track digits", "tune": "tune --over lr", "plot":
        "plot accuracy --output a.png", "figure": "figure", "report": "report", "export": "export --summary a.csv",
        "publish": "publish published --url https://example.org",
    }.items()},
    **{(name, "labels"): f"{words} --results-dir results --labels PATH.yaml" for name, words in {
        "table": "table --format html", "plot": "plot accuracy --output a.png", "report": "report",
        "figure": "figure boba/fig12 --output a.png",
    }.items()},
}  # fmt: skip
FOLDERS = {(name, "results_dir") for name in ("status", *(name for name, argument in READ if argument == "archives"))}
"""The arguments that name a folder with ``runs/`` in it: without one there are no runs."""
WRITTEN = {
    ("arena", "heat"), ("arena", "best"), ("arena", "plot"), ("plot", "output"), ("figure", "output"),
    ("report", "output"), ("export", "output"), ("publish", "folder"),
}  # fmt: skip
"""The arguments that name a file to write, in the place of any other."""


def _hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "hole": _hole,
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run folder below the current folder; a command that hangs ends the test."""
    monkeypatch.chdir(tmp_path)
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("a command hangs"))
    signal.alarm(SECONDS)
    yield make_run(tmp_path / "results")
    signal.alarm(0)


def _paths(parser: argparse.ArgumentParser) -> set[str]:
    """The arguments that name a file or a folder."""
    return {
        action.dest for action in parser._actions
        if str(action.metavar).startswith(("FILE", "DIR", "FOLDER", "RUN")) or action.dest in ("labels", "paper")
        or action.metavar == "PAPER/TABLE"
    }  # fmt: skip


def test_every_path_of_a_verb_is_known() -> None:
    parser = verb.parser_of("robustfl-results", "", results.VERBS)
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    taken = {(name, argument) for name, of_verb in verbs.choices.items() for argument in _paths(of_verb)}
    assert taken == {*READ, *FOLDERS, *WRITTEN}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", READ.values())
def test_what_is_no_file_is_refused(run: Path, capsys: pytest.CaptureFixture[str], words: str, kind: str) -> None:
    name = "k" + ".".join(words.partition("PATH")[2].split(" ")[0].split(".")[:2])
    KINDS[kind](Path(name))
    asked = [word.replace("PATH", "k").replace("RUN", str(run)) for word in words.split()]
    code, out, errors = run_cli(capsys, *asked)
    assert code in (2, 3) and not out and len(errors.splitlines()) == 1 and name in errors, (code, out, errors)
    assert "root:" not in errors and ("remove it" not in errors), "an advice for files of runs alone"
    assert kind != "folder" or "Errno" not in errors, errors


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", ["rerun=PATH", "reference=PATH", "remake PATH.csv --dry-run", "--config-dir PATH"])
def test_what_is_no_file_is_not_run(run: Path, bench: Bench, words: str, kind: str) -> None:
    name = "k.csv" if ".csv" in words else "k"
    KINDS[kind](Path(name))
    if words.startswith("--config-dir") and kind == "folder":
        (Path(name) / "aggregator").mkdir()
        os.mkfifo(Path(name) / "aggregator" / "mine.yaml")
        words += " aggregator=mine"
    outcome = bench(*(word.replace("PATH", "k") for word in words.split()))
    assert outcome.code in (2, 3) and len(outcome.err.splitlines()) == 1 and name in outcome.err, outcome


@pytest.mark.parametrize("name", ["runs.csv", "k.csv"])
def test_an_entry_of_a_stranger_holds_files(run: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    for kind, make in KINDS.items():
        (Path(kind) / "evil").mkdir(parents=True)
        make(Path(kind) / "evil" / name)
        code, _, errors = run_cli(capsys, "arena", "silos", "--entries", kind)
        assert code in (2, 3) and len(errors.splitlines()) == 1, (code, errors)


def test_a_config_of_many_brackets_crashes_no_parser(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("a: " + 200_000 * "[", "a:\n" + 200_000 * "- "):
        (run / "config.yaml").write_text(text)
        code, _, errors = run_cli(capsys, "diff", run, run)
        assert code == 2 and "has too many lists" in errors


def test_a_config_of_many_values_or_levels_is_damaged(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    config = (run / "config.yaml").read_text()
    levels = "".join("\n" + " " * level + "a:" for level in range(1, 1500))
    (run / "summary.json").unlink()
    for value in (f" {{{', '.join(lines)}}}", levels):
        (run / "config.yaml").write_text(config.replace("batch_size: null", f"batch_size:{value}"))
        code, _, errors = run_cli(capsys, "diff", run, run)
        assert code == 2 and "it stands for more than 10000 values" in errors
        code, out, errors = run_cli(capsys, "status", "--results-dir", run.parent.parent)
        assert not code and "it stands for more than 10000 values" in out


def test_a_regular_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("four")
    (tmp_path / "link").symlink_to("file")
    assert (
        regular.read_text(tmp_path / "file", largest=4) == regular.read_text(tmp_path / "link", follow=True) == "four"
    )
    with pytest.raises(regular.Damaged, match="file has 4 bytes; at most 3 are read"):
        regular.read_bytes(tmp_path / "file", largest=3)
    with pytest.raises(regular.NotRegular, match="link is a link, which is not followed"):
        regular.read_bytes(tmp_path / "link")


def test_a_folder_in_the_place_of_a_file_is_called_one_and_closed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, code in (("table --from", 3), ("recommend --partition iid --attackers 5 --from", 3), ("table", 2)):
        place = (tmp_path / words.split()[0]).with_suffix(".yaml")
        place.mkdir(exist_ok=True)
        before = len(os.listdir("/dev/fd"))
        assert run_cli(capsys, *words.split(), place)[::2] == (
            code, f"robustfl-results: cannot read {place}: it is a folder\n"
        )  # fmt: skip
        assert len(os.listdir("/dev/fd")) == before
