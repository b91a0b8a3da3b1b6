"""A results folder from a stranger: commands end in time, in a line or two, execute nothing of it, and leave the user's
files alone."""

import gzip
import hashlib
import json
import os
import pickle
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from robustfl_bench.commands import results as results_cli
from robustfl_bench.read.runs import records
from robustfl_bench.runner.experiment.outside_code import content_of
from robustfl_bench.runner.store import folders, kept, sealed
from tests.conftest import Bench, contents, run_folders
from tests.processes import start

SMALL = ("rounds=3", "num_clients=5", "model.hidden=[4]", "attack=none", "checkpoint_seconds=0")
FILES = (
    "config.yaml", "metrics.csv", "timings.csv", "weights.csv", "summary.json", "checkpoint.pt", "error.txt", ".claim",
    ".deaths",
)  # fmt: skip
READERS = (
    ["status"],
    ["list"],
    ["table"],
    ["export", "--summary", "out.csv"],
    ["plot", "accuracy", "--output", "a.png"],
)
SECONDS = 60


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results folder of a finished run."""
    folder = tmp_path_factory.mktemp("finished")
    _, errors = start(folder, *SMALL).communicate()
    assert not errors
    return folder / "results"


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Path]:
    """A file of the user, which a link in the stranger's folder points to; a command that hangs ends the test."""
    path = tmp_path / "mine.txt"
    path.write_text("precious")
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("a command hangs"))
    signal.alarm(SECONDS)
    yield path
    signal.alarm(0)
    assert path.read_text() == "precious"


def _edited(path: Path) -> None:
    """Another digit, at the same length."""
    content = bytearray(path.read_bytes() if path.exists() else b"round 1")
    at = max(index for index, byte in enumerate(content) if chr(byte).isdigit())
    content[at] = ord("8") if content[at] != ord("8") else ord("7")
    path.write_bytes(content)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole, which takes no space


def _binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 9)


KINDS: dict[str, Callable[[Path], None]] = {
    "link": lambda path: path.symlink_to(path.parents[3] / "mine.txt"),
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "huge": _huge,
    "binary": _binary,
}


@pytest.mark.parametrize("kind", [*KINDS, "edited"])
@pytest.mark.parametrize("name", FILES)
def test_anything_in_the_place_of_a_file(
    bench: Bench, finished: Path, mine: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, kind: str
) -> None:
    shutil.copytree(finished, tmp_path / "results")
    (folder,) = run_folders(tmp_path / "results").values()
    path = folder / name
    if kind == "edited":
        _edited(path)
    else:
        path.unlink(missing_ok=True)
        KINDS[kind](path)
    reader = READERS[(FILES.index(name) + [*KINDS, "edited"].index(kind)) % len(READERS)]
    try:
        code = results_cli.main([*reader, "--results-dir", str(tmp_path / "results")])
    except SystemExit as left:
        code = int(str(left.code))
    assert code in (0, 1, 2, 3) and "Traceback" not in capfd.readouterr().err
    outcome = bench(*SMALL)
    assert outcome.code in (0, 1) and len(outcome.err.splitlines()) <= 2 and "Traceback" not in outcome.err, outcome
    if outcome.code:
        last = outcome.err.splitlines()[-1]
        assert last.startswith("error: ") and last.endswith("; remove it"), outcome.err
    else:
        made, (whole,) = tmp_path / outcome.out.split()[-1], run_folders(finished).values()
        assert all((made / file).read_bytes() == (whole / file).read_bytes() for file in FILES[:2])


@pytest.mark.parametrize("name", ["timings.csv", "config.yaml"])
@pytest.mark.parametrize("kind", ["link", "endless", "pipe", "empty"])
def test_a_dry_run_passes_over_a_folder_that_it_cannot_read(
    bench: Bench, finished: Path, mine: Path, tmp_path: Path, name: str, kind: str
) -> None:
    shutil.copytree(finished, tmp_path / "results")
    (folder,) = run_folders(tmp_path / "results").values()
    (folder / name).unlink()
    {**KINDS, "empty": Path.touch}[kind](folder / name)
    outcome = bench("-m", *SMALL, "seed=0,1", "dry_run=true")
    assert outcome.code == 0 and outcome.out.startswith("2 runs: 2 to make ("), outcome


