"""The arena: its protocol, the rates that validation chooses, and a rule from outside that enters it."""

import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from robustfl_bench.arena import claims, page, picture
from robustfl_bench.arena.checks import check
from robustfl_bench.arena.scores import Score, in_order, likeness, rank, scores, stability, strongest
from robustfl_bench.arena.track import HONEST, ArenaRun, Track, settle, tracks
from robustfl_bench.base.code_digest import PACKAGE
from robustfl_bench.base.errors import ConfigError, NotReady
from robustfl_bench.config import compose, options
from robustfl_bench.experiment import rates
from robustfl_bench.runs import archive, records
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


def run(rule: str, attack: str, accuracy: float, partition: str = "iid", seed: str = "0", **others: object) -> ArenaRun:
    values: dict[str, object] = {
        "num_byzantine": 0 if attack == "none" else 5, "declared": None, "lr": 0.1, "state": "finished",
        "recall": [accuracy] * 10, "success": math.nan, "row": 0,
    }  # fmt: skip
    return ArenaRun(rule, partition, attack, seed=seed, accuracy=accuracy, **values | others)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", tracks())
def test_every_rule_has_a_rate_chosen_among_the_same_parts(name: str) -> None:
    cells, chosen = (compose.swept([f"+experiment=arena/{experiment}"]) for experiment in (name, f"{name}_rates"))
    assert all(cells[key] == chosen[key] for key in ("aggregator", "partition"))
    assert len(chosen["lr"]) > 5 and len(set(cells["aggregator"])) == len(cells["aggregator"]) > 40
    wrong = compose.swept([f"+experiment=arena/{name}_declared"])
    assert set(wrong["aggregator"]) < set(cells["aggregator"])


def test_a_rate_is_that_of_the_best_mean_and_the_least_of_equal_ones() -> None:
    assert rates.best({1.0: [0.5, 0.9], 0.1: [0.8, 0.6], 10.0: [0.6, 0.5]}) == 0.1
    with pytest.raises(
        NotReady, match=r"14 of the runs .* first: robustfl-bench -m \+experiment=arena/digits_rates agg"
    ):
        compose.resolve(["+experiment=arena/digits", "aggregator=fedavg", "results_dir=/nowhere"])


def test_the_worst_case_is_the_least_of_each_partition_and_seed() -> None:
    runs = [
        run("r", "none", 0.9), run("r", "none", 0.7, "pathological"),
        run("r", "ipm", 0.5), run("r", "lie", 0.6),
        run("r", "ipm", 0.4, "pathological"), run("r", "lie", 0.2, "pathological"),
        run("r", "ipm", 0.5, seed="1"), run("r", "lie", 0.9, seed="1"),
        run("r", "ipm", 0.0, "pathological", "1", state="diverged", recall=None),
        run("r", "lie", 0.5, "pathological", "1"),
        run("r", "ipm", 0.8, seed="2"), run("r", "ipm", 0.8, "pathological", "2"),
    ]  # fmt: skip
    found = scores([*runs, run("average", "none", 0.95), run("average", "none", 0.85, "pathological")])["r"]
    assert found.by_seed == pytest.approx({"0": 35, "1": 25}), "seed 2 has one attack of two"
    assert found.worst == pytest.approx(30)
    assert found.spread is not None and (found.spread.low, found.spread.high) == (0, pytest.approx(93.5, abs=0.1))
    assert (found.attack, found.share) == ("ipm", 0.75) and found.diverged == 1
    assert found.skew == pytest.approx(20) and found.clean == pytest.approx(80)
    assert found.recall_drop == pytest.approx((45 + 65) / 2), "of seed 0, where the reference is"


def test_rules_stand_by_what_was_attacked_and_are_clean_in_the_same_places() -> None:
    runs = [run(rule, attack, level) for rule, level in (("a", 0.5), ("b", 0.6)) for attack in ("none", "ipm", "lie")]
    runs += [run("a", "none", 0.9, seed="1"), run("c", "ipm", 0.8), run("c", "none", 0.8, seed="1")]
    found = scores(runs)
    assert [score.rule for score in in_order(found, 2)] == ["b", "a", "c"], "c has been under one attack of two"
    assert [found[rule].clean for rule in "abc"] == pytest.approx([50, 60, 80]), "c has no other"
    assert [(score.cells, score.attacked) for score in in_order(found, 2)] == [(3, 2), (4, 2), (2, 1)]


