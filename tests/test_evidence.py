"""Kept evidence is what was written, or it is refused. It grows by parts, and loses nothing when a writer is killed."""

import csv
import gzip
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest

from robustfl_bench.base.errors import DataError
from robustfl_bench.read.runs import archive, records
from robustfl_bench.runner.store import evidence, kept
from tests.conftest import run_cli
from tests.faults import kill_at
from tests.test_kept_runs import forget
from tests.test_results import make_run

NAME = Path("arena") / "runs.csv.gz"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of evidence with an index: runs whose seals are those of older files, and the points of a figure."""
    folder = tmp_path / "evidence"
    monkeypatch.setattr(kept, "FOLDER", folder)
    monkeypatch.setattr(archive, "FOLDER", folder)
    (folder / NAME).parent.mkdir(parents=True)
    (folder / NAME).write_bytes(gzip.compress(older(written(tmp_path / "first", seeds=(0, 1))), mtime=0))
    (folder / "boba").mkdir()
    shipped = Path(__file__).parents[1] / "results" / "boba" / "fig1.csv"
    (folder / "boba" / "fig1.csv").write_bytes(shipped.read_bytes())
    evidence.add(folder, [folder / NAME, folder / "boba" / "fig1.csv"])
    forget()
    yield folder
    monkeypatch.undo()
    forget()


def written(folder: Path, seeds: tuple[int, ...], accuracy: float = 0.9) -> Path:
    """A file of new runs: two rules with these seeds."""
    path = folder / "runs.csv"
    archive.write(runs_of(folder, seeds, accuracy), str(path))
    return path


def runs_of(folder: Path, seeds: tuple[int, ...], accuracy: float = 0.9) -> pd.DataFrame:
    """Runs of two rules with these seeds."""
    for seed in seeds:
        make_run(folder, "krum", seed=seed, accuracy=accuracy)
        make_run(folder, "boba", seed=seed, accuracy=accuracy - 0.2)
    return records.load(folder)


def older(path: Path) -> bytes:
    """The file with the seals of older versions, over the values alone."""
    header, *lines = csv.reader(path.read_text().splitlines())
    resealed = [[*line[:-1], kept.sealer(())(line[:-1])] for line in lines]
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *resealed])
    return text.getvalue().encode()


def numbers(store: Path) -> dict[str, float]:
    """The final accuracy of each run."""
    runs = archive.read(str(store / NAME))
    return dict(zip(runs["run"].str.rpartition("-")[0], runs["final_accuracy"], strict=True))


def first_kept(store: Path) -> Mapping[str, str] | None:
    """What answers the first run, for a process that has read nothing yet."""
    forget()
    return kept.find(archive.read(str(store / NAME))["run_id"].iloc[0])


def test_the_index_of_the_package_has_every_measurement_as_it_is() -> None:
    index = evidence.index_of(kept.FOLDER)
    assert len(index.digests) >= 250
    for name in index.digests:
        if (path := kept.FOLDER / name).exists():  # a wheel has fewer
            assert index.seals(path, path.read_bytes())
    assert all(index.lists(path) for path in (*kept.files(), *archive.kept_points()))
    if (kept.FOLDER.parent / ".git").exists():
        tracked = subprocess.run(["git", "ls-files"], cwd=kept.FOLDER, check=True, capture_output=True, text=True)
        others = {*tracked.stdout.splitlines()} - {*index.digests, "arena/decisions.json"}  # made from them
        assert {Path(name).suffix for name in others} <= {".md", ".png", ".svg", ".yaml", ".ipynb", ".sha256"}, others
        check = subprocess.run(["sha256sum", "--check", "--quiet", evidence.INDEX], cwd=kept.FOLDER, check=False)
        assert check.returncode == 0, "other tools read it too"


def flipped(content: bytes, place: int) -> bytes:
    """The content with one bit of the byte at a place flipped."""
    return content[:place] + bytes([content[place] ^ 1 << random.Random(place).randrange(8)]) + content[place + 1 :]


@pytest.mark.parametrize("name", [NAME, Path("arena") / "runs.0001.csv.gz", Path(evidence.INDEX)])
def test_no_flipped_bit_of_a_file_in_the_index_passes(store: Path, tmp_path: Path, name: Path) -> None:
    archive.write(runs_of(tmp_path / "later", (1, 2), 0.8), str(store / NAME))
    path, content = store / name, (store / name).read_bytes()
    before = first_kept(store)
    assert before is not None and before["final_accuracy"] == "0.7"
    for place in range(0, len(content), 3):
        path.write_bytes(flipped(content, place))
        with pytest.raises(DataError, match=r"is not what was written: it does not fit|cannot read|is no table"):
            archive.read(str(store / NAME))
        if place % 33 == 0:
            forget()
            assert kept.find(before["run_id"]) is None
            with pytest.raises(DataError):
                archive.kept(arena=True)
    path.write_bytes(content)
    assert first_kept(store) == before


def test_no_flipped_bit_of_a_users_file_passes(tmp_path: Path) -> None:
    path = written(tmp_path, (0,))
    content = path.read_bytes()
    header = content.index(b"\n") + 1
    places = {*random.Random(1).sample(range(len(content)), 200), *random.Random(2).sample(range(header), 200)}
    for place in places:
        path.write_bytes(flipped(content, place))
        with pytest.raises(DataError, match=rf"^(cannot read )?{path}"):
            archive.read(str(path))


SWAPPED = {"final_accuracy": "best_accuracy", "best_accuracy": "final_accuracy"}


@pytest.mark.parametrize("edit", [SWAPPED, {"seal": "sael"}, {"aggregator": "attacker"}])
def test_other_names_of_columns_are_refused(tmp_path: Path, edit: Mapping[str, str]) -> None:
    path = written(tmp_path, (0,))
    header, _, lines = path.read_text().partition("\n")
    path.write_text(",".join(edit.get(name, name) for name in header.split(",")) + "\n" + lines)
    whole_header = "does not fit its seal, nor does any other, as where a column was renamed"
    told = "has no seals, so nobody can tell" if "seal" in edit else whole_header
    with pytest.raises(DataError, match=told):
        archive.read(str(path))


def test_a_file_without_seals_of_names_is_read_by_name_only(
    tmp_path: Path, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "older.csv"
    path.write_bytes(older(written(tmp_path / "third", (5,))))
    code, out, err = run_cli(capsys, "table", "--from", path)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "has seals of an older version, which do not cover the names of columns" in err and "--unsealed" in err
    code, out, err = run_cli(capsys, "table", "--from", path, "--unsealed")
    assert code == 0 and "90.0" in out and "nobody can tell whether its numbers were changed" in err
    again = tmp_path / "again.csv"
    assert run_cli(capsys, "export", "--from", path, "--unsealed", "--summary", again)[0] == 0
    assert run_cli(capsys, "table", "--from", again)[2] == ""
    copy = tmp_path / "copy.csv.gz"
    copy.write_bytes((store / NAME).read_bytes())
    assert len(archive.read(str(copy))) == 4, "a copy of a file in the index is what was written"
    (store / evidence.INDEX).unlink()
    for file in (copy, store / NAME):
        with pytest.raises(DataError, match="seals of an older version"):
            archive.read(str(file))


def test_lines_go_into_a_part_and_the_file_stays(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, before = (store / NAME).read_bytes(), numbers(store)
    replaced = first_kept(store)
    assert replaced is not None
    archive.put(runs_of(tmp_path / "later", (1, 2), 0.8), str(store / NAME))
    part = store / "arena" / "runs.0001.csv.gz"
    assert capsys.readouterr().err == f"{part}: 4 lines, 2 in the place of earlier ones\n"
    assert (store / NAME).read_bytes() == base and kept.files() == (store / NAME,)
    new = {name: before[name] for name in before if "s0" in name}
    for seed in (1, 2):
        new |= {f"digits-krum-ipm-s{seed}": 0.8, f"digits-boba-ipm-s{seed}": pytest.approx(0.6)}
    assert numbers(store) == new
    lines = [*csv.DictReader(gzip.decompress(part.read_bytes()).decode().splitlines())]
    earlier = {line["run_id"]: line["seal"] for line in csv.DictReader(gzip.decompress(base).decode().splitlines())}
    assert [line["supersedes"] for line in lines] == [earlier.get(line["run_id"], "") for line in lines]
    archive.write(runs_of(tmp_path / "same", (0, 1, 2), 0.8).query("seed > 0"), str(store / NAME))
    assert not (store / "arena" / "runs.0002.csv.gz").exists(), "the same runs are not kept twice"
    assert run_cli(capsys, "export", "--summary", store / NAME, "--results-dir", tmp_path / "first")[0] == 0
    assert numbers(store)["digits-krum-ipm-s1"] == 0.9 and "digits-krum-ipm-s2" in numbers(store), "nothing is lost"


def test_parts_belong_to_their_file(store: Path, tmp_path: Path) -> None:
    for accuracy in (0.8, 0.7):
        archive.write(runs_of(tmp_path / str(accuracy), (1,), accuracy), str(store / NAME))
    first, second = (store / "arena" / f"runs.000{number}.csv.gz" for number in (1, 2))
    contents = first.read_bytes(), second.read_bytes()
    first.unlink()
    with pytest.raises(DataError, match=r"runs.0001.csv.gz is missing; restore it"):
        archive.kept(arena=True)
    first.write_bytes(contents[1])
    with pytest.raises(DataError, match=r"runs.0001.csv.gz is not what was written"):
        archive.read(str(store / NAME))
    second.write_bytes(contents[0])
    evidence.add(store, [first, second])
    with pytest.raises(DataError, match="does not name the line that it replaces"):
        archive.read(str(store / NAME))


def test_a_writer_that_is_killed_loses_nothing(store: Path, tmp_path: Path) -> None:
    before = numbers(store)
    later = runs_of(tmp_path / "later", (1, 2), 0.8)
    ends = set()
    for call in range(1, 10):
        child = os.fork()
        if child == 0:
            kill_at(call)
            archive.write(later, str(store / NAME))
            os._exit(0)
        ends.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        held = numbers(store)
        assert held.keys() >= before.keys() and len(held) in (4, 6)
        assert {held[name] for name in held if "s1" in name} in ({0.9, 0.9 - 0.2}, {0.8, 0.8 - 0.2})
    assert ends == {0, -signal.SIGKILL}
    archive.write(later, str(store / NAME))
    assert len(numbers(store)) == 6
    names = sorted(path.name for path in store.rglob("*") if path.is_file())
    assert names == ["fig1.csv", evidence.INDEX, "runs.0001.csv.gz", "runs.csv.gz"]
    assert evidence.index_of(store).lists(store / "arena" / "runs.0001.csv.gz")


def test_points_of_a_figure_are_what_was_written(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points, own = store / "boba" / "fig1.csv", tmp_path / "fig1.csv"
    asked = ("figure", "boba/fig1", "--output")
    assert run_cli(capsys, *asked, own, "--from", points)[0] == 0
    text = points.read_text()
    digit = text.index("0.", len(text) // 2) + 2
    points.write_text(text[:digit] + str((int(text[digit]) + 1) % 10) + text[digit + 1 :])
    code, _, err = run_cli(capsys, *asked, tmp_path / "b.csv", "--from", points)
    assert (code, err.count("\n")) == (3, 1) and f"cannot read {points}: fig1.csv is not what was written" in err
    written_points = own.read_text()
    own.write_text(written_points.replace("0.", "1.", 1))
    assert "does not fit its seal" in run_cli(capsys, *asked, tmp_path / "b.csv", "--from", own)[2]
    own.write_text("".join(line for line in own.read_text().splitlines(True) if not line.startswith("# seal")))
    assert "has no seal, so nobody can tell" in run_cli(capsys, *asked, tmp_path / "b.csv", "--from", own)[2]
    assert run_cli(capsys, *asked, tmp_path / "b.csv", "--from", own, "--unsealed")[0] == 0


COUNTING = """
import os, sys
from pathlib import Path
from robustfl_bench.runner.store import evidence

path, times, dies = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "dies"
for _ in range(times):
    with evidence.lock(path):
        path.write_text(str(int(path.read_text()) + 1))
        if dies:
            os._exit(9)
"""


def test_writers_take_turns_whatever_their_temporary_folders_are(tmp_path: Path) -> None:
    """As on two hosts, or in two jobs of Slurm, which share nothing but the disk of the results."""
    path = tmp_path / "shared" / "counted.csv"
    path.parent.mkdir()
    path.write_text("0")

    def start(name: str, times: int, how: str = "ends") -> subprocess.Popen[bytes]:
        (tmp_path / name).mkdir()
        own = {**os.environ, "TMPDIR": str(tmp_path / name)}
        return subprocess.Popen([sys.executable, "-c", COUNTING, str(path), str(times), how], env=own)

    assert start("dead", 1, "dies").wait() == 9
    assert [one.wait() for one in [start("first", 20), start("second", 20)]] == [0, 0]
    assert path.read_text() == "41" and list(path.parent.iterdir()) == [path], "the lock of the dead is gone, too"
