"""The arena: its protocol, the rates that validation chooses, and a rule from outside that enters it."""

import re
from pathlib import Path

import pytest

from robustfl_bench.base.errors import NotReady
from robustfl_bench.lab.arena import page
from robustfl_bench.lab.arena.answers import claims
from robustfl_bench.lab.arena.checks import check
from robustfl_bench.lab.arena.panels import Arena
from robustfl_bench.lab.arena.track import HONEST, Track, settle, tracks
from robustfl_bench.read.runs import records
from robustfl_bench.runner.config import compose, options
from robustfl_bench.runner.experiment import rates
from tests import processes
from tests.arenas import arena_of, every_run, run, shipped_runs
from tests.conftest import run_folders

RULE = '''
from dataclasses import dataclass

from robustfl_bench import Aggregate, Aggregator, ServerView, Updates


@dataclass(frozen=True)
class Halves(Aggregator):
    """The mean of the first half of the clients: depends on their order."""

    def aggregate(self, updates: Updates, server: ServerView) -> Aggregate:
        weights = updates.counts.new_zeros(updates.n)
        weights[: updates.n // 2] = 1 / (updates.n // 2)
        return updates.combine(weights)
'''


@pytest.mark.parametrize("name", tracks())
def test_every_rule_has_a_rate_chosen_among_the_same_parts(name: str) -> None:
    cells, chosen = (compose.swept([f"+experiment=arena/{experiment}"]) for experiment in (name, f"{name}_rates"))
    assert all(cells[key] == chosen[key] for key in ("aggregator", "partition"))
    few = name == "fashion_lenet"  # whose runs are dear: from .03 to 1
    assert len(chosen["lr"]) > (3 if few else 5) and len(set(cells["aggregator"])) == len(cells["aggregator"]) > 20
    if options.exists("experiment", wrong := f"arena/{name}_declared"):
        assert set(compose.swept([f"+experiment={wrong}"])["aggregator"]) < set(cells["aggregator"])


def test_a_track_is_judged_by_its_last_evaluations_if_they_are_many() -> None:
    assert {name: Track(name).judged for name in ("digits", "silos")} == {
        "digits": "final_accuracy", "silos": "last_accuracy",
    }  # fmt: skip
    assert "silos_server" not in tracks() and "silos" in tracks()


def test_a_rate_is_that_of_the_best_mean_and_the_least_of_equal_ones() -> None:
    assert rates.best({1.0: [0.5, 0.9], 0.1: [0.8, 0.6], 10.0: [0.6, 0.5]}) == 0.1
    with pytest.raises(
        NotReady, match=r"14 of the runs .* first: robustfl-bench -m \+experiment=arena/digits_rates agg"
    ):
        compose.resolve(["+experiment=arena/digits", "aggregator=fedavg", "results_dir=/nowhere"])


def test_runs_with_another_f_than_the_true_one_stand_apart() -> None:
    runs = [run("r", "ipm", 0.5, declared=5), run("r", "ipm", 0.1, declared=10), run("r", "none", 0.9, declared=5),
            run("r", "none", 0.8, declared=10), run("s", "none", 0.7)]  # fmt: skip
    assert [one.accuracy for one in settle(runs, 5)] == [0.5, 0.9, 0.7]


def test_what_a_rule_depends_on_is_found_by_trying() -> None:
    def flags(rule: str) -> str:
        return "; ".join(check(compose.resolve([f"aggregator={rule}"]).config["aggregator"]).flags)

    assert flags("coomed") == ""
    assert "declared f" in flags("trmean") and "order" not in flags("trmean")
    assert "scale of updates" in flags("norm_bound")
    assert "f" in check(compose.resolve(["aggregator=krum"]).config["aggregator"]).facts.needs


def test_claims_of_papers_are_judged_by_all_partitions_and_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = {rule: 0.5 for paper in options.read(claims.FILE, "").values() for rule in paper["rules"]}
    made = every_run(Track("digits"), rules | {"boba": 0.9, "server": 0.6, "brace": 0.3})
    made = [one for one in made if one.rule != "arfl" or one.partition != "step"]
    overview, *papers = claims.sheets([arena_of(monkeypatch, made)])
    assert overview.above[1].startswith("digits: whole local sets, 60 rounds, the accuracy of the last round; run in ")
    assert "without arena/digits_rates, at all rates that were run: arfl, average" in overview.above[2]
    counts = {row[0].text: [int(cell.text) for cell in row[2:]] for row in overview.rows}
    assert counts["BOBA"] == [10, 2, 0, 0], "mimic takes ten points from it"
    own = [sheet for sheet in papers if not any("speaks against" in line for line in sheet.above)]
    judged = {(row[0].text, row[1].text): [cell.text for cell in row[2:]] for sheet in own for row in sheet.rows}
    assert judged["worst_case", "10 attackers"] == ["holds", "14 of 14", "12"]
    assert judged["enough_without_skew", "5 attackers"] == ["holds", "14 of 14", "3"]
    assert judged["best_worst_case", "5 attackers"] == ["does not hold", "0 of 6", "12"]
    assert judged["robust", "5 attackers / iid"] == ["does not hold", "0 of 1", "3"]
    whole = "5 attackers / skewed in mild_dirichlet, fang and pathological"
    assert judged["robust", whole] == ["does not hold", "0 of 1", "9"], "arfl was not run in step"
    assert judged["fedavg_suffers", "5 attackers / skewed"][2] == "12", "the mean was run in all"
    numbers = next(sheet for sheet in papers if sheet.above[0].startswith("BOBA: test accuracy"))
    assert [cell.text for cell in numbers.rows[1]] == ["boba", "90.0", "80.0", "80.0", "90.0", "80.0", "80.0"]
    assert numbers.is_heading(numbers.rows[0])


