"""``robustfl-bench arena``: the folder of an entry, the board, and the script that runs its cells again."""

import csv
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from robustfl_bench.base.errors import ConfigError
from robustfl_bench.commands import results
from robustfl_bench.lab.arena.answers.entries import ArenaEntry
from robustfl_bench.read.runs import archive, records
from robustfl_bench.read.tables.sheets import Printed, Sheet
from robustfl_bench.runner.config import compose, options
from tests.conftest import Bench
from tests.processes import call

ROOT = Path(__file__).resolve().parent.parent
NARROW = ("--protocol", "digits", "--partitions", "iid", "--attackers", "5", "--seeds", "0", "--attacks", "ipm")


@pytest.fixture(autouse=True)
def no_module_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test writes and imports is no installed module for the next one."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("near_others", None)


@pytest.mark.slow
def test_an_entry_is_made_listed_and_checked(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert bench("new", "aggregator", "near_others").code == 0
    outcome = bench("arena", "enter", "near_others:NearOthers", *NARROW)
    assert outcome.code == 0, outcome.err
    folder = tmp_path / "entries" / "near_others"
    assert {path.name for path in folder.iterdir()} == {"README.md", "entry.yaml", "near_others.py", "runs.csv"}
    assert options.read(folder / "entry.yaml", "")["aggregator"]["_target_"] == "near_others.NearOthers"
    with (folder / "runs.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["aggregator"] == "near_others"]
    assert len(rows) == 14 + 2 and all(row["code"] and row["versions"] and row["processor"] for row in rows)
    (tmp_path / "near_others.py").unlink()
    check = [tmp_path, ROOT / "robustfl_bench" / "__main__.py", "arena", "verify", str(folder), "--sample", "1"]
    strange = call(*check)
    assert strange.code == 2 and "add --allow near_others if you trust near_others" in strange.err
    check += ["--allow", "near_others"]
    assert call(*check).code == 0
    source = folder / "near_others.py"
    source.write_text(source.read_text().replace("self.num_byzantine\n", "self.num_byzantine - 1\n"))
    changed = call(*check)
    assert changed.code == 1 and "made by another source of the rule" in changed.out


def test_an_attack_is_entered_and_checked_as_a_rule_is(bench: Bench, tmp_path: Path) -> None:
    words = ["+experiment=arena/digits", "attack=held", "attack.strength=3", "aggregator=krum,coomed", "partition=iid",
             "num_byzantine=5", "seed=0", "lr=0.1", f"results_dir={tmp_path}", "use_kept=false"]  # fmt: skip
    assert bench("-m", *words).code == 0
    content = compose.shown([*words[:3], "lr=0.1"])["attack"]
    result = Sheet(["Attack held against the list"], ["rule"], [[Printed("krum")]])
    entry = ArenaEntry("held", "digits", "attack", content, "the command", records.load(tmp_path))
    entry.write(tmp_path / "held", result)
    page = (tmp_path / "held" / "README.md").read_text()
    assert "Attack held against the list" in page and "Made by: the command" in page and "processors: " in page
    verified = bench("arena", "verify", str(tmp_path / "held"))
    assert (verified.code, verified.out) == (0, "") and verified.err.endswith(
        "2 runs equal, 0 of another origin, 0 differences\n"
    )
    runs = archive.read(str(tmp_path / "held" / "runs.csv"))
    archive.write(runs.assign(test_loss=[1.25, *runs["test_loss"][1:]]), str(tmp_path / "held" / "runs.csv"))
    forged = bench("arena", "verify", str(tmp_path / "held"))
    assert forged.code == 1 and forged.out.startswith("digits-") and "test_loss 1.25, now " in forged.out
    assert forged.out.count("\n") == 1 and forged.err.endswith("1 run equal, 0 of another origin, 1 difference\n")
    facts = tmp_path / "held" / "entry.yaml"
    facts.write_text(facts.read_text().replace("strength: 3", "strength: 2"))
    again = bench("arena", "verify", str(tmp_path / "held"), "--sample", "1")
    assert again.code == 1 and "the protocol makes another run" in again.out


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (("enter", "krum", "--protocol", "nowhere"), "unknown protocol 'nowhere'"),
        (
            ("enter", "krum", "--protocol", "digits", "--attackers", "7"),
            "--attackers: '7' is not in digits, which has 5, 10",
        ),
        (("enter", "krum", "--protocol", "digits", "--book", "tuned"), "the track digits has no tuned book"),
        (("enter", "nowhere:Rule"), "cannot import nowhere.Rule"),
        (("attack", "nope"), "unknown attack 'nope'"),
        (("attack", "nowhere:Attack"), "cannot import nowhere.Attack"),
        (("attack", "ipm", "--partitions", "iid,fnag"), "unknown partition 'fnag'; did you mean fang?"),
        (("attack", "ipm", "--attackers", "5,7"), "unknown number of attackers '7'; known: 10, 5"),
        (("enter", "krum", "--attacks", "none"), "--attacks needs one besides none"),
        (("enter", "krum", "rounds=3"), "rounds=3 is no option of the aggregator, aggregator.KEY=VALUE"),
        (("attack", "ipm", "--rules", "nowhere"), "unknown rule of the panel 'nowhere'"),
        (("attack", "ipm", "--seeds", "x"), "unknown seed of these rules 'x'; known: 0, 1"),
        (("attack", "ipm", "knowledge=own"), "knowledge=own is no option of the attack, attack.KEY=VALUE"),
    ],
)
def test_a_mistake_is_one_line(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], phrase: str
) -> None:
    if words[1].startswith("no"):  # said at once: the runs of the arena take seconds to read
        monkeypatch.setattr(archive, "kept", None)
    bench("arena", *words).refused(2, phrase)


def test_entries_of_another_track_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    shutil.copy(ROOT / "results" / "byzfl" / "runs.csv", tmp_path / "mine")
    assert results.main(["arena", "silos", "--entries", str(tmp_path)]) == 3
    assert f"no entry in {tmp_path} is of the track silos; robustfl-bench arena enter RULE" in capsys.readouterr().err


@pytest.mark.parametrize(
    "link", ["entries/near_others/near_others.py", "entries/near_others", "entries/near_others/README.md"]
)
@pytest.mark.parametrize("target", ["victim", "nowhere"])
def test_nothing_is_written_through_a_link(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str, target: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bench("new", "aggregator", "near_others").code == 0
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "runs.csv").write_text("precious")
    (tmp_path / link).parent.mkdir(parents=True)
    place = tmp_path / target if link.endswith("near_others") else tmp_path / target / "runs.csv"
    (tmp_path / link).symlink_to(place)
    bench("arena", "enter", "near_others:NearOthers", *NARROW).refused(2, "remove it")
    rule = {"_target_": "near_others.NearOthers", "num_byzantine": 5}
    entry = ArenaEntry("near_others", "digits", "aggregator", rule, "the command", archive.kept(arena=True)[:1])
    with pytest.raises(ConfigError, match=r"cannot write entries/near_others: .* is a link"):
        entry.write(Path("entries/near_others"), Sheet([], ["rule"], []))
    assert (tmp_path / "victim" / "runs.csv").read_text() == "precious" and not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "results").exists(), "nothing was run either"