def test_attacks_that_help_and_attacks_beyond_worst_are_told_from_noise() -> None:
    cells = [("iid", "0"), ("iid", "1"), ("fang", "0"), ("fang", "1")]
    noise = (0.0, 0.01, -0.01, 0.02)
    runs = [run("r", name, level + noise[place], partition, seed)
            for place, (partition, seed) in enumerate(cells)
            for name, level in (("none", 0.6), ("ipm", 0.7), ("lie", 0.3), ("worst", 0.5))]  # fmt: skip
    runs += [run("r", "rop", 0.6 + (-1) ** place * 0.2, *cell) for place, cell in enumerate(cells)]
    found = scores(runs)["r"]
    assert list(found.helping) == ["ipm"] and found.helping["ipm"].mean == pytest.approx(10)
    assert list(found.stronger) == ["lie"] and found.stronger["lie"].mean == pytest.approx(20)
    lost = [replace(one, accuracy=one.accuracy - 0.3) for one in runs]
    assert not scores([replace(one, recall=[0.5] * 4) for one in lost])["r"].stronger, (
        "worst left no more than guessing"
    )


def test_how_often_the_adaptive_attack_is_the_strongest() -> None:
    runs = [run("krum", "worst", level, seed=str(seed)) for seed, level in enumerate((0.5, 0.51, 0.6))]
    runs += [run("krum", "ipm", 0.5, seed=str(seed)) for seed in range(3)]
    runs += [run("krum", "none", 0.9), run("mda", "worst", 0.1), run("krum", "ipm", 0.1, seed="3")]
    assert strongest(runs) == (1, 2, 3)
    assert strongest(runs[-2:]) is None


def test_ranks_are_of_rules_with_all_conditions_and_stability_compares_seeds() -> None:
    levels = {"a": 0.9, "b": 0.8, "c": 0.5}
    runs = [run(rule, attack, level - 0.1 * (attack == "ipm"), partition, seed)
            for rule, level in levels.items() for attack in ("none", "ipm")
            for partition in ("iid", "fang") for seed in ("0", "1")]  # fmt: skip
    ranked = rank([*runs, run("part", "none", 1.0)])
    assert ranked is not None and ranked.mean == {"a": 1, "b": 2, "c": 3} and ranked.conditions == 4
    assert stability(scores(runs)) == (pytest.approx(1), 3, 2)
    turned = {"a": Score("a", by_seed={"0": 1, "1": 3}), "b": Score("b", by_seed={"0": 2, "1": 2}),
              "c": Score("c", by_seed={"0": 3, "1": 1})}  # fmt: skip
    assert stability(turned) == (pytest.approx(-1), 3, 2)
    more = {**turned, "c": Score("c", by_seed={"0": 3, "1": 1, "2": 2}), HONEST: Score(HONEST, by_seed={"9": 1})}
    assert stability(more) == (pytest.approx(-1), 3, 2), "what only one rule has hides nothing"
    third = [run("a", attack, 0.9, partition, "2") for attack in ("none", "ipm") for partition in ("iid", "fang")]
    assert rank([*runs, *third]) == ranked, "by the seeds that all have"
    even = [run(rule, attack, accuracy) for rule, accuracy in (("a", 0.87638889), ("b", 0.876388885))
            for attack in ("none", "ipm")]  # fmt: skip
    assert (tied := rank(even)) is not None and tied.mean == {"a": 1.5, "b": 1.5}, "as files round them"


def test_the_order_at_twice_the_size_is_compared_on_the_same_cells() -> None:
    levels = {"a": 0.9, "b": 0.8, "c": 0.5, "d": 0.4}
    here = [run(rule, attack, level - 0.3 * (attack == "lie") * (rule == "a"))
            for rule, level in levels.items() for attack in ("ipm", "lie")]  # fmt: skip
    double = [run(rule, "ipm", level / 2, num_byzantine=10) for rule, level in levels.items()]
    assert likeness(here, double) == (pytest.approx(1), 4), "lie was not run at twice the size"
    assert likeness(here, double[:2]) is None
    assert likeness(here, [*double, run("a", "ipm", 0.1, seed="1")]) == (pytest.approx(1), 4)


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


