"""The way into the four commands: versions, verbs and the reader that leaves."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

import robustfl_bench
from robustfl_bench.base.errors import BUSY, BrokenContract, ConfigError, DataError, NotReady, exit_code
from robustfl_bench.commands import data, entry, results
from robustfl_bench.commands.verb import name_of
from robustfl_bench.read.runs.records import NoRuns
from robustfl_bench.runner.store.writing import CannotWrite
from robustfl_bench.runner.sweeps.cells import Incomplete
from tests.conftest import Bench

PROGRAMS = {
    "robustfl-bench": entry.bench,
    "robustfl-results": entry.results,
    "robustfl-data": entry.data,
    "robustfl-ring": entry.ring,
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_command_prints_its_version(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "--version"])
    with pytest.raises(SystemExit) as stop:
        PROGRAMS[program]()
    assert not stop.value.code
    assert capsys.readouterr().out == f"{program} {robustfl_bench.__version__}\n"


def test_without_an_output_a_command_says_nothing() -> None:
    call = f"{sys.executable} -m robustfl_bench --version >&-"
    done = subprocess.run(["sh", "-c", call], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_sign_that_the_encoding_lacks_is_escaped() -> None:
    code = (
        "from unittest.mock import Mock, patch; from robustfl_bench.commands import entry\n"
        "with patch.object(entry, 'import_module', lambda _: Mock(main=lambda: print('\\xb1'))): entry.data()"
    )
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=ascii_only)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\\xb1\n", "")


HELPS = [
    *(("robustfl-bench", verb) for verb in (*entry.VERBS, *entry.LABORATORY)),
    *(("robustfl-results", name_of(verb)) for verb in results.VERBS),
    *(("robustfl-data", name_of(verb)) for verb in data.VERBS),
    *((program, "") for program in PROGRAMS),
]


@pytest.mark.parametrize(("program", "verb"), HELPS, ids=" ".join)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_every_verb_of_every_command_has_help(
    program: str, verb: str, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [program, *filter(None, [verb]), option])
    with pytest.raises(SystemExit) as stop:
        PROGRAMS[program]()
    printed = capsys.readouterr()
    assert (stop.value.code or 0, printed.err) == (0, "")
    assert "--help" in printed.out and "SUPPRESS" not in printed.out
    assert verb == "" or f"usage: {program} {verb}" in printed.out


def test_help_shows_the_default_of_a_word(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        results.main(["arena", "image", "--help"])
    assert "the track of the arena (silos)" in capsys.readouterr().out


def test_an_interruption_while_words_are_read_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: argparse.ArgumentParser) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(argparse.ArgumentParser, "format_usage", interrupted)
    with pytest.raises(KeyboardInterrupt):
        results.main(["table", "boba/table2_mnist"])


def test_a_version_waits_for_no_import() -> None:
    code = (
        "import atexit, sys; from robustfl_bench.commands.entry import bench; sys.argv = ['', '--version'];"
        "atexit.register(lambda: print(sorted({'torch', 'hydra', 'yaml', 'pandas', 'numpy'} & set(sys.modules))));"
        "bench()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"robustfl-bench {robustfl_bench.__version__}", "[]"]


def test_the_help_names_every_verb_and_group(bench: Bench) -> None:
    first, _, groups = bench("--help").out.partition("\n==")
    _, *head = first.splitlines()
    assert {line.split()[0] for line in head} == {*entry.VERBS, *entry.LABORATORY, "--version"}
    assert "aggregator: " in groups


def test_a_reader_that_leaves_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "robustfl_bench", "--list"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
@pytest.mark.parametrize("words", [["--list", "aggregator"], ["rounds=0"], ["--version"], ["dry_run=true"]])
def test_output_that_cannot_be_written_is_one_line(words: list[str], tmp_path: Path) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "robustfl_bench", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    refused = words == ["rounds=0"]  # which comes first, and says nothing on stdout
    assert done.returncode == (2 if refused else 1)
    assert done.stderr.startswith("error: rounds must be" if refused else "robustfl-bench: output: No space left")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("lr"), 2),
        (NotReady("rates"), 2),
        (DataError("mnist"), 3),
        (NoRuns("runs"), 3),
        (Incomplete("sweep", BUSY), 75),
        (Incomplete("sweep"), 1),
        (CannotWrite("full"), 1),
        (BrokenContract("krum"), 1),
        (ZeroDivisionError(), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_error_has_one_exit_code(error: Exception, code: int) -> None:
    assert exit_code(error) == code