def test_a_file_that_a_summary_names_is_not_waited_for(
    bench: Bench, finished: Path, mine: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished, tmp_path / "results")
    (folder,) = run_folders(tmp_path / "results").values()
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", "no\0name"):
        summary = json.loads((folder / "summary.json").read_text())
        summary["code"]["read"] = {"aggregator": {str(path): "0" * 64}}
        (folder / "summary.json").write_text(json.dumps(folders.seal(summary)))
        outcome = bench(*SMALL)
        assert outcome.code == 0 and ", which aggregator reads; running again" in outcome.err, outcome
    (tmp_path / "link").symlink_to(mine)
    assert content_of(tmp_path / "link") == content_of(mine) == hashlib.sha256(b"precious").hexdigest()


def test_a_summary_of_many_brackets_is_damaged(
    bench: Bench, finished: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished, tmp_path / "results")
    (folder,) = run_folders(tmp_path / "results").values()
    (folder / "summary.json").write_text("[" * 100_000)
    assert results_cli.main(["status", "--results-dir", str(tmp_path / "results")]) == 0
    printed = capfd.readouterr()
    assert "damaged" in printed.out and not printed.err
    outcome = bench(*SMALL)
    assert outcome.code == 0 and "summary.json is damaged" in outcome.err


def test_a_config_of_many_brackets_is_damaged_and_crashes_no_parser(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "results")
    (folder,) = run_folders(tmp_path / "results").values()
    for text in ("a: " + 200_000 * "[", "a:\n" + 200_000 * "- "):
        (folder / "config.yaml").write_text(text)
        (error,) = records.load(tmp_path / "results")["error"]
        assert error == "config.yaml is damaged: it is too long, or has too many lists"


@pytest.mark.parametrize("text", ["abc 0", "7", "1 2 3", "\udcff 0"])
def test_deaths_that_cannot_be_read_are_none(tmp_path: Path, mine: Path, text: str) -> None:
    folder = folders.RunFolder(tmp_path, ["any"], "0" * 8)
    folder.path.mkdir(parents=True)
    (folder.path / folders.DEATHS).write_bytes(text.encode(errors="surrogateescape"))
    assert folder.deaths == 0
    (folder.path / folders.DEATHS).unlink()
    os.mkfifo(folder.path / folders.DEATHS)
    assert folder.deaths == 0


class Payload:
    """Unpickling it makes a file."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.mkdir, ("executed",)


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_checkpoint_executes_nothing(bench: Bench, finished: Path, mine: Path, tmp_path: Path, wrapped: bool) -> None:
    shutil.copytree(finished, tmp_path / "results")
    (folder,) = run_folders(tmp_path / "results").values()
    (folder / "summary.json").unlink()
    payload = pickle.dumps(Payload(), protocol=2)
    whole = b"%s %d\n%s" % (sealed.FORMAT, len(payload), payload)
    whole += bytes(-len(whole) % sealed.ALIGNED)
    digest = hashlib.sha256(whole).hexdigest().encode()
    (folder / "checkpoint.pt").write_bytes(whole + digest if wrapped else payload)
    outcome = bench(*SMALL)
    assert outcome.code == 0 and outcome.err.startswith("starts again: checkpoint.pt "), outcome
    assert contents(tmp_path / "results") == contents(finished) and not (tmp_path / "executed").exists()


def test_a_file_of_runs_unpacks_to_no_more_than_a_file_of_runs_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kept, "LARGEST", 1 << 20)
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"run,run_id,state\n" + bytes(1 << 24)))
    assert results_cli.main(["list", "--from", str(tmp_path / "bomb.csv.gz")]) == 3
    assert "bomb.csv.gz: it holds more than 1 MiB, more than any file of runs" in capsys.readouterr().err