def every_run(track: Track, levels: dict[str, float]) -> list[ArenaRun]:
    """Runs of these rules in all cells: the accuracy is a rule's level, and a tenth less under attack."""
    return [run(rule, attack, level - 0.1 * (attack != "none") + 0.001 * place, partition, seed, num_byzantine=number)
            for rule, level in levels.items() for attack in track.swept["attack"]
            for number in ((0,) if attack == "none" else track.numbers)
            for place, partition in enumerate(track.swept["partition"]) for seed in track.swept["seed"]]  # fmt: skip


@cache
def shipped_runs() -> pd.DataFrame:
    """Those of the arena that come with the package: reading them takes seconds."""
    return archive.kept(arena=True)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """A table of one run, whose track finds made-up runs."""
    rules = {rule: 0.5 for paper in options.read(claims.FILE, "").values() for rule in paper["rules"]}
    made = every_run(Track("digits"), rules | {"boba": 0.9, "server": 0.6, "brace": 0.3})
    made = [one for one in made if one.rule != "arfl" or one.partition != "step"]
    made += [run(HONEST, HONEST, 0.95, partition, seed) for partition in ("iid", "step") for seed in ("0", "1")]
    monkeypatch.setattr(Track, "runs", lambda self, table: made)
    return shipped_runs().head(1)


def test_a_page_has_the_numbers_of_attackers_that_were_run_and_one_command_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shipped = shipped_runs().drop_duplicates("aggregator").reset_index(drop=True)
    rules = list(shipped["aggregator"][:2])
    clean = [run(rule, "none", 0.9, row=row) for row, rule in enumerate(rules)]
    attacked = [run(rule, "ipm", 0.5, row=row) for row, rule in enumerate(rules)]
    for made, titles in ((clean, [5, 10]), (clean + attacked, [5])):
        monkeypatch.setattr(Track, "runs", lambda self, table, made=made: made)
        *standing, flags = page.sheets(shipped, "digits")
        assert [sheet.above[0] for sheet in standing] == [Track("digits").title(number) for number in titles]
        assert flags.above[0].startswith("Flags")
        (todo,) = standing[0].todos
        assert todo.what == f"runs of {', '.join(rules)}" and todo.command.endswith(f"aggregator={','.join(rules)}")


def test_rules_with_all_cells_are_compared_with_the_servers_own_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = shipped_runs().drop_duplicates("aggregator").set_index("aggregator", drop=False)
    shipped = shipped.loc[["krum", "server", "trmean"]]
    shifts = {"0": 0.03, "1": 0.0, "2": -0.03}  # of krum over its level: 10 points above the server's
    made = [replace(one, row=list(shipped.index).index(one.rule),
                    accuracy=one.accuracy + shifts[one.seed] * (one.rule == "krum"))
            for one in every_run(Track("digits"), {"krum": 0.7, "server": 0.6, "trmean": 0.9})]  # fmt: skip
    made = [one for one in made if one.rule != "trmean" or one.partition != "iid"]
    monkeypatch.setattr(Track, "runs", lambda self, table: made)
    sheet = page.sheets(shipped, "digits")[0]
    above = {row[0].text: row[sheet.heading.index("over server")].text for row in sheet.rows}
    assert above == {"krum": "10.0 (2.5 to 17.5)", "server": "", "trmean": ""}, "trmean lacks cells"


def test_a_rule_that_cannot_be_tried_is_told_and_wrong_numbers_stand_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = shipped_runs()
    shipped = shipped[shipped["aggregator"] == "trmean"].head(1).reset_index(drop=True)
    made = [run("trmean x", "ipm", 0.5, declared=f, num_byzantine=b, options=("aggregator.nonsense=1",))
            for b in (5, 10) for f in (5, 10)]  # fmt: skip
    monkeypatch.setattr(Track, "runs", lambda self, table: made)
    *_, flags, five, ten = page.sheets(shipped, "digits")
    assert flags.rows[0][1].text.startswith("not tried: ") and "nonsense" in flags.rows[0][1].text
    assert "with 5 attackers" in five.above[0] and "with 10 attackers" in ten.above[0]
    assert [cell.text for cell in ten.rows[0]] == ["trmean x", "50.0", "50.0"]