def test_claims_are_judged_in_two_tracks_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    first = arena_of(monkeypatch, [run("boba", "mimic", 0.9, "fang"), run("boba", "none", 0.9, "fang")])
    rules = ("boba", "average", "krum")
    made = [run(rule, attack, 0.8 - 0.1 * (rule != "boba") + 0.01 * seed, "fang", str(seed))
            for rule in rules for attack in Track("silos").swept["attack"] for seed in range(3)]  # fmt: skip
    made += [run("server", "none", 0.5 + 0.01 * seed, seed=str(seed)) for seed in range(30)]
    overview, boba, *_ = claims.sheets([first, arena_of(monkeypatch, made, "silos")])
    assert [(row[0].text, row[1].text) for row in overview.rows[:2]] == [("BOBA", "digits"), ("BOBA", "silos")]
    judged = {(row[0].text, row[1].text): [cell.text for cell in row[2:]] for row in boba.rows}
    assert judged["mimic", "digits, 5 attackers"][:2] == ["too few seeds", "1 of 1"]
    assert judged["mimic", "silos, 5 attackers"] == ["not tested", "-", "-"]
    assert judged["any_attack", "silos, 5 attackers"] == ["not tested", "2 of 2 (all: 14)", "3"]
    assert judged["accuracy_kept", "silos, 5 attackers"] == ["holds", "1 of 1", "3"]


def test_the_honest_mean_may_have_other_settings_than_the_rules() -> None:
    """NNM mixes the updates of the track's rules, not its row of reference, which is that of silos."""
    table = shipped_runs()
    table = table[(table["aggregator"] == "average") & (table["pre_aggregation"] == "none") & (table["rounds"] == 100)]
    read = {name: {run.attack for run, _ in Track(name).read(table, "validation_accuracy")}
            for name in ("silos", "silos_nnm", "silos_momentum")}  # fmt: skip
    assert "rewind_4" in read["silos"] and HONEST in read["silos"]
    assert read["silos_nnm"] == {HONEST}


@pytest.mark.parametrize("name", ["digits", "image"])
def test_claims_name_rules_and_attacks_of_the_track(name: str) -> None:
    swept = Track(name).swept
    for paper in options.read(claims.FILE, "").values():
        assert set(paper["rules"]) <= set(swept["aggregator"]) and set(paper["attacks"]) <= set(swept["attack"])


def test_a_rule_from_outside_enters_in_minutes(tmp_path: Path) -> None:
    """Its rates, its own cells, the table: three commands, in a folder outside the repository."""
    (tmp_path / "their_rules.py").write_text(RULE)

    def call(command: str, *words: str) -> str:
        done = processes.call(tmp_path, f"robustfl_bench.commands.{command}", *words)
        assert done.code == 0, done.err
        return done.out

    rule, part = "aggregator=their_rules:Halves", "partition=iid"
    cells = ("+experiment=arena/digits", rule, part, "attack=none,ipm", "num_byzantine=5", "seed=0,1")
    call("bench", "-m", "+experiment=arena/digits_rates", rule, part)
    call("bench", "-m", *cells)
    made = run_folders(tmp_path / "results")
    assert len(made) == 14 + 4 and all("halves" in str(folder) for folder in made.values())
    printed = call("results", "arena", "digits", "--allow", "their_rules")
    lines = [line for line in printed.split("Flags: ")[0].splitlines() if line.startswith("halves")]
    assert lines[0].endswith(" 4") and " ipm " in lines[1], "the overview, then the panel of the partition"
    (flags,) = (line for line in printed.split("Flags: ")[1].splitlines() if line.startswith("halves"))
    assert "depends on the order of clients" in flags
    theirs = records.load(tmp_path / "results")
    *_, untried = page.sheets(Arena(theirs, "digits"))
    assert untried.rows[0][1].text.startswith("not tried: add --allow their_rules")
    assert re.search(r"robustfl-bench -m \+experiment=arena/digits aggregator=(\S*,)?their_rules:Halves\n", printed)
    alone = ("--results-dir", "results")  # without the kept runs, which take seconds to read
    assert "not tested" in call("results", "arena", "digits", "--claims", *alone)
    assert call("results", "arena", "digits", "--plot", "rules.png", "--allow", "their_rules", *alone) == "rules.png\n"
    call("results", "report", "--where", "attack=none,ipm", "--where", "validation_share=null")
    assert "halves" in (tmp_path / "report.html").read_text(encoding="utf-8")