def test_claims_of_papers_are_judged_by_all_partitions_and_seeds(kept: pd.DataFrame) -> None:
    overview, *papers = claims.sheets(kept, "digits")
    assert "without arena/digits_rates, at all rates that were run: arfl, average" in overview.above[1]
    counts = {row[0].text: [int(cell.text) for cell in row[1:]] for row in overview.rows}
    assert counts["BOBA"] == [10, 2, 0, 0], "mimic takes ten points from it"
    judged = {(row[0].text, row[1].text): [cell.text for cell in row[2:]] for sheet in papers for row in sheet.rows}
    assert judged["worst_case", "10 attackers"] == ["holds", "14 of 14", "12"]
    assert judged["enough_without_skew", "5 attackers"] == ["holds", "14 of 14", "3"]
    assert judged["best_worst_case", "5 attackers"] == ["does not hold", "0 of 6", "12"]
    assert judged["robust", "5 attackers / iid"] == ["does not hold", "0 of 1", "3"]
    assert judged["robust", "5 attackers / skewed"] == ["not tested", "-", "-"], "one partition is missing"
    numbers = next(sheet for sheet in papers if sheet.above[0].startswith("BOBA: test accuracy"))
    assert [cell.text for cell in numbers.rows[1]] == ["boba", "90.0", "80.0", "80.0", "90.0", "80.0", "80.0"]
    assert numbers.is_heading(numbers.rows[0])


@pytest.mark.parametrize("name", tracks())
def test_claims_name_rules_and_attacks_of_the_track(name: str) -> None:
    swept = Track(name).swept
    for paper in options.read(claims.FILE, "").values():
        assert set(paper["rules"]) <= set(swept["aggregator"]) and set(paper["attacks"]) <= set(swept["attack"])


def test_pictures_show_rules_by_their_worst_case_and_attacks_by_their_harm(kept: pd.DataFrame) -> None:
    first, second = picture.standing(kept, "digits").axes
    names = [label.get_text() for label in first.get_yticklabels()]
    assert names[:2] == ["boba", "server"] and names[-2:] == ["brace", "arfl"], "arfl has not been run in all cells"
    assert [axis.get_title() for axis in (first, second)] == [f"{n} of 25 clients are attackers" for n in (5, 10)]
    heat, _ = picture.attacks(kept, "digits", 10).axes
    assert heat.get_xticklabels()[0].get_text() == "none" and heat.images[0].get_array().shape == (len(names), 27)
    with pytest.raises(ConfigError, match="7"):
        picture.attacks(kept, "digits", 7)


def test_a_rule_from_outside_enters_in_minutes(tmp_path: Path) -> None:
    """Its rates, its own cells, the table: three commands, in a folder outside the repository."""
    (tmp_path / "their_rules.py").write_text(RULE)

    def call(command: str, *words: str) -> str:
        code = f"import sys; from robustfl_bench.commands.entry import {command}; sys.exit({command}())"
        python = {"PYTHONPATH": str(PACKAGE.parent)}
        done = subprocess.run([sys.executable, "-c", code, *words], cwd=tmp_path, env=os.environ | python,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    rule, part = "aggregator=their_rules:Halves", "partition=iid"
    cells = ("+experiment=arena/digits", rule, part, "attack=none,ipm", "num_byzantine=5", "seed=0,1")
    call("bench", "-m", "+experiment=arena/digits_rates", rule, part)
    call("bench", "-m", *cells)
    made = run_folders(tmp_path / "results")
    assert len(made) == 14 + 4 and all("halves" in str(folder) for folder in made.values())
    printed = call("results", "arena", "--allow", "their_rules")
    (line,) = (line for line in printed.split("\n\n")[1].splitlines() if line.startswith("halves"))
    assert "ipm 100%" in line and " to " in line and line.endswith("4/405")
    (flags,) = (line for line in printed.split("Flags: ")[1].splitlines() if line.startswith("halves"))
    assert "depends on the order of clients" in flags
    theirs = records.load(tmp_path / "results")
    *_, untried = page.sheets(theirs, "digits")
    assert untried.rows[0][1].text.startswith("not tried: add --allow their_rules")
    assert re.search(r"robustfl-bench -m \+experiment=arena/digits aggregator=(\S*,)?their_rules:Halves\n", printed)
    alone = ("--results-dir", "results")  # without the kept runs, which take seconds to read
    assert "not tested" in call("results", "arena", "--claims", *alone)
    assert call("results", "arena", "--plot", "rules.png", "--allow", "their_rules", *alone) == "rules.png\n"
    call("results", "report", "--where", "attack=none,ipm", "--where", "validation_share=null")
    assert "halves" in (tmp_path / "report.html").read_text(encoding="utf-8")
